"""What a push worker has done and may acknowledge, without too many holes in between.

Pure. The log keeps a cursor as a low mark and ranges, and takes only so many of them. Where one
message is stuck and thousands behind it are done, what is furthest ahead waits here until the
holes close; if the sidecar dies before, it is delivered again.
"""

from typing import Final

from sidecar.holdings import Hold
from sidecar.offset_set import OffsetSet, Range

ACKED_RANGES_MAX: Final = 4_000
"""Acknowledged ranges of one hold: the log takes 10,000 of a partition, and stops at 5,000."""


class AckBook:
    """Belongs to the event loop."""

    def __init__(self, ranges_max: int = ACKED_RANGES_MAX) -> None:
        self._ranges_max = ranges_max
        self._fresh: dict[Hold, list[int]] = {}
        self._done: dict[Hold, OffsetSet] = {}
        self._waiting: set[Hold] = set()
        """Holds of which something is done and was not said yet."""

    def add(self, hold: Hold, offset: int) -> None:
        """A message is done with."""
        self._fresh.setdefault(hold, []).append(offset)

    def take(self) -> list[tuple[Hold, list[Range]]]:
        """What to acknowledge now."""
        fresh, self._fresh = self._fresh, {}
        found: list[tuple[Hold, list[Range]]] = []
        for hold, offsets in fresh.items():
            done = self._done.setdefault(hold, OffsetSet())
            for offset in offsets:
                done.add(offset, offset)
            crowded = done.range_count > self._ranges_max
            if crowded or hold in self._waiting:
                # Those that were acknowledged before are let pass.
                found.append((hold, list(done)[: self._ranges_max]))
                (self._waiting.add if crowded else self._waiting.discard)(hold)
            else:
                found.append((hold, [(offset, offset) for offset in sorted(offsets)]))
        return found

    def durable(self, partition: int, low: int) -> None:
        """The partition's low mark has moved: what lies below it needs no memory."""
        for hold, done in self._done.items():
            if hold.partition == partition:
                done.discard(0, low - 1)

    def drop(self, hold: Hold) -> None:
        """The hold is gone, and all that could have been said about it."""
        self._fresh.pop(hold, None)
        self._done.pop(hold, None)
        self._waiting.discard(hold)
