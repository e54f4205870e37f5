"""When a lane closes batches, what goes into one, and what one request may carry."""

import pytest

from sidecar.batch import Ack, Entry, Lines
from sidecar.lane import BATCHES_IN_FLIGHT_MAX, Lane, LaneLimits
from sidecar.message import Message
from sidecar.producer import ProducerEpoch
from sidecar.results import AppendResult, Verdict, refusal
from sidecar.settlement import RETRY_AFTER_DEFAULT_S

COMMITTED = AppendResult(Verdict.COMMITTED, 0, "committed")


class CountedEpochs:
    """Epochs in memory."""

    def __init__(self):
        self.current = ProducerEpoch(7, 0)

    def raise_epoch(self):
        self.current = ProducerEpoch(self.current.producer_id, self.current.epoch + 1)
        return self.current

    def replace_id(self):
        self.current = ProducerEpoch(self.current.producer_id + 1, 0)
        return self.current


@pytest.fixture
def make_lane():
    def make(**limits):
        defaults = {
            "ring_entries_max": 100,
            "ring_bytes_max": 1_000_000,
            "batch_bytes_max": 200,
            "linger_s": 0.0,
        }
        return Lane("t", 0, CountedEpochs(), LaneLimits(**{**defaults, **limits}))

    return make


def message(size=10, ack=Ack.CORE, told=None):
    reply = (lambda _: None) if told is None else told.append
    return Entry(Message("t", b"x" * size, 1), ack, reply)


def counts(batches):
    return [batch.producer.count for batch in batches]


def test_an_idle_lane_has_nothing_due_and_the_first_message_is_due_at_once(make_lane):
    lane = make_lane()
    assert lane.due_at() is None
    assert lane.empty
    assert lane.offer(message(), now=5.0)
    assert lane.due_at() == 5.0
    assert not lane.empty


def test_linger_delays_the_first_message_of_an_idle_lane_and_not_those_that_join_it(make_lane):
    lane = make_lane(linger_s=0.5)
    lane.offer(message(), now=1.0)
    lane.offer(message(), now=1.4)
    assert lane.due_at() == 1.5


def test_a_full_batch_does_not_wait_for_the_linger_time(make_lane):
    lane = make_lane(linger_s=0.5, batch_bytes_max=100)
    lane.offer(message(size=100), now=1.0)
    assert lane.due_at() == 0.0


def test_what_came_while_an_answer_was_awaited_is_due_with_the_answer(make_lane):
    lane = make_lane(linger_s=9.0)
    lane.offer(message(), now=1.0)
    lane.load(1000)
    lane.offer(message(), now=2.0)
    assert lane.due_at() is None
    lane.settle([COMMITTED], now=3.0)
    assert lane.due_at() == 3.0


def test_a_batch_is_closed_at_its_size_and_a_larger_message_goes_alone(make_lane):
    lane = make_lane(batch_bytes_max=100)
    for size in (10, 10, 10, 500, 10):
        lane.offer(message(size=size), now=0.0)
    # Each record counts for its bytes and 32 more: two of ten bytes fit, three do not.
    assert counts(lane.load(10_000)) == [2, 1, 1, 1]


def test_messages_and_lines_are_never_in_one_batch(make_lane):
    lane = make_lane(batch_bytes_max=10_000)
    lane.offer(message(), now=0.0)
    lane.offer(Entry(Lines("t", b"a\nb", 2, 1), Ack.CORE, None), now=0.0)
    lane.offer(Entry(Lines("t", b"c", 1, 1), Ack.CORE, None), now=0.0)
    lane.offer(message(), now=0.0)
    assert counts(lane.load(10_000)) == [1, 3, 1]


def test_those_who_wait_for_the_log_are_not_in_one_batch_with_those_who_do_not(make_lane):
    lane = make_lane(batch_bytes_max=10_000)
    for ack in (Ack.CORE, Ack.AUTO, Ack.SIDECAR, Ack.NONE, Ack.AUTO):
        lane.offer(message(ack=ack), now=0.0)
    assert counts(lane.load(10_000)) == [2, 2, 1]


