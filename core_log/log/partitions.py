"""What the log knows of each partition: where it begins and ends, and which segments hold it.

Imports the index's key only; knows nothing of files.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from core_log.log.index import Key


class Partition:
    """One partition.

    Invariant: offsets from `start` up to `end` were committed and not yet dropped. `end` never
    goes back, not even when the topic is deleted: offsets are never used twice. `run_offsets`
    and `run_leaves` name the segments that hold it, in order. The writer moves `end`, the
    cleaner moves `start`; any thread may read both.
    """

    __slots__ = ("end", "greatest_us", "key", "run_leaves", "run_offsets", "start")

    def __init__(self, key: Key) -> None:
        self.key = key
        self.start = 0
        self.end = 0
        self.greatest_us = 0
        self.run_offsets = array("q")
        self.run_leaves = array("Q")

    def add_run(self, first_offset: int, segment_leaf: int) -> None:
        """A further segment holds this partition, from `first_offset` on.

        The leaf goes in first: a reader that finds the offset finds the leaf too.
        """
        self.run_leaves.append(segment_leaf)
        self.run_offsets.append(first_offset)

    def run_of(self, offset: int) -> int:
        """The place, in the two arrays, of the segment where `offset` is to be looked for."""
        return max(bisect_right(self.run_offsets, offset) - 1, 0)

    def runs_before(self, segment_leaf: int) -> "array[int]":
        """The segments that hold it, of those that lie before `segment_leaf`."""
        return self.run_leaves[: bisect_left(self.run_leaves, segment_leaf)]


class Partitions:
    """All partitions that ever had a batch. The writer adds; any thread may look up."""

    def __init__(self) -> None:
        self._by_key: dict[Key, Partition] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def __iter__(self) -> Iterator[Partition]:
        return iter(list(self._by_key.values()))

    def get(self, key: Key) -> Partition | None:
        """A partition, if it ever had a batch."""
        return self._by_key.get(key)

    def make(self, key: Key) -> Partition:
        """A partition, new and empty if it had no batch before."""
        partition = self._by_key.get(key)
        if partition is None:
            partition = self._by_key[key] = Partition(key)
        return partition

    def of_topic(self, topic: str) -> list[Partition]:
        """A topic's partitions in order of number."""
        mine = [partition for key, partition in list(self._by_key.items()) if key[0] == topic]
        return sorted(mine, key=lambda partition: partition.key[1])
