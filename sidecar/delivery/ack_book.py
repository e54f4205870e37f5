"""What a push worker has done and may acknowledge, without too many holes in between.

Pure. The log keeps a cursor as a low mark and ranges, and takes only so many of them. Where one
message is stuck and thousands behind it are done, what would make one more hole waits here until
the holes close; if the sidecar dies before, it is delivered again.
"""

from typing import Final

from sidecar.delivery.holdings import Hold
from sidecar.delivery.offset_set import OffsetSet, Range

ACKED_RANGES_MAX: Final = 4_000
"""Acknowledged ranges of one hold: the log takes 10,000 of a partition, and stops at 5,000."""
LOOKED_AT_MAX: Final = 500
"""Ranges that wait and are looked at in one go, from the lowest on: the others can wait longer."""


class _Page:
    """One hold: where its low mark is, what was acknowledged above it, and what was not yet."""

    __slots__ = ("low", "said", "waiting")

    def __init__(self, low: int) -> None:
        self.low = low
        self.said = OffsetSet()
        self.waiting = OffsetSet()


class AckBook:
    """Belongs to the event loop."""

    def __init__(self, ranges_max: int = ACKED_RANGES_MAX) -> None:
        self._ranges_max = ranges_max
        self._pages: dict[Hold, _Page] = {}
        self._touched: set[Hold] = set()

    def begin(self, hold: Hold, offset: int) -> None:
        """The first message that came under a hold lies at its low mark, or above it."""
        if hold not in self._pages:
            self._pages[hold] = _Page(offset)

    def add(self, hold: Hold, offset: int) -> None:
        """A message is done with."""
        page = self._pages.get(hold)
        if page is not None:
            page.waiting.add(offset, offset)
            self._touched.add(hold)

    def take(self) -> list[tuple[Hold, list[Range]]]:
        """What to acknowledge now."""
        touched, self._touched = self._touched, set()
        found: list[tuple[Hold, list[Range]]] = []
        for hold in touched:
            ranges = self._sayable(self._pages[hold])
            if ranges:
                found.append((hold, ranges))
        return found

    def durable(self, partition: int, low: int) -> None:
        """The partition's low mark has moved: what lies below it needs no memory."""
        for hold, page in self._pages.items():
            if hold.partition == partition and low > page.low:
                page.low = low
                page.said.discard(0, low - 1)
                if page.waiting:
                    self._touched.add(hold)

    def finish(self, hold: Hold) -> None:
        """No more will be done under it: forget it, unless something waits to be said."""
        page = self._pages.get(hold)
        if page is not None and not page.waiting:
            self.drop(hold)

    def drop(self, hold: Hold) -> None:
        """The hold is gone, and all that could have been said about it."""
        self._pages.pop(hold, None)
        self._touched.discard(hold)

    def _sayable(self, page: _Page) -> list[Range]:
        said, found = page.said, []
        for at, (first, last) in enumerate(page.waiting):
            if at >= LOOKED_AT_MAX:
                break
            said.add(first, last)
            # What begins at the low mark moves it and makes no hole.
            if said.range_count > self._ranges_max and first > page.low:
                said.discard(first, last)
            else:
                found.append((first, last))
        for first, last in found:
            page.waiting.discard(first, last)
        return found