def test_a_request_carries_at_most_five_batches_with_contiguous_sequences(make_lane):
    lane = make_lane(batch_bytes_max=80)
    for _ in range(8):
        lane.offer(message(size=60), now=0.0)
    batches = lane.load(100_000)
    assert len(batches) == BATCHES_IN_FLIGHT_MAX
    assert [batch.producer.first_sequence for batch in batches] == [0, 1, 2, 3, 4]
    assert lane.load(100_000) == []
    lane.settle([COMMITTED] * 5, now=1.0)
    assert [batch.producer.first_sequence for batch in lane.load(100_000)] == [5, 6, 7]


def test_a_request_stays_within_its_bytes_but_always_carries_one_batch(make_lane):
    lane = make_lane(batch_bytes_max=80)
    for _ in range(3):
        lane.offer(message(size=60), now=0.0)
    assert len(lane.load(1)) == 1
    lane.lost(sent=False, now=0.0)
    size = len(lane.queue[0].frame)
    assert len(lane.load(2 * size)) == 2


def test_after_single_one_request_carries_one_batch_and_the_next_ones_more(make_lane):
    lane = make_lane(batch_bytes_max=80)
    for _ in range(3):
        lane.offer(message(size=60), now=0.0)
    lane.single()
    assert len(lane.load(10_000)) == 1
    lane.settle([COMMITTED], now=0.0)
    assert len(lane.load(10_000)) == 2


def test_a_lost_answer_repeats_the_same_bytes(make_lane):
    lane = make_lane()
    lane.offer(message(), now=0.0)
    (first,) = [batch.frame for batch in lane.load(1000)]
    lane.lost(sent=True, now=0.0)
    lane.offer(message(), now=1.0)
    again = lane.load(10_000)
    assert again[0].frame == first
    assert again[0].doubtful
    assert not again[1].doubtful


def test_a_full_ring_refuses_and_takes_again_once_a_batch_was_closed(make_lane):
    lane = make_lane(ring_entries_max=2)
    assert lane.offer(message(), now=0.0)
    assert lane.offer(message(), now=0.0)
    assert not lane.offer(message(), now=0.0)
    lane.load(1000)
    assert lane.offer(message(), now=0.0)


def test_dropping_for_room_takes_the_oldest_that_nobody_answers_for_and_stops_at_a_promise(
    make_lane,
):
    lane = make_lane(ring_entries_max=4)
    for ack in (Ack.NONE, Ack.NONE, Ack.AUTO, Ack.NONE):
        lane.offer(message(ack=ack), now=0.0)
    assert lane.drop_for(42) == 1
    assert lane.offer(message(ack=Ack.NONE), now=0.0)
    assert lane.drop_for(42) == 1
    assert lane.offer(message(ack=Ack.NONE), now=0.0)
    # Now a promise stands first.
    assert lane.drop_for(42) == 0
    assert len(lane.ring) == 4


def test_a_quota_is_told_to_those_who_wait_and_its_time_holds_back_the_others(make_lane):
    lane = make_lane()
    lane.offer(message(), now=0.0)
    lane.load(1000)
    over = refusal("over_quota", {"retry_after_ms": 250})
    (settled,) = lane.settle([over], now=1.0)
    assert settled.result is over
    assert lane.empty
    lane.offer(message(ack=Ack.NONE), now=2.0)
    lane.load(1000)
    assert lane.settle([over], now=2.0) == []
    assert lane.due_at() == 2.25
    lane.load(1000)
    assert lane.settle([refusal("over_quota", {})], now=3.0) == []
    assert lane.due_at() == 3.0 + RETRY_AFTER_DEFAULT_S


def test_behind_a_denied_batch_the_others_go_on_in_a_new_epoch_from_sequence_zero(make_lane):
    lane = make_lane(batch_bytes_max=80)
    for _ in range(3):
        lane.offer(message(size=60), now=0.0)
    lane.load(10_000)
    gap = refusal("sequence_gap", {})
    (settled,) = lane.settle([refusal("denied", {}), gap, gap], now=0.0)
    assert settled.result.code == "denied"
    again = lane.load(10_000)
    assert [(b.producer.epoch, b.producer.first_sequence) for b in again] == [(1, 0), (1, 1)]
    lane.settle([COMMITTED, COMMITTED], now=0.0)
    lane.offer(message(), now=0.0)
    (after,) = lane.load(10_000)
    assert (after.producer.epoch, after.producer.first_sequence) == (1, 2)


