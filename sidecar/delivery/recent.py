"""The newest frames of a topic, kept once for all readers that follow it closely. Pure.

Readers keep a cursor into it and a position for each partition; they have no queue of their own.
Who falls behind what is kept has to read the log itself for a while.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

RECENT_BYTES_MAX: Final = 2 * 1024 * 1024
"""Kept for each topic that somebody follows: some dozens of full batches, which gives a reader
that was busy for a moment time to come back."""

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Entry(Generic[Item]):
    """Something that covers the offsets from `first` up to, not with, `next_offset`."""

    partition: int
    first: int
    next_offset: int
    size: int
    item: Item


class Recent(Generic[Item]):
    """Entries in the order of their arrival. At least the newest one is kept.

    `begins` has, for each partition, the offset from which on everything is here.
    """

    def __init__(self, positions: Mapping[int, int], bytes_max: int = RECENT_BYTES_MAX) -> None:
        self.begins = dict(positions)
        self._entries: deque[Entry[Item]] = deque()
        self._first = 0
        self._bytes = 0
        self._bytes_max = bytes_max

    @property
    def end(self) -> int:
        """The cursor behind the newest entry."""
        return self._first + len(self._entries)

    @property
    def start(self) -> int:
        """The cursor of the oldest entry."""
        return self._first

    def begin(self, partition: int, offset: int) -> None:
        """A partition that is new to the topic."""
        self.begins.setdefault(partition, offset)

    def add(self, entry: Entry[Item]) -> None:
        """Take the newest entry in, and let go of the oldest where there are too many bytes."""
        self._entries.append(entry)
        self._bytes += entry.size
        while self._bytes > self._bytes_max and len(self._entries) > 1:
            old = self._entries.popleft()
            self._first += 1
            self._bytes -= old.size
            self.begins[old.partition] = max(self.begins.get(old.partition, 0), old.next_offset)

    def can_serve(self, positions: Mapping[int, int]) -> bool:
        """Whether a reader at these positions misses nothing when it goes on from here."""
        return all(
            partition in self.begins and self.begins[partition] <= offset
            for partition, offset in positions.items()
        )

    def at(self, cursor: int) -> Entry[Item] | None:
        """The entry at a cursor between `start` and `end`; None at the end."""
        index = cursor - self._first
        if index < 0:
            raise LookupError("the reader has fallen behind what is kept")
        return self._entries[index] if index < len(self._entries) else None
