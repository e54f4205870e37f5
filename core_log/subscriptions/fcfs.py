"""First come, first served: each stored batch of a subscription to the member that is free next.

A state machine without a clock, a socket or a file, like `ordered`. The shell asks what is to be
read next (`want`), reads that frame, and gives it to a free member (`give`), which makes a lease. A
lease ends when all that was meant of its frame is acknowledged; what a lost member held, and what
was nacked, is wanted again before anything new.

A batch as stored is the unit. What was nacked of one comes again on its own, in the same frame,
with everything else marked as not meant.
"""

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from core_log.subscriptions.cursor import Cursor, Range
from core_log.subscriptions.handing import (
    BadAnswer,
    Effect,
    Ended,
    Fenced,
    Revoke,
    size,
    within,
    without,
)
from core_log.subscriptions.members import Member, Members
from core_log.subscriptions.tries import Tries


class Want(NamedTuple):
    """What to read next: the frame that holds `offset`. `retry` is 0 for what was never given."""

    partition: int
    offset: int
    retry: int


@dataclass(slots=True)
class Lease:
    """A frame in a member's hands; `meant` is what it has yet to acknowledge of it."""

    number: int
    session: int
    partition: int
    first: int
    end: int
    meant: list[Range]


@dataclass(frozen=True, slots=True)
class Retry:
    """Offsets of one frame that are wanted again."""

    partition: int
    ranges: tuple[Range, ...]


class Partition:
    """One partition's cursor, and the first offset that was never given."""

    __slots__ = ("cursor", "in_flight", "next")

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.next = cursor.low
        self.in_flight = 0


