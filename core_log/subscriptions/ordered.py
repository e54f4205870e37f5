"""Ordered delivery of one subscription: each partition in the hands of one member at a time.

A state machine without a clock, a socket or a file: every event comes with `now`, and what is to
be done comes back as effects. The states of a partition:

| state | holder | revoke_by | kept_for | leaves it |
|---|---|---|---|---|
| free | - | - | - | a member is there: held |
| held | session | - | - | lost: kept · another's turn: leaving, or held by that one at once |
| leaving | session | time | - | nothing in hand, released, or time is up: free, and held anew |
| kept | - | - | name | that name comes: held · time is up: free |

`kept` is for the restart of a gatekeeper: all its members go at once and come back one by one, and
without it the first to come would get everything and have to give it back. Two departures never
lead there, because nobody would come back: a partition that was leaving anyway, and a release.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from core_log.subscriptions.assignment import spread
from core_log.subscriptions.cursor import Cursor, Range
from core_log.subscriptions.handing import (
    Assign,
    BadAnswer,
    Effect,
    Ended,
    Fenced,
    Redeliver,
    Revoke,
    size,
    without,
)
from core_log.subscriptions.members import Member, Members
from core_log.subscriptions.tries import Tries

REJOIN_S: Final = 1.0
"""How long a lost member's partitions wait for it: reconnecting takes some hundred milliseconds,
and messages should not wait longer for a member that is dead."""


class Partition:
    """One partition's cursor, and who holds it.

    Invariant: `given` is the offset behind what the holder got; what lies below it and is neither
    acknowledged nor in `retries` is in its hands.
    """

    __slots__ = (
        "cursor",
        "generation",
        "given",
        "holder",
        "kept_for",
        "kept_until",
        "promised",
        "retries",
        "revoke_by",
    )

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.holder: int | None = None
        self.generation = 0
        self.given = cursor.low
        self.revoke_by: float | None = None
        self.promised = ""
        self.kept_for = ""
        self.kept_until = 0.0
        self.retries: dict[int, float] = {}

    @property
    def in_flight(self) -> int:
        """Messages that the holder was given and has not acknowledged."""
        return 0 if self.holder is None else self.cursor.open_below(self.given)

    @property
    def in_hand(self) -> int:
        """Those of them that it has not given back."""
        return self.in_flight - len(self.retries)


class Ordered:
    """One ordered subscription. Not thread-safe."""

    def __init__(
        self, cursors: Iterable[Cursor], *, lease_s: float, number: Callable[[], int]
    ) -> None:
        self.partitions = [Partition(cursor) for cursor in cursors]
        self.members = Members()
        self._lease_s = lease_s
        self._number = number

    # Members come and go.

    def join(self, session: int, name: str, *, now: float, since_us: int) -> list[Effect]:
        """A member has come; one of the same name is replaced by it."""
        effects: list[Effect] = []
        older = self.members.named(name)
        if older is not None:
            self._drop(older.session, now)
            text = f"another stream has opened as member {name!r}; give each consumer its own name"
            effects.append(Ended(older.session, "member_replaced", text))
        if not self.members:
            # Who comes first after everybody was gone must not get what the next ones will claim.
            for each in self.partitions:
                each.kept_until = now + REJOIN_S
        self.members.add(Member(session, name, since_us, now))
        return effects + self._rebalance(now)

    def lost(self, session: int, now: float) -> list[Effect]:
        """A member's stream is gone."""
        return self._rebalance(now) if self._drop(session, now) else []

    def heard(self, session: int, now: float) -> None:
        """A sign of life."""
        self.members.heard(session, now)

    # What members say.

    def gave(self, session: int, partition: int, next_offset: int) -> None:
        """The holder was sent everything up to `next_offset`."""
        each = self.partitions[partition]
        if each.holder == session and next_offset > each.given:
            before = each.in_flight
            each.given = next_offset
            self._count(each, before)

    def ack(
        self, session: int, partition: int, generation: int, ranges: Sequence[Range], now: float
    ) -> list[Effect]:
        """Done. Raises BadAnswer and TooManyRanges."""
        each = self._held(session, partition, generation)
        if each is None:
            return [Fenced(session, partition, generation)]
        for _, last in ranges:
            if last >= each.given:
                raise BadAnswer(
                    f"offset {last} of partition {partition} was not given to this member, "
                    f"which has got what is below {each.given}"
                )
        return self.ack_by_hand(partition, ranges, now)

    def ack_by_hand(self, partition: int, ranges: Sequence[Range], now: float) -> list[Effect]:
        """Done, whoever has it. Raises TooManyRanges."""
        each = self.partitions[partition]
        before = each.in_flight
        each.cursor.ack(ranges)
        self._settle(each, before)
        return self._freed(each, now)

    def nack(
        self,
        session: int,
        partition: int,
        generation: int,
        offsets: Sequence[int],
        again_at: float,
        now: float,
    ) -> list[Effect]:
        """Not done; send it again at `again_at`. Raises BadAnswer."""
        each = self._held(session, partition, generation)
        if each is None:
            return [Fenced(session, partition, generation)]
        if any(offset >= each.given for offset in offsets):
            raise BadAnswer(f"an offset of partition {partition} was not given to this member")
        return self.nack_by_hand(partition, offsets, again_at, now)

    def nack_by_hand(
        self, partition: int, offsets: Sequence[int], again_at: float, now: float
    ) -> list[Effect]:
        """One attempt more, whoever has it; the holder gets it again."""
        each = self.partitions[partition]
        each.cursor.tried((offset, offset) for offset in offsets)
        if each.holder is not None:
            for offset in offsets:
                if offset < each.given and not each.cursor.done(offset):
                    each.retries[offset] = again_at
        return self._freed(each, now)

    def attempts(
        self,
        session: int,
        partition: int,
        generation: int,
        totals: Mapping[int, int],
        history: Mapping[int, Tries],
    ) -> list[Effect]:
        """The member's own count of failed tries, and what became of them."""
        each = self._held(session, partition, generation)
        if each is None:
            return [Fenced(session, partition, generation)]
        each.cursor.count_attempts(totals, history)
        return []

    def released(self, session: int, partition: int, generation: int, now: float) -> list[Effect]:
        """The holder has stopped. One that was not asked to is about to go, and gets no more."""
        each = self._held(session, partition, generation)
        if each is None:
            # The partition moved when its last message was acknowledged: nothing is wrong.
            return []
        member = self.members.get(session)
        if member is not None and each.revoke_by is None:
            member.leaving = True
        self._free(each)
        return self._rebalance(now)

    # What happens to the subscription.

    def seek(self, lows: Mapping[int, int], now: float) -> list[Effect]:
        """Begin anew at these offsets, with new generations."""
        effects: list[Effect] = []
        for partition, low in lows.items():
            each = self.partitions[partition]
            if each.holder is not None:
                effects.append(Revoke(each.holder, partition, each.generation))
                holder = self.members.get(each.holder)
                stays = "" if holder is None or each.revoke_by is not None else holder.name
                self._free(each)
                each.promised = stays
            each.cursor.seek(low)
            each.given = low
        return effects + self._rebalance(now)

    def grow(self, cursors: Iterable[Cursor], now: float) -> list[Effect]:
        """The topic has more partitions."""
        self.partitions += [Partition(cursor) for cursor in cursors]
        return self._rebalance(now)

    def skip(self, partition: int, first: int, end: int, now: float) -> list[Effect]:
        """These offsets can't be read any more."""
        each = self.partitions[partition]
        before = each.in_flight
        each.cursor.skip(first, end)
        self._settle(each, before)
        return self._freed(each, now)

    # Time.

    def next_due(self) -> float | None:
        """When `tick` has something to do, if nothing happens before."""
        due = [
            time
            for each in self.partitions
            for time in (
                each.revoke_by,
                each.kept_until if each.kept_for and self.members else None,
                min(each.retries.values(), default=None),
            )
            if time is not None
        ]
        silent = self.members.next_silent(self._lease_s)
        return min(due if silent is None else [silent, *due], default=None)

    def tick(self, now: float) -> list[Effect]:
        """Do what time has brought about."""
        effects: list[Effect] = []
        for member in self.members.silent(now, self._lease_s):
            self._drop(member.session, now)
            text = f"nothing was heard of member {member.name!r} for {self._lease_s:g} s"
            effects.append(Ended(member.session, "lease_expired", text))
        for partition, each in enumerate(self.partitions):
            if each.revoke_by is not None and each.revoke_by <= now:
                self._fail(each)
                self._free(each)
            elif each.retries and each.holder is not None and each.revoke_by is None:
                effects += self._retry(partition, each, now)
        return effects + self._rebalance(now)

    def _retry(self, partition: int, each: Partition, now: float) -> list[Effect]:
        due = sorted(offset for offset, time in each.retries.items() if time <= now)
        if not due or each.holder is None:
            return []
        for offset in due:
            del each.retries[offset]
        each.cursor.given_again(len(due))
        return [Redeliver(each.holder, partition, each.generation, tuple(due))]

    # Who holds what.

    def _held(self, session: int, partition: int, generation: int) -> Partition | None:
        if not 0 <= partition < len(self.partitions):
            return None
        each = self.partitions[partition]
        return each if (each.holder, each.generation) == (session, generation) else None

    def _drop(self, session: int, now: float) -> bool:
        member = self.members.remove(session)
        if member is None:
            return False
        for each in self.partitions:
            if each.holder == session:
                comes_back = each.revoke_by is None and not member.leaving
                self._fail(each)
                self._free(each)
                if comes_back:
                    each.kept_for, each.kept_until = member.name, now + REJOIN_S
        return True

    def _fail(self, each: Partition) -> None:
        """What the holder got will be given again. What is in its hands has an attempt more; what
        it has given back has had its attempt counted."""
        in_hand = list(each.cursor.open_ranges(each.cursor.low, each.given))
        each.cursor.given_again(size(in_hand))
        for offset in each.retries:
            in_hand = without(in_hand, offset, offset)
        each.cursor.tried(in_hand)

    def _free(self, each: Partition) -> None:
        before = each.in_flight
        holder = None if each.holder is None else self.members.get(each.holder)
        if holder is not None:
            holder.in_flight -= before
        each.holder = None
        each.revoke_by = None
        each.promised = ""
        each.retries = {}
        each.given = each.cursor.low

    def _settle(self, each: Partition, before: int) -> None:
        """The cursor has moved under its holder."""
        if each.retries:
            each.retries = {o: at for o, at in each.retries.items() if not each.cursor.done(o)}
        self._count(each, before)

    def _count(self, each: Partition, before: int) -> None:
        holder = None if each.holder is None else self.members.get(each.holder)
        if holder is not None:
            holder.in_flight += each.in_flight - before

    def _freed(self, each: Partition, now: float) -> list[Effect]:
        """The next holder's turn, where this one was asked to go and has nothing left in hand."""
        if each.revoke_by is None or each.in_hand > 0:
            return []
        self._free(each)
        return self._rebalance(now)

    def _rebalance(self, now: float) -> list[Effect]:
        names = {member.name for member in self.members if not member.leaving}
        for each in self.partitions:
            if each.kept_for and (each.kept_until <= now or each.holder is not None):
                each.kept_for = ""
        if not names:
            return []
        claims = names | {each.kept_for for each in self.partitions if each.kept_for}
        holders: dict[int, str] = {}
        for partition, each in enumerate(self.partitions):
            holder = None if each.holder is None else self.members.get(each.holder)
            holders[partition] = (
                each.promised or each.kept_for or ("" if holder is None else holder.name)
            )
        effects: list[Effect] = []
        for partition, name in spread(len(self.partitions), claims, holders).items():
            effects += self._move(partition, name, now)
        return effects

    def _move(self, partition: int, name: str, now: float) -> list[Effect]:
        """Bring a partition nearer to the member that should have it."""
        each = self.partitions[partition]
        effects: list[Effect] = []
        if each.holder is not None:
            holder = self.members.get(each.holder)
            if each.revoke_by is not None:
                each.promised = name
                return []
            if holder is not None and holder.name == name:
                return []
            effects.append(Revoke(each.holder, partition, each.generation))
            if each.in_hand > 0:
                each.revoke_by = now + self._lease_s
                each.promised = name
                return effects
            self._free(each)
        taker = self.members.named(name)
        if taker is None:
            return effects
        each.promised = each.kept_for = ""
        each.holder = taker.session
        each.generation = self._number()
        each.given = each.cursor.low
        return [*effects, Assign(taker.session, partition, each.generation)]
