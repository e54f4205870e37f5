"""The newest frames in memory, so that live readers touch no disk.

Imports nothing of ours but the index's key; holds the writer's own bytes objects, no copies.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable
from threading import Lock
from typing import Final

from core_log.log.index import Key
from core_log.log.results import Committed

FRAME_OVERHEAD_BYTES: Final = 256
"""What holding a frame costs beside its bytes: small frames must not cost many times the limit."""

_COMPACT_AT: Final = 64
"""Forgotten frames at the front of a partition's lists before they are cut off: amortises it."""


class _Frames:
    """One partition's frames. Invariant: from `begin` on, contiguous and in offset order."""

    __slots__ = ("bases", "begin", "end_offset", "frames")

    def __init__(self) -> None:
        self.bases: list[int] = []
        self.frames: list[bytes] = []
        self.begin = 0
        self.end_offset = 0


class HotTail:
    """At most `limit` bytes of the newest frames of all partitions together.

    Any thread may read while the writer adds: one lock, held for a few dictionary steps.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._bytes = 0
        self._order: deque[tuple[Key, int]] = deque()
        self._partitions: dict[Key, _Frames] = {}
        self._lock = Lock()

    @property
    def size(self) -> int:
        """Bytes held now."""
        return self._bytes

    def add(self, group: Iterable[Committed]) -> None:
        """Take a committed group's frames and let go of the oldest beyond the limit."""
        with self._lock:
            for batch in group:
                key = (batch.topic, batch.partition)
                held = self._partitions.get(key)
                if held is None:
                    held = self._partitions[key] = _Frames()
                held.bases.append(batch.base_offset)
                held.frames.append(batch.frame)
                held.end_offset = batch.base_offset + batch.count
                size = len(batch.frame) + FRAME_OVERHEAD_BYTES
                self._order.append((key, size))
                self._bytes += size
            while self._bytes > self._limit:
                self._drop_oldest()

    def _drop_oldest(self) -> None:
        key, length = self._order.popleft()
        self._bytes -= length
        held = self._partitions[key]
        held.frames[held.begin] = b""
        held.begin += 1
        if held.begin == len(held.frames):
            del self._partitions[key]
        elif held.begin >= _COMPACT_AT and held.begin * 2 >= len(held.frames):
            del held.bases[: held.begin]
            del held.frames[: held.begin]
            held.begin = 0

    def read(self, key: Key, offset: int, max_bytes: int) -> tuple[tuple[bytes, ...], int] | None:
        """Frames from the one that holds `offset`, and the offset behind them.

        None if that frame is not in memory. At least one frame, however large.
        """
        with self._lock:
            held = self._partitions.get(key)
            if held is None or not held.bases[held.begin] <= offset < held.end_offset:
                return None
            first = bisect_right(held.bases, offset, held.begin) - 1
            size = 0
            stop = first
            while stop < len(held.frames):
                size += len(held.frames[stop])
                if size > max_bytes and stop > first:
                    break
                stop += 1
            following = held.bases[stop] if stop < len(held.bases) else held.end_offset
            return tuple(held.frames[first:stop]), following