def test_a_fenced_batch_goes_on_under_a_new_producer_id(make_lane):
    lane = make_lane()
    lane.offer(message(), now=0.0)
    lane.load(1000)
    assert lane.settle([refusal("fenced", {"current_epoch": 9})], now=0.0) == []
    (again,) = lane.load(1000)
    assert again.producer.producer_id == 8
    assert again.producer.first_sequence == 0


def test_what_is_abandoned_was_never_sent_and_what_is_in_doubt_stays(make_lane):
    lane = make_lane(batch_bytes_max=80)
    entries = [message(size=60) for _ in range(3)]
    lane.offer(entries[0], now=0.0)
    lane.load(1000)
    lane.lost(sent=True, now=0.0)
    lane.offer(entries[1], now=0.0)
    lane.load(1)
    lane.lost(sent=False, now=0.0)
    lane.offer(entries[2], now=0.0)
    assert lane.abandon() == entries[1:]
    assert [batch.entries for batch in lane.queue] == [[entries[0]]]
    lane.put_back(entries[1:])
    # The abandoned sequences stay unused: what follows begins an epoch, behind what is in doubt.
    assert lane.load(10_000) == [lane.queue[0]]
    lane.settle([COMMITTED], now=0.0)
    follow = lane.load(10_000)
    assert [(b.producer.epoch, b.producer.first_sequence) for b in follow] == [(1, 0), (1, 1)]


def test_nothing_is_abandoned_while_a_request_is_under_way(make_lane):
    lane = make_lane()
    lane.offer(message(), now=0.0)
    lane.load(1000)
    lane.offer(message(), now=0.0)
    assert lane.abandon() == []
    assert len(lane.ring) == 1


def test_a_message_flows_unless_something_before_it_stands_still_or_is_on_disk(make_lane):
    lane = make_lane()
    assert lane.flows
    lane.stalled = True
    assert lane.flows
    lane.offer(message(), now=0.0)
    assert not lane.flows
    lane.load(1000)
    lane.settle([COMMITTED], now=0.0)
    assert lane.flows
    lane.shelf.extend([(1, 0.0)])
    assert not lane.flows


@pytest.mark.parametrize("code", ["unavailable", "over_quota"])
def test_behind_a_refused_batch_that_may_be_in_the_log_doubt_keeps_its_place(make_lane, code):
    """The first try put both into the log, unheard; now the first is denied by a new policy."""
    lane = make_lane(batch_bytes_max=80)
    for _ in range(2):
        lane.offer(message(size=60), now=0.0)
    first, second = lane.load(10_000)
    frame = second.frame
    lane.lost(sent=True, now=0.0)
    lane.load(10_000)
    (settled,) = lane.settle([refusal("denied", {}), refusal(code, {})], now=0.0)
    assert settled.batch is first
    # Under another stamp, the log would not recognise it and hold it twice.
    assert second.frame == frame
    assert second.doubtful
    assert lane.load(10_000) == [second]


@pytest.mark.parametrize(("expected", "published_again"), [(5, False), (0, True)])
def test_a_gap_whose_next_number_is_behind_the_batch_is_a_repeat_and_not_sent_again(
    make_lane, expected, published_again
):
    lane = make_lane()
    for _ in range(2):
        lane.offer(message(), now=0.0)
        lane.load(1000)
        first = lane.queue[0].producer
        if first.first_sequence == 0:
            lane.settle([COMMITTED], now=0.0)
    answer = refusal("sequence_gap", {"expected_sequence": expected})
    settled = lane.settle([answer], now=0.0)
    assert bool(settled) is not published_again
    assert bool(lane.queue) is published_again
    if published_again:
        assert lane.queue[0].producer.epoch > first.epoch
    else:
        assert settled[0].result.verdict is Verdict.COMMITTED_UNPLACED
