"""Exactly-once append: the rule over all its inputs, its state, and who is forgotten first."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from core_log.log.producers import (
    ACCEPT,
    BEHIND,
    REPEATS_MAX,
    Batch,
    ProducerKey,
    Producers,
    ProducerState,
    Refusal,
    Repeat,
    StagedProducers,
    advance,
    batch_of,
    judge,
    key_of,
)
from log_format.sequence import SEQUENCE_MAX, sequence_after

DIGEST = b"digest.."
KEY = ProducerKey("billing", 1, "orders", 0)


def after(*batches: tuple[int, int, int]) -> ProducerState:
    """The state after batches of (epoch, first sequence, records); offsets count records."""
    state, offset = None, 0
    for leaf, (epoch, first, records) in enumerate(batches):
        state = advance(state, Batch(epoch, first, records, DIGEST), offset, leaf, 1000 + leaf)
        offset += records
    assert state is not None
    return state


@pytest.mark.parametrize("epoch", [0, 5])
def test_a_new_producer_begins_at_sequence_0(epoch: Any) -> None:
    assert judge(None, Batch(epoch, 0, 3, DIGEST)) is ACCEPT
    verdict = judge(None, Batch(epoch, 7, 3, DIGEST))
    assert isinstance(verdict, Refusal)
    assert (verdict.code, verdict.members) == ("sequence_gap", {"expected_sequence": 0})


def test_the_next_batch_is_taken_and_one_too_far_is_refused() -> None:
    state = after((2, 0, 10))
    assert judge(state, Batch(2, 10, 1, DIGEST)) is ACCEPT
    verdict = judge(state, Batch(2, 11, 1, DIGEST))
    assert isinstance(verdict, Refusal)
    assert (verdict.code, verdict.members) == ("sequence_gap", {"expected_sequence": 10})


def test_a_newer_epoch_begins_again_at_0_and_fences_the_older() -> None:
    state = after((2, 0, 10))
    assert judge(state, Batch(3, 0, 1, DIGEST)) is ACCEPT
    gap = judge(state, Batch(3, 10, 1, DIGEST))
    assert isinstance(gap, Refusal)
    assert (gap.code, gap.members) == ("sequence_gap", {"expected_sequence": 0})
    fenced = judge(after((2, 0, 10), (3, 0, 1)), Batch(2, 10, 1, DIGEST))
    assert isinstance(fenced, Refusal)
    assert (fenced.code, fenced.members) == ("fenced", {"current_epoch": 3})


def test_a_repeat_is_told_its_first_offset() -> None:
    state = after((0, 0, 3), (0, 3, 2), (0, 5, 4))
    assert judge(state, Batch(0, 0, 3, DIGEST)) == Repeat(0, 0, 1000)
    assert judge(state, Batch(0, 3, 2, DIGEST)) == Repeat(3, 1, 1001)
    assert judge(state, Batch(0, 5, 4, DIGEST)) == Repeat(5, 2, 1002)


@pytest.mark.parametrize("other", [Batch(0, 3, 1, DIGEST), Batch(0, 3, 2, b"another.")])
def test_another_batch_under_a_used_sequence_is_not_swallowed_as_a_repeat(other: Any) -> None:
    verdict = judge(after((0, 0, 3), (0, 3, 2)), other)
    assert isinstance(verdict, Refusal)
    assert verdict.code == "sequence_conflict"


def test_a_repeat_that_is_no_longer_remembered_is_still_not_appended() -> None:
    state = after(*((0, n, 1) for n in range(REPEATS_MAX + 2)))
    assert judge(state, Batch(0, 2, 1, DIGEST)) == Repeat(2, 2, 1002)
    for sequence in (0, 1):
        verdict = judge(state, Batch(0, sequence, 1, DIGEST))
        assert isinstance(verdict, Refusal)
        assert verdict.code == "duplicate_too_old"
        assert verdict.members == {"expected_sequence": REPEATS_MAX + 2}


def test_sequences_wrap_around() -> None:
    last = SEQUENCE_MAX - 1
    state = ProducerState(0, last, b"")
    crossing = Batch(0, last, 5, DIGEST)
    assert judge(state, crossing) is ACCEPT
    state = advance(state, crossing, 100, 9, 1)
    assert state.next_sequence == 3
    assert judge(state, crossing) == Repeat(100, 9, 1)
    assert judge(state, Batch(0, 3, 1, DIGEST)) is ACCEPT
    assert judge(state, Batch(0, 4, 1, DIGEST)).code == "sequence_gap"
    assert judge(state, Batch(0, 2, 1, DIGEST)).code == "duplicate_too_old"


@given(
    st.integers(0, SEQUENCE_MAX),
    st.integers(0, SEQUENCE_MAX),
    st.integers(0, 2),
    st.integers(0, 2),
)
def test_only_the_one_sequence_that_is_next_is_ever_taken(
    following: Any, first: Any, epoch: Any, current: Any
) -> None:
    verdict = judge(ProducerState(current, following, b""), Batch(epoch, first, 1, DIGEST))
    if epoch < current:
        assert verdict.code == "fenced"
    elif epoch > current:
        assert (verdict is ACCEPT) == (first == 0)
    elif first == following:
        assert verdict is ACCEPT
    else:
        ahead = (first - following) & SEQUENCE_MAX < BEHIND
        assert verdict.code == ("sequence_gap" if ahead else "duplicate_too_old")


def test_the_key_and_the_numbers_come_from_the_envelope(frames: Any) -> None:
    frame = frames.frame("orders", [b"a", b"b"], partition=2, producer_id=7, epoch=3, sequence=40)
    assert key_of(frame.envelope) == ProducerKey("billing", 7, "orders", 2)
    batch = batch_of(frame.envelope.producer)
    assert batch[:3] == (3, 40, 2)
    assert frame.envelope.producer.body_sha256.startswith(batch.digest)
    assert key_of(frames.frame(provenance=None).envelope).principal == ""


def test_another_principal_with_the_same_id_neither_fences_nor_swallows() -> None:
    producers = Producers(100)
    mine = KEY
    theirs = KEY._replace(principal="mallory")
    producers.put(mine, after((0, 0, 3)))
    producers.put(theirs, after((9, 0, 1)))
    assert judge(producers.get(mine), Batch(0, 3, 1, DIGEST)) is ACCEPT
    assert isinstance(judge(producers.get(mine), Batch(0, 0, 3, DIGEST)), Repeat)
    assert judge(producers.get(theirs), Batch(9, 1, 1, DIGEST)) is ACCEPT


def test_a_flood_of_ids_costs_only_the_principal_that_sends_it() -> None:
    producers = Producers(100)
    producers.put(KEY, after((0, 0, 3)))
    for number in range(1000):
        producers.put(ProducerKey("mallory", number, "orders", 0), after((0, 0, 1)))
        assert len(producers) <= 100
    assert producers.get(KEY) is not None
    assert producers.get(ProducerKey("mallory", 999, "orders", 0)) is not None
    assert producers.get(ProducerKey("mallory", 0, "orders", 0)) is None


def test_the_longest_idle_of_a_principal_goes_first() -> None:
    producers = Producers(3)
    keys = [KEY._replace(producer_id=number) for number in range(5)]
    for key in keys[:3]:
        producers.put(key, after((0, 0, 1)))
    producers.put(keys[0], after((0, 0, 1), (0, 1, 1)))
    producers.put(keys[3], after((0, 0, 1)))
    assert [producers.get(key) is not None for key in keys] == [True, False, True, True, False]
    assert [key for key, _ in producers.snapshot()] == [keys[2], keys[0], keys[3]]


def test_a_group_that_is_dropped_has_changed_nothing() -> None:
    producers = Producers(10)
    producers.put(KEY, after((0, 0, 3)))
    staged = StagedProducers(producers)
    assert staged.get(KEY) == after((0, 0, 3))
    staged.put(KEY, after((0, 0, 3), (0, 3, 1)))
    assert staged.get(KEY).next_sequence == 4
    assert producers.get(KEY).next_sequence == 3
    staged.apply()
    assert producers.get(KEY).next_sequence == 4


class OneProducer(RuleBasedStateMachine):
    """A producer that repeats, skips and restarts, against a list of what was appended."""

    def __init__(self) -> None:
        super().__init__()
        self.state: ProducerState | None = None
        self.epoch = 0
        self.appended: list[tuple[int, int, int]] = []  # epoch, first sequence, records
        self.offsets: list[int] = []
        self.end = 0

    @property
    def following(self) -> int:
        mine = [each for each in self.appended if each[0] == self.epoch]
        return sequence_after(mine[-1][1], mine[-1][2]) if mine else 0

    @rule(records=st.integers(1, 1_000_000))
    def send_the_next(self, records: int) -> None:
        batch = Batch(self.epoch, self.following, records, DIGEST)
        assert judge(self.state, batch) is ACCEPT
        self.state = advance(self.state, batch, self.end, len(self.appended), 5)
        self.appended.append((self.epoch, batch.first_sequence, records))
        self.offsets.append(self.end)
        self.end += records

    @rule(back=st.integers(1, 30))
    def send_again(self, back: int) -> None:
        mine = [n for n, each in enumerate(self.appended) if each[0] == self.epoch]
        if back > len(mine):
            return
        number = mine[-back]
        _, first, records = self.appended[number]
        verdict = judge(self.state, Batch(self.epoch, first, records, DIGEST))
        if back <= REPEATS_MAX:
            assert verdict == Repeat(self.offsets[number], number, 5)
        else:
            assert verdict is not ACCEPT

    @rule(ahead=st.integers(1, 1000))
    def leave_a_gap(self, ahead: int) -> None:
        batch = Batch(self.epoch, sequence_after(self.following, ahead), 1, DIGEST)
        assert judge(self.state, batch).members == {"expected_sequence": self.following}

    @rule()
    def begin_an_epoch(self) -> None:
        if self.state is not None:
            self.epoch = self.state.epoch + 1

    @invariant()
    def state_is_small(self) -> None:
        assert self.state is None or len(self.state.recent) <= REPEATS_MAX * 40


TestOneProducer = OneProducer.TestCase
