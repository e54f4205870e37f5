"""First come, first served: each batch to one member, again when that one fails, lost never."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from core_log.subscriptions.cursor import RANGES_SLOW, Cursor, Place
from core_log.subscriptions.fcfs import Fcfs, Lease, Want
from core_log.subscriptions.handing import BadAnswer, Effect, Ended, Fenced, Numbers, Revoke
from core_log.subscriptions.tries import Try

LEASE_S = 10.0


def group(*lows: int) -> Fcfs:
    return Fcfs([Cursor(Place(low)) for low in lows], lease_s=LEASE_S, number=Numbers(0))


def frame_of(offset: int) -> tuple[int, int]:
    """Batches of five messages."""
    return offset - offset % 5, offset - offset % 5 + 5


def hand_out(fcfs: Fcfs, now: float = 0.0, end: int = 20) -> Lease | None:
    want = fcfs.want(now, lambda _: end)
    session = fcfs.free_member(lambda _: True)
    if want is None or session is None:
        return None
    return fcfs.give(session, want, *frame_of(want.offset))


def test_batches_go_to_whoever_holds_least() -> None:
    fcfs = group(0)
    fcfs.join(1, "a", now=0.0, since_us=0)
    fcfs.join(2, "b", now=0.0, since_us=0)
    leases = [hand_out(fcfs) for _ in range(4)]
    assert [lease.session for lease in leases if lease] == [1, 2, 1, 2]
    assert [(lease.first, lease.end) for lease in leases if lease] == [
        (0, 5),
        (5, 10),
        (10, 15),
        (15, 20),
    ]
    assert hand_out(fcfs) is None


def test_partitions_take_turns() -> None:
    fcfs = group(0, 0, 0)
    fcfs.join(1, "a", now=0.0, since_us=0)
    leases = [hand_out(fcfs) for _ in range(4)]
    assert [lease.partition for lease in leases if lease] == [0, 1, 2, 0]


def test_a_batch_that_is_partly_done_is_about_the_rest() -> None:
    fcfs = Fcfs([Cursor(Place(1, ((3, 3), (5, 9))))], lease_s=LEASE_S, number=Numbers(0))
    fcfs.join(1, "a", now=0.0, since_us=0)
    lease = hand_out(fcfs)
    assert lease is not None
    assert (lease.first, lease.end, lease.meant) == (0, 5, [(1, 2), (4, 4)])
    following = hand_out(fcfs)
    assert following is not None
    assert following.first == 10, "a batch that is wholly done is not given out"


def test_what_a_lost_member_held_goes_to_the_next_with_an_attempt_more() -> None:
    fcfs = group(0)
    fcfs.join(1, "a", now=0.0, since_us=0)
    lease = hand_out(fcfs)
    assert lease is not None
    fcfs.ack(1, 0, lease.number, [(1, 2)], 0.0)
    fcfs.lost(1, 1.0)
    fcfs.join(2, "b", now=1.0, since_us=0)
    again = hand_out(fcfs, 1.0)
    assert again is not None
    assert (again.session, again.first, again.meant) == (2, 0, [(0, 0), (3, 4)])
    cursor = fcfs.partitions[0].cursor
    assert (cursor.attempts, cursor.redelivered) == ({0: 1, 3: 1, 4: 1}, 3)
    assert fcfs.ack(1, 0, lease.number, [(0, 0)], 1.0) == [Fenced(1, 0, lease.number)]


def test_a_silent_member_loses_what_it_holds() -> None:
    fcfs = group(0)
    fcfs.join(1, "a", now=0.0, since_us=0)
    hand_out(fcfs)
    assert fcfs.next_due() == LEASE_S
    (ended,) = fcfs.tick(LEASE_S)
    assert isinstance(ended, Ended)
    assert ended.code == "lease_expired"
    assert not fcfs.leases


def test_the_newer_of_two_with_one_name_wins() -> None:
    fcfs = group(0)
    fcfs.join(1, "a", now=0.0, since_us=0)
    hand_out(fcfs)
    (ended,) = fcfs.join(2, "a", now=0.0, since_us=0)
    assert isinstance(ended, Ended)
    assert (ended.session, ended.code) == (1, "member_replaced")
    again = hand_out(fcfs)
    assert again is not None
    assert again.session == 2


def test_what_is_nacked_comes_alone_after_its_delay() -> None:
    fcfs = group(0)
    fcfs.join(1, "a", now=0.0, since_us=0)
    lease = hand_out(fcfs)
    assert lease is not None
    fcfs.nack(1, 0, lease.number, [1, 3], 5.0, 0.0)
    assert lease.meant == [(0, 0), (2, 2), (4, 4)]
    assert fcfs.next_due() == 5.0
    following = hand_out(fcfs, 4.9)
    assert following is not None
    assert following.first == 5
    again = hand_out(fcfs, 5.0)
    assert again is not None
    assert (again.first, again.meant) == (0, [(1, 1), (3, 3)])
    assert fcfs.partitions[0].cursor.attempts == {1: 1, 3: 1}


def test_a_lease_that_is_given_back_adds_no_attempt_and_its_member_gets_no_more() -> None:
    fcfs = group(0)
    fcfs.join(1, "a", now=0.0, since_us=0)
    lease = hand_out(fcfs)
    assert lease is not None
    fcfs.released(1, 0, lease.number, 0.0)
    assert fcfs.free_member(lambda _: True) is None
    fcfs.join(2, "b", now=0.0, since_us=0)
    again = hand_out(fcfs)
    assert again is not None
    assert (again.session, again.first) == (2, 0)
    assert fcfs.partitions[0].cursor.attempts == {}


def test_a_member_can_not_speak_of_more_than_its_lease() -> None:
    fcfs = group(0)
    fcfs.join(1, "a", now=0.0, since_us=0)
    lease = hand_out(fcfs)
    assert lease is not None
    with pytest.raises(BadAnswer, match="offsets 0 to 4"):
        fcfs.ack(1, 0, lease.number, [(4, 5)], 0.0)
    with pytest.raises(BadAnswer):
        fcfs.nack(1, 0, lease.number, [5], 0.0, 0.0)
    assert fcfs.ack(2, 0, lease.number, [(0, 0)], 0.0) == [Fenced(2, 0, lease.number)]
    assert fcfs.attempts(1, 0, 99, {0: 3}, {}) == [Fenced(1, 0, 99)]


def test_a_members_own_attempts_are_kept() -> None:
    fcfs = group(0)
    fcfs.join(1, "a", now=0.0, since_us=0)
    lease = hand_out(fcfs)
    assert lease is not None
    tries = (Try(3, 7, 500, "the app answered 500"),)
    assert fcfs.attempts(1, 0, lease.number, {2: 3}, {2: tries}) == []
    fcfs.lost(1, 0.0)
    assert fcfs.partitions[0].cursor.attempts[2] == 4
    assert fcfs.partitions[0].cursor.history.known == {2: tries}


def test_by_hand_holds_whoever_has_it() -> None:
    fcfs = group(0)
    fcfs.join(1, "a", now=0.0, since_us=0)
    lease = hand_out(fcfs)
    assert lease is not None
    fcfs.ack_by_hand(0, [(0, 1)], 0.0)
    assert lease.meant == [(2, 4)]
    fcfs.nack_by_hand(0, [2, 9], 0.0, 0.0)
    assert lease.meant == [(3, 4)]
    assert fcfs.partitions[0].cursor.attempts == {2: 1, 9: 1}
    fcfs.ack_by_hand(0, [(0, 4)], 0.0)
    assert not fcfs.leases
    assert fcfs.partitions[0].in_flight == 0


def test_a_seek_takes_everything_back() -> None:
    fcfs = group(0)
    fcfs.join(1, "a", now=0.0, since_us=0)
    lease = hand_out(fcfs)
    assert lease is not None
    fcfs.nack(1, 0, lease.number, [4], 0.0, 0.0)
    assert fcfs.seek({0: 5}, 1.0) == [Revoke(1, 0, lease.number)]
    assert fcfs.ack(1, 0, lease.number, [(0, 0)], 1.0) == [Fenced(1, 0, lease.number)]
    again = hand_out(fcfs, 1.0)
    assert again is not None
    assert again.first == 5


def test_a_partition_with_too_many_gaps_waits_for_them() -> None:
    gaps = tuple((offset, offset) for offset in range(1, 2 * RANGES_SLOW, 2))
    fcfs = Fcfs([Cursor(Place(0, gaps))], lease_s=LEASE_S, number=Numbers(0))
    assert fcfs.want(0.0, lambda _: 100_000) is None
    fcfs.ack_by_hand(0, [(0, 0)], 0.0)
    assert fcfs.want(0.0, lambda _: 100_000) == Want(0, 2, 0)


def test_what_can_not_be_read_is_passed() -> None:
    fcfs = group(0, 0)
    fcfs.join(1, "a", now=0.0, since_us=0)
    fcfs.skip(0, 0, 7, 0.0)
    assert fcfs.want(0.0, lambda _: 20) == Want(0, 7, 0)
    assert fcfs.partitions[0].cursor.expired == 7
    assert fcfs.grow([Cursor(Place(3))], 0.0) == []
    assert len(fcfs.partitions) == 3


class FcfsMachine(RuleBasedStateMachine):
    """Every offset that was given out is done, or in exactly one hand, or due to come again."""

    @initialize(partitions=st.integers(1, 3))
    def begin(self, partitions: int) -> None:
        self.fcfs = group(*[0] * partitions)
        self.now = 0.0
        self.end = 0
        self.sessions = 0
        self.live: set[int] = set()
        self.done: list[set[int]] = [set() for _ in range(partitions)]
        self.given: list[set[int]] = [set() for _ in range(partitions)]

    def play(self, effects: list[Effect]) -> None:
        for effect in effects:
            assert isinstance(effect, Ended)
            self.live.discard(effect.session)

    @rule(count=st.integers(1, 3))
    def publish(self, count: int) -> None:
        self.end += 5 * count

    @rule(name=st.sampled_from("abc"))
    def join(self, name: str) -> None:
        self.sessions += 1
        self.live.add(self.sessions)
        self.play(self.fcfs.join(self.sessions, name, now=self.now, since_us=0))

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        session = data.draw(st.sampled_from(sorted(self.live)))
        self.live.discard(session)
        self.play(self.fcfs.lost(session, self.now))

    @rule(times=st.integers(1, 4))
    def hand_out(self, times: int) -> None:
        for _ in range(times):
            lease = hand_out(self.fcfs, self.now, self.end)
            if lease is None:
                return
            assert lease.session in self.live
            offsets = {o for a, b in lease.meant for o in range(a, b + 1)}
            assert not offsets & self.done[lease.partition]
            self.given[lease.partition] |= offsets

    def lease(self, data: st.DataObject) -> Lease:
        return self.fcfs.leases[data.draw(st.sampled_from(sorted(self.fcfs.leases)))]

    @precondition(lambda self: self.fcfs.leases)
    @rule(data=st.data())
    def ack(self, data: st.DataObject) -> None:
        lease = self.lease(data)
        offsets = [o for a, b in lease.meant for o in range(a, b + 1)]
        some = data.draw(st.sets(st.sampled_from(offsets), min_size=1))
        self.done[lease.partition] |= some
        ranges = [(offset, offset) for offset in sorted(some)]
        self.play(self.fcfs.ack(lease.session, lease.partition, lease.number, ranges, self.now))

    @precondition(lambda self: self.fcfs.leases)
    @rule(data=st.data(), delay=st.floats(0, 9))
    def nack(self, data: st.DataObject, delay: float) -> None:
        lease = self.lease(data)
        offset = data.draw(st.integers(lease.first, lease.end - 1))
        self.play(
            self.fcfs.nack(
                lease.session, lease.partition, lease.number, [offset], self.now + delay, self.now
            )
        )

    @rule(seconds=st.floats(0, 6), silent=st.booleans())
    def pass_time(self, seconds: float, *, silent: bool) -> None:
        self.now += seconds
        if not silent:
            for session in self.live:
                self.fcfs.heard(session, self.now)
        self.play(self.fcfs.tick(self.now))

    @invariant()
    def every_offset_is_done_or_in_one_place(self) -> None:
        for partition, each in enumerate(self.fcfs.partitions):
            held: list[int] = []
            for lease in self.fcfs.leases.values():
                assert lease.session in self.live
                if lease.partition == partition:
                    held += [o for a, b in lease.meant for o in range(a, b + 1)]
            assert each.in_flight == len(held)
            assert len(set(held)) == len(held)
            assert not set(held) & self.done[partition]
            assert {o for o in range(each.next) if each.cursor.done(o)} == self.done[partition]

    @invariant()
    def in_flight_is_what_members_hold(self) -> None:
        for member in self.fcfs.members:
            mine = [e for e in self.fcfs.leases.values() if e.session == member.session]
            assert member.in_flight == sum(b - a + 1 for each in mine for a, b in each.meant)

    def teardown(self) -> None:
        """One member that acknowledges gets everything that is left, and everything gets done."""
        if not hasattr(self, "fcfs"):
            return
        self.now += 2 * LEASE_S
        self.play(self.fcfs.tick(self.now))
        self.join("z")
        while (lease := hand_out(self.fcfs, self.now, self.end)) is not None:
            ranges = list(lease.meant)
            self.fcfs.ack(lease.session, lease.partition, lease.number, ranges, self.now)
        assert [each.cursor.low for each in self.fcfs.partitions] == [self.end] * len(self.done)


FcfsMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestFcfs = FcfsMachine.TestCase
