"""A cursor: how far a subscription has come in one partition, as a low mark and ranges above it.

Pure: offsets in, offsets out. Also keeps what belongs to the place and outlives members: attempts
with the history of them, and the totals of what was given again and of what expired. May import
nothing of ours but `tries`; must never know of members, leases or files.

A cursor remembers what has changed since it was last written (`take_change`), so that a thousand
acknowledgements between two syncs become one small record.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from core_log.subscriptions.tries import History, Tries

Range = tuple[int, int]
"""First and last offset, both included."""

RANGES_MAX: Final = 10_000
"""Acknowledged ranges above the low mark: about 200 kB of a snapshot, and far more holes than
concurrent workers leave behind."""
RANGES_SLOW: Final = 5_000
"""From here on a partition is given out no further, so that what is in flight can still close the
gaps before the limit is reached."""
ATTEMPTS_MAX: Final = 1_000
"""Messages whose attempts are remembered, the lowest offsets first: those hold up all others."""
CHANGES_MAX: Final = 256
"""Changed ranges that are kept apart; beyond it the whole cursor is written instead."""


class TooManyRanges(Exception):
    """An acknowledgement would leave more ranges than a cursor may have. Nothing was changed."""

    def __init__(self) -> None:
        super().__init__(
            f"more than {RANGES_MAX} acknowledged ranges would lie above the low mark; "
            "acknowledge the messages in between first"
        )


@dataclass(frozen=True, slots=True)
class Place:
    """A whole cursor as a value: what a snapshot keeps."""

    low: int
    acked: tuple[Range, ...] = ()
    attempts: Mapping[int, int] = field(default_factory=dict)
    redelivered: int = 0
    expired: int = 0
    history: Mapping[int, Tries] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Change:
    """What has changed since the last one: acknowledged ranges and, where they changed, attempts.

    Applying it twice, or after later ones, does no harm. The totals are those after the change.
    `history` has those messages alone whose tries changed; none is left of one with no tries.
    """

    acked: tuple[Range, ...]
    attempts: Mapping[int, int] | None
    redelivered: int
    expired: int
    history: Mapping[int, Tries] = field(default_factory=dict)


class Cursor:
    """One partition's cursor.

    Invariant: every offset below `low` is done and `low` itself is not; the ranges above it are
    sorted and neither touch nor overlap; no offset that has attempts is done, and none
    without attempts has a history. Not thread-safe.
    """

    __slots__ = (
        "_above",
        "_changed",
        "_firsts",
        "_lasts",
        "_new_attempts",
        "_new_totals",
        "_whole",
        "attempts",
        "expired",
        "history",
        "low",
        "redelivered",
    )

    def __init__(self, place: Place) -> None:
        self._load(place)

    def _load(self, place: Place) -> None:
        self.low = place.low
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        self._above = 0
        self.attempts: dict[int, int] = {}
        self.history = History()
        self.redelivered = place.redelivered
        self.expired = place.expired
        for first, last in place.acked:
            self._add(first, last)
        self.count_attempts(place.attempts, place.history)
        self.history.written()
        self._whole = False
        self._changed: list[Range] = []
        self._new_attempts = False
        self._new_totals = False

    # What it says.

    @property
    def acked(self) -> tuple[Range, ...]:
        """The acknowledged ranges above the low mark."""
        return tuple(zip(self._firsts, self._lasts, strict=True))

    @property
    def range_count(self) -> int:
        """How many ranges there are."""
        return len(self._firsts)

    @property
    def slow(self) -> bool:
        """True while nothing more should be given out: too many gaps are open."""
        return len(self._firsts) >= RANGES_SLOW

    @property
    def place(self) -> Place:
        """All of it, as a value."""
        return Place(
            self.low,
            self.acked,
            dict(self.attempts),
            self.redelivered,
            self.expired,
            self.history.known,
        )

    def done(self, offset: int) -> bool:
        """True for what is acknowledged."""
        if offset < self.low:
            return True
        at = bisect_right(self._firsts, offset) - 1
        return at >= 0 and offset <= self._lasts[at]

    def open_below(self, end: int) -> int:
        """How many offsets below `end` are not acknowledged."""
        if end <= self.low:
            return 0
        count = end - self.low - self._above
        for first, last in zip(reversed(self._firsts), reversed(self._lasts), strict=True):
            if last < end:
                break
            count += last - max(first, end) + 1
        return count

    def open_ranges(self, first: int, end: int) -> Iterator[Range]:
        """The stretches from `first` up to `end` that are not acknowledged."""
        first = max(first, self.low)
        at = bisect_left(self._lasts, first)
        while first < end:
            if at == len(self._firsts) or self._firsts[at] >= end:
                yield first, end - 1
                return
            if self._firsts[at] > first:
                yield first, self._firsts[at] - 1
            first = self._lasts[at] + 1
            at += 1

    def next_open(self, offset: int) -> int:
        """The first offset at or above `offset` that is not acknowledged."""
        offset = max(offset, self.low)
        at = bisect_right(self._firsts, offset) - 1
        return self._lasts[at] + 1 if at >= 0 and offset <= self._lasts[at] else offset

    # What changes it.

    def ack(self, ranges: Sequence[Range]) -> None:
        """These are done. Raises TooManyRanges and changes nothing."""
        if len(self._firsts) + len(ranges) > RANGES_MAX:
            self._try(ranges)
        for first, last in ranges:
            self._add(first, last)
            self._note(first, last)
        if self.attempts:
            self._forget_done()

    def skip(self, first: int, end: int) -> int:
        """The offsets from `first` up to `end` can't be read any more; how many of them were open.

        Never too many ranges: what retention removes lies at the low mark, and what damage has
        taken is as rare as damage.
        """
        lost = sum(last - begin + 1 for begin, last in self.open_ranges(first, end))
        if lost:
            self._add(first, end - 1)
            self._note(first, end - 1)
            self.expired += lost
            self._new_totals = True
            self._forget_done()
        return lost

    def seek(self, low: int) -> None:
        """Begin anew at `low`: acknowledgements above it and attempts are forgotten."""
        self.low = low
        self._firsts.clear()
        self._lasts.clear()
        self._above = 0
        self.attempts = {}
        self.history = History()
        self._whole = True

    def tried(self, ranges: Iterable[Range]) -> int:
        """One attempt more for what is open in these ranges; how many offsets that are."""
        count = 0
        tried: list[int] = []
        for first, last in ranges:
            for begin, end in self.open_ranges(first, last + 1):
                count += end - begin + 1
                room = ATTEMPTS_MAX - len(tried)
                tried += range(begin, min(end + 1, begin + room))
        self._keep({offset: self.attempts.get(offset, 0) + 1 for offset in tried})
        return count

    def count_attempts(
        self, totals: Mapping[int, int], history: Mapping[int, Tries] | None = None
    ) -> None:
        """Somebody else's count of attempts, and what is known of them; a count never falls."""
        self._keep(
            {
                offset: count
                for offset, count in totals.items()
                if count > self.attempts.get(offset, 0) and not self.done(offset)
            }
        )
        if history:
            self.history.note({o: tries for o, tries in history.items() if o in self.attempts})

    def given_again(self, count: int) -> None:
        """That many messages went out once more."""
        self.redelivered += count
        self._new_totals = True

    # What has to be written.

    @property
    def changed(self) -> bool:
        """True where `take_change` has something to say."""
        return (
            self._whole
            or self._new_attempts
            or self._new_totals
            or bool(self._changed)
            or self.history.changed
        )

    def take_change(self) -> Change | Place:
        """What is not written yet: a change, or the whole cursor where that is simpler."""
        whole, changed, attempts = self._whole, self._changed, self._new_attempts
        self._whole, self._changed, self._new_attempts, self._new_totals = False, [], False, False
        history = self.history.take_change() if self.history.changed else {}
        if whole:
            return self.place
        return Change(
            tuple(changed),
            dict(self.attempts) if attempts else None,
            self.redelivered,
            self.expired,
            {o: tries for o, tries in history.items() if not self.done(o)},
        )

    def not_written(self) -> None:
        """The change that was taken did not reach the disk: write everything next time."""
        self._whole = True

    def replay(self, change: Change | Place) -> None:
        """Apply what `take_change` gave once."""
        if isinstance(change, Place):
            self._load(change)
            return
        for first, last in change.acked:
            self._add(first, last)
        if change.attempts is not None:
            self.attempts = dict(change.attempts)
        if change.history:
            self.history.replay(change.history)
        self._forget_done()
        self.history.written()
        self.redelivered = change.redelivered
        self.expired = change.expired

    def _note(self, first: int, last: int) -> None:
        if self._whole:
            return
        if self._changed and self._changed[-1][0] <= first <= self._changed[-1][1] + 1:
            # The common case: a reader that acknowledges in order.
            begin, end = self._changed[-1]
            self._changed[-1] = (begin, max(end, last))
        elif len(self._changed) < CHANGES_MAX:
            self._changed.append((first, last))
        else:
            self._changed = []
            self._whole = True

    def _keep(self, counts: Mapping[int, int]) -> None:
        if not counts:
            return
        self._new_attempts = True
        self.attempts |= counts
        if len(self.attempts) > ATTEMPTS_MAX:
            lowest = sorted(self.attempts)[:ATTEMPTS_MAX]
            self.attempts = {offset: self.attempts[offset] for offset in lowest}
            self._forget_history()

    def _forget_done(self) -> None:
        self.attempts = {o: count for o, count in self.attempts.items() if not self.done(o)}
        self._forget_history()

    def _forget_history(self) -> None:
        if self.history:
            self.history.keep_only(self.attempts)

    def _try(self, ranges: Sequence[Range]) -> None:
        trial = Cursor(Place(self.low, self.acked))
        for first, last in ranges:
            trial._add(first, last)
        if trial.range_count > RANGES_MAX:
            raise TooManyRanges

    def _add(self, first: int, last: int) -> None:
        firsts, lasts = self._firsts, self._lasts
        if last < self.low:
            return
        if first <= self.low:
            self.low = last + 1
            reached = bisect_right(firsts, self.low)
            if reached:
                self.low = max(self.low, lasts[reached - 1] + 1)
                self._above -= sum(lasts[:reached]) - sum(firsts[:reached]) + reached
                del firsts[:reached], lasts[:reached]
            return
        begin = bisect_left(lasts, first - 1)
        end = bisect_right(firsts, last + 1)
        if begin < end:
            first, last = min(first, firsts[begin]), max(last, lasts[end - 1])
            self._above -= sum(lasts[begin:end]) - sum(firsts[begin:end]) + end - begin
        firsts[begin:end] = [first]
        lasts[begin:end] = [last]
        self._above += last - first + 1
