"""The bounded ring between an app's requests and a partition's batches.

A pure data structure: no clock, no I/O. Positions only ever rise; `produced - consumed` is what
waits. It would wrap when the newest entry reached the place of the oldest one that still waits;
then `put` refuses, and the caller decides whether to wait, reject or drop.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Ring(Generic[T]):
    """A ring of `entries_max` places that holds at most `bytes_max` bytes.

    Invariant: `consumed <= produced <= consumed + entries_max`, and `held_bytes` is the sum of the
    sizes of the entries between the two. Places are made when used, so that a thousand idle
    partitions cost nothing. Not thread-safe: it belongs to the event loop.
    """

    __slots__ = ("_places", "bytes_max", "consumed", "entries_max", "held_bytes", "produced")

    def __init__(self, entries_max: int, bytes_max: int) -> None:
        if entries_max < 1 or bytes_max < 1:
            raise ValueError("a ring has at least one place and room for one byte")
        self._places: deque[tuple[T, int]] = deque()
        self.entries_max = entries_max
        self.bytes_max = bytes_max
        self.produced = 0
        self.consumed = 0
        self.held_bytes = 0

    def __len__(self) -> int:
        return self.produced - self.consumed

    def __iter__(self) -> Iterator[T]:
        """The waiting entries, oldest first."""
        return (entry for entry, _size in self._places)

    def has_room(self, size: int) -> bool:
        """Whether an entry of `size` bytes fits. An empty ring takes one of any size."""
        waiting = self.produced - self.consumed
        return not waiting or (
            waiting < self.entries_max and self.held_bytes + size <= self.bytes_max
        )

    def put(self, entry: T, size: int) -> bool:
        """Add `entry` behind all others; False, and nothing changed, where it would wrap."""
        if not self.has_room(size):
            return False
        self._places.append((entry, size))
        self.produced += 1
        self.held_bytes += size
        return True

    def peek(self) -> T:
        """The oldest waiting entry, left where it is. IndexError when nothing waits."""
        return self._places[0][0]

    def take(self) -> T:
        """Remove and return the oldest entry. IndexError when nothing waits."""
        entry, size = self._places.popleft()
        self.consumed += 1
        self.held_bytes -= size
        return entry

    def refill(self, entries: Iterable[tuple[T, int]]) -> None:
        """Put entries that were taken in front again. The limits do not count for these."""
        returned = list(entries)
        self._places.extendleft(reversed(returned))
        self.consumed -= len(returned)
        self.held_bytes += sum(size for _entry, size in returned)
