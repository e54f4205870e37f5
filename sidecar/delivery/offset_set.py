"""Sets of offsets as ranges: what of a partition is acknowledged, or was given out. Pure."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence

Range = tuple[int, int]
"""First and last offset, both in it."""


class OffsetSet:
    """Disjoint ranges, rising, none touching the next. Costs by its ranges, not by its offsets."""

    __slots__ = ("_firsts", "_lasts")

    def __init__(self, ranges: Iterable[Sequence[int]] = ()) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        for first, last in ranges:
            self.add(first, last)

    def __bool__(self) -> bool:
        return bool(self._firsts)

    def __contains__(self, offset: int) -> bool:
        at = bisect_right(self._firsts, offset) - 1
        return at >= 0 and self._lasts[at] >= offset

    def __iter__(self) -> Iterator[Range]:
        return zip(self._firsts, self._lasts, strict=True)

    def __len__(self) -> int:
        """How many offsets, not how many ranges."""
        return sum(last - first + 1 for first, last in self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OffsetSet) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    @property
    def range_count(self) -> int:
        """How many ranges, which is what it costs."""
        return len(self._firsts)

    def common(self, first: int, last: int) -> list[Range]:
        """What of `first` to `last` is in it."""
        begin = bisect_left(self._lasts, first)
        end = bisect_right(self._firsts, last)
        return [
            (max(first, self._firsts[at]), min(last, self._lasts[at])) for at in range(begin, end)
        ]

    def ranges(self) -> list[list[int]]:
        """As the wire writes them."""
        return [[first, last] for first, last in self]

    def add(self, first: int, last: int) -> None:
        """Add `first` to `last`; a range without offsets adds nothing."""
        if last < first:
            return
        # Every range that overlaps the new one or touches it becomes part of it.
        begin = bisect_left(self._lasts, first - 1)
        end = bisect_right(self._firsts, last + 1)
        if begin < end:
            first = min(first, self._firsts[begin])
            last = max(last, self._lasts[end - 1])
        self._firsts[begin:end] = [first]
        self._lasts[begin:end] = [last]

    def discard(self, first: int, last: int) -> None:
        """Take `first` to `last` out, as far as they are in it."""
        if last < first:
            return
        begin = bisect_left(self._lasts, first)
        end = bisect_right(self._firsts, last)
        if begin >= end:
            return
        left = (self._firsts[begin], first - 1)
        right = (last + 1, self._lasts[end - 1])
        kept = [each for each in (left, right) if each[0] <= each[1]]
        self._firsts[begin:end] = [each[0] for each in kept]
        self._lasts[begin:end] = [each[1] for each in kept]

    def missing(self, first: int, last: int) -> list[Range]:
        """What of `first` to `last` is not in it."""
        found: list[Range] = []
        at = bisect_left(self._lasts, first)
        while first <= last and at < len(self._firsts) and self._firsts[at] <= last:
            if first < self._firsts[at]:
                found.append((first, self._firsts[at] - 1))
            first = self._lasts[at] + 1
            at += 1
        if first <= last:
            found.append((first, last))
        return found


def ranges_of(offsets: Iterable[int]) -> list[Range]:
    """Rising offsets as ranges."""
    if isinstance(offsets, range) and offsets.step == 1:
        return [(offsets.start, offsets.stop - 1)] if offsets else []
    found: list[Range] = []
    first = last = -2
    for offset in offsets:
        if offset == last + 1:
            last = offset
            continue
        if first >= 0:
            found.append((first, last))
        first = last = offset
    if first >= 0:
        found.append((first, last))
    return found
