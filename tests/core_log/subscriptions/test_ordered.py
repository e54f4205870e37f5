"""Ordered delivery: one holder at a time, nothing lost, whatever members do and when."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from core_log.subscriptions.cursor import Cursor, Place
from core_log.subscriptions.handing import (
    Assign,
    BadAnswer,
    Effect,
    Ended,
    Fenced,
    Numbers,
    Redeliver,
    Revoke,
)
from core_log.subscriptions.ordered import REJOIN_S, Ordered

LEASE_S = 10.0


def group(*lows: int) -> Ordered:
    return Ordered([Cursor(Place(low)) for low in lows], lease_s=LEASE_S, number=Numbers(0))


def assigned(effects: list[Effect]) -> dict[int, tuple[int, int]]:
    return {e.partition: (e.session, e.generation) for e in effects if isinstance(e, Assign)}


def test_the_first_member_gets_everything_from_the_low_marks() -> None:
    ordered = group(5, 0)
    assert assigned(ordered.join(1, "a", now=0.0, since_us=0)) == {0: (1, 1), 1: (1, 2)}
    assert [each.given for each in ordered.partitions] == [5, 0]


def test_a_partition_with_nothing_in_hand_moves_at_once() -> None:
    ordered = group(0, 0)
    ordered.join(1, "a", now=0.0, since_us=0)
    effects = ordered.join(2, "b", now=1.0, since_us=0)
    assert effects == [Revoke(1, 1, 2), Assign(2, 1, 3)]


def test_a_partition_moves_when_all_that_was_given_is_acknowledged() -> None:
    ordered = group(0, 0)
    generation = assigned(ordered.join(1, "a", now=0.0, since_us=0))[1][1]
    ordered.gave(1, 1, 4)
    assert ordered.join(2, "b", now=1.0, since_us=0) == [Revoke(1, 1, generation)]
    assert ordered.ack(1, 1, generation, [(0, 2)], 2.0) == []
    effects = ordered.ack(1, 1, generation, [(3, 3)], 2.0)
    assert assigned(effects).keys() == {1}
    assert ordered.released(1, 1, generation, 2.0) == [], "late, and nothing is wrong"


def test_a_partition_moves_when_it_is_released_and_no_attempt_is_counted() -> None:
    ordered = group(0, 0)
    generation = assigned(ordered.join(1, "a", now=0.0, since_us=0))[1][1]
    ordered.gave(1, 1, 4)
    ordered.join(2, "b", now=1.0, since_us=0)
    assert assigned(ordered.released(1, 1, generation, 2.0)).keys() == {1}
    assert ordered.partitions[1].cursor.attempts == {}


def test_a_holder_that_is_asked_and_does_nothing_loses_the_partition_with_its_lease() -> None:
    ordered = group(0, 0)
    generation = assigned(ordered.join(1, "a", now=0.0, since_us=0))[1][1]
    ordered.gave(1, 1, 2)
    ordered.join(2, "b", now=1.0, since_us=0)
    ordered.heard(1, 10.9)
    ordered.heard(2, 10.9)
    assert ordered.tick(10.9) == []
    assert ordered.next_due() == 1.0 + LEASE_S
    assert assigned(ordered.tick(11.0)).keys() == {1}
    assert ordered.partitions[1].cursor.attempts == {0: 1, 1: 1}
    assert ordered.ack(1, 1, generation, [(0, 1)], 11.0) == [Fenced(1, 1, generation)]
    assert ordered.partitions[1].cursor.low == 0


def test_a_lost_member_gets_its_partitions_back_when_it_returns_in_time() -> None:
    ordered = group(0, 0)
    ordered.join(1, "a", now=0.0, since_us=0)
    ordered.join(2, "b", now=0.0, since_us=0)
    ordered.gave(2, 1, 3)
    assert ordered.lost(2, 5.0) == []
    assert ordered.next_due() == 5.0 + REJOIN_S
    back = ordered.join(3, "b", now=5.5, since_us=0)
    assert list(assigned(back)) == [1]
    assert ordered.partitions[1].cursor.attempts == {0: 1, 1: 1, 2: 1}
    assert ordered.partitions[1].cursor.redelivered == 3


def test_others_take_over_what_a_lost_member_had_after_a_moment() -> None:
    ordered = group(0, 0)
    ordered.join(1, "a", now=0.0, since_us=0)
    ordered.join(2, "b", now=0.0, since_us=0)
    ordered.lost(2, 5.0)
    assert assigned(ordered.tick(5.0 + REJOIN_S)) == {1: (1, 4)}


def test_members_that_all_go_and_come_back_find_what_they_had() -> None:
    ordered = group(0, 0, 0)
    for session, name in enumerate("abc"):
        ordered.join(session, name, now=0.0, since_us=0)
    before = {p: each.holder for p, each in enumerate(ordered.partitions)}
    for session in range(3):
        ordered.lost(session, 5.0)
    moved: dict[int, int] = {}
    for session, name in ((12, "c"), (10, "a"), (11, "b")):
        effects = ordered.join(session, name, now=30.0, since_us=0)
        assert not any(isinstance(effect, Revoke) for effect in effects)
        moved |= {p: taker - 10 for p, (taker, _) in assigned(effects).items()}
    assert moved == before


def test_the_newer_of_two_with_one_name_wins() -> None:
    ordered = group(0)
    generation = assigned(ordered.join(1, "a", now=0.0, since_us=0))[0][1]
    ordered.gave(1, 0, 2)
    effects = ordered.join(2, "a", now=1.0, since_us=0)
    assert isinstance(effects[0], Ended)
    assert (effects[0].session, effects[0].code) == (1, "member_replaced")
    assert list(assigned(effects)) == [0]
    assert ordered.ack(1, 0, generation, [(0, 1)], 1.0) == [Fenced(1, 0, generation)]
    assert ordered.partitions[0].cursor.attempts == {0: 1, 1: 1}


def test_a_silent_member_is_ended() -> None:
    ordered = group(0)
    ordered.join(1, "a", now=0.0, since_us=0)
    ordered.heard(1, 3.0)
    assert ordered.tick(12.9) == []
    (ended,) = ordered.tick(13.0)
    assert isinstance(ended, Ended)
    assert ended.code == "lease_expired"
    assert len(ordered.members) == 0


def test_what_is_nacked_comes_again_after_its_delay_with_an_attempt_more() -> None:
    ordered = group(0)
    generation = assigned(ordered.join(1, "a", now=0.0, since_us=0))[0][1]
    ordered.gave(1, 0, 5)
    assert ordered.nack(1, 0, generation, [1, 3], 2.0, 1.0) == []
    assert ordered.next_due() == 2.0
    assert ordered.tick(2.0) == [Redeliver(1, 0, generation, (1, 3))]
    assert ordered.partitions[0].cursor.attempts == {1: 1, 3: 1}
    assert ordered.tick(3.0) == []


def test_what_waits_for_its_delay_is_in_nobodys_hands() -> None:
    ordered = group(0, 0)
    generation = assigned(ordered.join(1, "a", now=0.0, since_us=0))[1][1]
    ordered.gave(1, 1, 1)
    ordered.nack(1, 1, generation, [0], 60.0, 1.0)
    assert assigned(ordered.join(2, "b", now=1.0, since_us=0)).keys() == {1}
    assert ordered.partitions[1].cursor.attempts == {0: 1}


def test_a_member_can_not_acknowledge_what_it_was_not_given() -> None:
    ordered = group(0)
    generation = assigned(ordered.join(1, "a", now=0.0, since_us=0))[0][1]
    ordered.gave(1, 0, 3)
    with pytest.raises(BadAnswer, match="offset 3 of partition 0"):
        ordered.ack(1, 0, generation, [(2, 3)], 0.0)
    with pytest.raises(BadAnswer):
        ordered.nack(1, 0, generation, [3], 0.0, 0.0)
    assert ordered.ack(1, 9, generation, [(0, 0)], 0.0) == [Fenced(1, 9, generation)]


def test_a_seek_gives_the_same_member_a_new_generation() -> None:
    ordered = group(0)
    old = assigned(ordered.join(1, "a", now=0.0, since_us=0))[0][1]
    ordered.gave(1, 0, 5)
    ordered.ack(1, 0, old, [(0, 3)], 0.0)
    effects = ordered.seek({0: 2}, 1.0)
    assert effects == [Revoke(1, 0, old), Assign(1, 0, old + 1)]
    assert ordered.partitions[0].cursor.place == Place(2)
    assert ordered.ack(1, 0, old, [(4, 4)], 1.0) == [Fenced(1, 0, old)]
    assert ordered.members.get(1).in_flight == 0  # type: ignore[union-attr]


def test_a_member_that_releases_unasked_gets_nothing_more() -> None:
    ordered = group(0, 0)
    generation = assigned(ordered.join(1, "a", now=0.0, since_us=0))[0][1]
    ordered.join(2, "b", now=0.0, since_us=0)
    assert assigned(ordered.released(1, 0, generation, 1.0)) == {0: (2, 4)}
    assert ordered.lost(1, 1.0) == []
    assert ordered.next_due() == LEASE_S, "nobody waits for its return"


def test_partitions_that_are_added_are_given_out() -> None:
    ordered = group(0)
    ordered.join(1, "a", now=0.0, since_us=0)
    assert assigned(ordered.grow([Cursor(Place(7))], 1.0)) == {1: (1, 2)}


def test_what_can_not_be_read_is_passed() -> None:
    ordered = group(0)
    ordered.join(1, "a", now=0.0, since_us=0)
    ordered.skip(0, 0, 4, 0.0)
    assert ordered.partitions[0].cursor.place == Place(4, expired=4)


class OrderedMachine(RuleBasedStateMachine):
    """Members that do anything at any time; the model knows what is in whose hands."""

    @initialize(partitions=st.integers(1, 5))
    def begin(self, partitions: int) -> None:
        self.ordered = group(*[0] * partitions)
        self.now = 0.0
        self.sessions = 0
        self.names: dict[int, str] = {}
        self.generations: dict[tuple[int, int], int] = {}
        self.hands: dict[tuple[int, int], set[int]] = {}
        self.asked: dict[tuple[int, int], float] = {}
        self.done: list[set[int]] = [set() for _ in range(partitions)]
        self.tries: list[dict[int, int]] = [{} for _ in range(partitions)]
        self.last_generation = 0

    def play(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Assign(session, partition, generation):
                    assert generation > self.last_generation
                    self.last_generation = generation
                    for (other, p), hand in self.hands.items():
                        # Whoever had it has nothing of it in hand, or its time is up.
                        late = self.now - self.asked.get((other, p), self.now) >= LEASE_S
                        assert p != partition or not hand or late
                    self.forget(partition)
                    self.generations[session, partition] = generation
                    self.hands[session, partition] = set()
                case Revoke(session, partition, generation):
                    assert self.generations[session, partition] == generation
                    self.asked.setdefault((session, partition), self.now)
                case Redeliver(session, partition, generation, offsets):
                    assert self.generations[session, partition] == generation
                    self.hands[session, partition] |= set(offsets)
                case Ended(session, _, _):
                    self.gone(session)
                case Fenced():
                    raise AssertionError("nobody spoke of what is another's")

    def forget(self, partition: int) -> None:
        for key in [key for key in self.hands if key[1] == partition]:
            late = self.now - self.asked.get(key, self.now) >= LEASE_S
            if late:
                self.count(partition, self.hands[key])
            del self.hands[key], self.generations[key]
            self.asked.pop(key, None)

    def gone(self, session: int) -> None:
        self.names.pop(session, None)
        for key in [key for key in self.hands if key[0] == session]:
            self.count(key[1], self.hands[key])
            del self.hands[key], self.generations[key]
            self.asked.pop(key, None)

    def count(self, partition: int, offsets: set[int]) -> None:
        for offset in offsets:
            self.tries[partition][offset] = self.tries[partition].get(offset, 0) + 1

    def held(self, data: st.DataObject) -> tuple[int, int]:
        return data.draw(st.sampled_from(sorted(self.hands)))

    @rule(name=st.sampled_from("abcd"))
    def join(self, name: str) -> None:
        self.sessions += 1
        self.names[self.sessions] = name
        self.play(self.ordered.join(self.sessions, name, now=self.now, since_us=0))

    @precondition(lambda self: self.names)
    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        session = data.draw(st.sampled_from(sorted(self.names)))
        self.gone(session)
        self.play(self.ordered.lost(session, self.now))

    @precondition(lambda self: self.hands)
    @rule(data=st.data(), count=st.integers(1, 4))
    def give(self, data: st.DataObject, count: int) -> None:
        session, partition = self.held(data)
        if (session, partition) in self.asked:
            return
        each = self.ordered.partitions[partition]
        new = set(range(each.given, each.given + count))
        self.ordered.gave(session, partition, each.given + count)
        self.hands[session, partition] |= new - self.done[partition]

    @precondition(lambda self: self.hands)
    @rule(data=st.data())
    def ack(self, data: st.DataObject) -> None:
        session, partition = self.held(data)
        hand = sorted(self.hands[session, partition])
        if hand:
            some = data.draw(st.sets(st.sampled_from(hand), min_size=1))
            self.hands[session, partition] -= some
            self.done[partition] |= some
            ranges = [(offset, offset) for offset in some]
            generation = self.generations[session, partition]
            self.play(self.ordered.ack(session, partition, generation, ranges, self.now))

    @precondition(lambda self: self.hands)
    @rule(data=st.data(), delay=st.floats(0, 20))
    def nack(self, data: st.DataObject, delay: float) -> None:
        session, partition = self.held(data)
        hand = sorted(self.hands[session, partition])
        if hand:
            offset = data.draw(st.sampled_from(hand))
            self.hands[session, partition] -= {offset}
            self.count(partition, {offset})
            generation = self.generations[session, partition]
            again = self.now + delay
            effects = self.ordered.nack(session, partition, generation, [offset], again, self.now)
            self.play(effects)

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        session, partition = data.draw(st.sampled_from(sorted(self.asked)))
        self.hands[session, partition] = set()
        generation = self.generations[session, partition]
        self.play(self.ordered.released(session, partition, generation, self.now))

    @rule(seconds=st.floats(0, 4), silent=st.booleans())
    def pass_time(self, seconds: float, *, silent: bool) -> None:
        self.now += seconds
        if not silent:
            for session in self.names:
                self.ordered.heard(session, self.now)
        due = self.ordered.next_due()
        if due is not None and due <= self.now:
            self.play(self.ordered.tick(self.now))

    @invariant()
    def the_group_and_the_model_agree(self) -> None:
        for partition, each in enumerate(self.ordered.partitions):
            holders = [session for session, p in self.hands if p == partition]
            assert holders == ([] if each.holder is None else [each.holder])
            for offset in self.done[partition]:
                assert each.cursor.done(offset)
            tries = {
                offset: count
                for offset, count in self.tries[partition].items()
                if offset not in self.done[partition]
            }
            assert each.cursor.attempts == tries
            hand = {o for (_, p), mine in self.hands.items() if p == partition for o in mine}
            assert each.in_hand == len(hand) or each.holder is None

    @invariant()
    def in_flight_is_what_members_hold(self) -> None:
        for member in self.ordered.members:
            mine = [e for e in self.ordered.partitions if e.holder == member.session]
            assert member.in_flight == sum(each.in_flight for each in mine)

    def teardown(self) -> None:
        """Whoever is there gets everything, evenly, once all leases have run out."""
        if not getattr(self, "names", None):
            return
        for _ in range(4):
            self.now += LEASE_S + REJOIN_S
            for session in self.names:
                self.ordered.heard(session, self.now)
            self.play(self.ordered.tick(self.now))
        holders = [each.holder for each in self.ordered.partitions]
        loads = [holders.count(session) for session in self.names]
        assert None not in holders
        assert max(loads) - min(loads) <= 1


OrderedMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestOrdered = OrderedMachine.TestCase