class Fcfs:
    """One fcfs subscription. Not thread-safe.

    Invariant: every offset below `next` of its partition is acknowledged, or meant by exactly one
    lease, or by exactly one retry.
    """

    def __init__(
        self, cursors: Iterable[Cursor], *, lease_s: float, number: Callable[[], int]
    ) -> None:
        self.partitions = [Partition(cursor) for cursor in cursors]
        self.members = Members()
        self.leases: dict[int, Lease] = {}
        self._lease_s = lease_s
        self._number = number
        self._retries: dict[int, Retry] = {}
        self._due: list[tuple[float, int]] = []
        self._turn = 0
        self.moves = 0
        """How often places were changed by hand: what was wanted before is wanted no more."""

    # Members come and go.

    def join(self, session: int, name: str, *, now: float, since_us: int) -> list[Effect]:
        """A member has come; one of the same name is replaced by it."""
        effects: list[Effect] = []
        older = self.members.named(name)
        if older is not None:
            self.lost(older.session, now)
            text = f"another stream has opened as member {name!r}; give each consumer its own name"
            effects.append(Ended(older.session, "member_replaced", text))
        self.members.add(Member(session, name, since_us, now))
        return effects

    def lost(self, session: int, now: float) -> list[Effect]:
        """A member's stream is gone: what it held is wanted again, with an attempt more."""
        if self.members.remove(session) is not None:
            for lease in [each for each in self.leases.values() if each.session == session]:
                self.partitions[lease.partition].cursor.tried(lease.meant)
                self._give_back(lease, now)
        return []

    def heard(self, session: int, now: float) -> None:
        """A sign of life."""
        self.members.heard(session, now)

    # Giving out.

    def want(self, now: float, end_of: Callable[[int], int]) -> Want | None:
        """What to give out next: what is wanted again first, then the partitions in turn."""
        while self._due and self._due[0][0] <= now:
            number = self._due[0][1]
            retry = self._retries.get(number)
            if retry is not None and (again := self._still_open(retry)):
                return Want(retry.partition, again[0][0], number)
            self._retries.pop(number, None)
            heapq.heappop(self._due)
        count = len(self.partitions)
        for step in range(count):
            partition = (self._turn + step) % count
            each = self.partitions[partition]
            if each.cursor.slow:
                continue
            each.next = each.cursor.next_open(each.next)
            if each.next < end_of(partition):
                self._turn = (partition + 1) % count
                return Want(partition, each.next, 0)
        return None

    def free_member(self, may_take: Callable[[int], bool]) -> int | None:
        """The session that holds least of those that may take more."""
        free = [
            member
            for member in self.members
            if not (member.full or member.leaving) and may_take(member.session)
        ]
        return min(free, key=lambda each: each.in_flight).session if free else None

    def give(self, session: int, want: Want, first: int, end: int) -> Lease | None:
        """A member gets the frame from `first` up to `end`; None where nothing of it is meant."""
        each = self.partitions[want.partition]
        member = self.members.get(session)
        if member is None:
            return None
        if want.retry:
            retry = self._retries.pop(want.retry, None)
            ranges = [] if retry is None else self._still_open(retry)
            # What does not lie in this frame lies in none any more.
            meant = [part for part in ranges for part in within([part], first, end - 1)]
            each.cursor.given_again(size(meant))
        else:
            meant = list(each.cursor.open_ranges(max(first, each.next), end))
            each.next = max(each.next, end)
        if not meant:
            return None
        lease = Lease(self._number(), session, want.partition, first, end, meant)
        self.leases[lease.number] = lease
        self._count(lease, size(meant))
        return lease

    def skip(self, partition: int, first: int, end: int, _now: float) -> list[Effect]:
        """These offsets can't be read any more."""
        self.partitions[partition].cursor.skip(first, end)
        self._forget_done(partition)
        return []

    # What members say.

    def ack(
        self, session: int, partition: int, number: int, ranges: Sequence[Range], _now: float
    ) -> list[Effect]:
        """Done. Raises BadAnswer and TooManyRanges."""
        lease = self._held(session, partition, number)
        if lease is None:
            return [Fenced(session, partition, number)]
        done: list[Range] = []
        for first, last in ranges:
            if not lease.first <= first <= last < lease.end:
                raise BadAnswer(
                    f"lease {number} is about the offsets {lease.first} to {lease.end - 1} of "
                    f"partition {partition}, not {first} to {last}"
                )
            done += within(lease.meant, first, last)
        self.partitions[partition].cursor.ack(done)
        for first, last in done:
            self._take(lease, first, last)
        return []

    def ack_by_hand(self, partition: int, ranges: Sequence[Range], _now: float) -> list[Effect]:
        """Done, whoever has it. Raises TooManyRanges."""
        self.partitions[partition].cursor.ack(ranges)
        self._forget_done(partition)
        return []

    def nack(
        self,
        session: int,
        partition: int,
        number: int,
        offsets: Sequence[int],
        again_at: float,
        _now: float,
    ) -> list[Effect]:
        """Not done; wanted again at `again_at`. Raises BadAnswer."""
        lease = self._held(session, partition, number)
        if lease is None:
            return [Fenced(session, partition, number)]
        if not all(lease.first <= offset < lease.end for offset in offsets):
            raise BadAnswer(f"lease {number} is not about all of these offsets")
        self._nack(lease, offsets, again_at)
        return []

    def nack_by_hand(
        self, partition: int, offsets: Sequence[int], again_at: float, _now: float
    ) -> list[Effect]:
        """One attempt more, whoever has it; what somebody holds is taken and given again."""
        rest = set(offsets)
        for lease in [each for each in self.leases.values() if each.partition == partition]:
            mine = [offset for offset in sorted(rest) if lease.first <= offset < lease.end]
            rest -= set(self._nack(lease, mine, again_at))
        self.partitions[partition].cursor.tried((offset, offset) for offset in sorted(rest))
        return []

    def attempts(
        self,
        session: int,
        partition: int,
        number: int,
        totals: Mapping[int, int],
        history: Mapping[int, Tries],
    ) -> list[Effect]:
        """The member's own count of failed tries, and what became of them."""
        lease = self._held(session, partition, number)
        if lease is None:
            return [Fenced(session, partition, number)]
        self.partitions[partition].cursor.count_attempts(totals, history)
        return []

    def released(self, session: int, partition: int, number: int, now: float) -> list[Effect]:
        """The member gives a lease back untried: it is about to go, and gets no more."""
        lease = self._held(session, partition, number)
        member = self.members.get(session)
        if lease is not None and member is not None:
            member.leaving = True
            self._give_back(lease, now)
        return []

    # What happens to the subscription.

    def seek(self, lows: Mapping[int, int], _now: float) -> list[Effect]:
        """Begin anew at these offsets; what members hold no longer counts."""
        effects: list[Effect] = []
        self.moves += 1
        for lease in [each for each in self.leases.values() if each.partition in lows]:
            effects.append(Revoke(lease.session, lease.partition, lease.number))
            self._count(lease, -size(lease.meant))
            del self.leases[lease.number]
        for number in [n for n, retry in self._retries.items() if retry.partition in lows]:
            del self._retries[number]
        for partition, low in lows.items():
            each = self.partitions[partition]
            each.cursor.seek(low)
            each.next = low
        return effects

    def grow(self, cursors: Iterable[Cursor], _now: float) -> list[Effect]:
        """The topic has more partitions."""
        self.partitions += [Partition(cursor) for cursor in cursors]
        return []

    # Time.

    def next_due(self) -> float | None:
        """When `tick` has something to do, if nothing happens before."""
        silent = self.members.next_silent(self._lease_s)
        due = [self._due[0][0]] if self._due and self.members else []
        return min(due if silent is None else [silent, *due], default=None)

    def tick(self, now: float) -> list[Effect]:
        """Do what time has brought about."""
        effects: list[Effect] = []
        for member in self.members.silent(now, self._lease_s):
            self.lost(member.session, now)
            text = f"nothing was heard of member {member.name!r} for {self._lease_s:g} s"
            effects.append(Ended(member.session, "lease_expired", text))
        return effects

    # Who holds what.

    def _held(self, session: int, partition: int, number: int) -> Lease | None:
        lease = self.leases.get(number)
        if lease is None or (lease.session, lease.partition) != (session, partition):
            return None
        return lease

    def _nack(self, lease: Lease, offsets: Sequence[int], again_at: float) -> list[int]:
        """Take back those that the lease is about, and return them."""
        mine = [offset for offset in offsets if any(within(lease.meant, offset, offset))]
        if mine:
            ranges = tuple((offset, offset) for offset in sorted(mine))
            self.partitions[lease.partition].cursor.tried(ranges)
            self._again(Retry(lease.partition, ranges), again_at)
            for offset in mine:
                self._take(lease, offset, offset)
        return mine

    def _give_back(self, lease: Lease, now: float) -> None:
        self._again(Retry(lease.partition, tuple(lease.meant)), now)
        self._count(lease, -size(lease.meant))
        del self.leases[lease.number]

    def _again(self, retry: Retry, at: float) -> None:
        number = self._number()
        self._retries[number] = retry
        heapq.heappush(self._due, (at, number))

    def _still_open(self, retry: Retry) -> list[Range]:
        cursor = self.partitions[retry.partition].cursor
        return [
            part for first, last in retry.ranges for part in cursor.open_ranges(first, last + 1)
        ]

    def _take(self, lease: Lease, first: int, last: int) -> None:
        """The lease is no longer about these."""
        before = size(lease.meant)
        lease.meant = without(lease.meant, first, last)
        self._count(lease, size(lease.meant) - before)
        if not lease.meant:
            self.leases.pop(lease.number, None)

    def _forget_done(self, partition: int) -> None:
        """The cursor has moved by hand: leases are only about what is still open."""
        cursor = self.partitions[partition].cursor
        for lease in [each for each in self.leases.values() if each.partition == partition]:
            before = size(lease.meant)
            lease.meant = [
                part for first, last in lease.meant for part in cursor.open_ranges(first, last + 1)
            ]
            self._count(lease, size(lease.meant) - before)
            if not lease.meant:
                del self.leases[lease.number]

    def _count(self, lease: Lease, more: int) -> None:
        self.partitions[lease.partition].in_flight += more
        member = self.members.get(lease.session)
        if member is not None:
            member.in_flight += more
