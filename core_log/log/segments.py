"""The series of segments: which there are, and the few of them that are open.

Imports the rungs below. Knows no partition and makes no decision; the journal does.
"""

import logging
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Lock, RLock

from core_log.log.files import Files
from core_log.log.index import Index
from core_log.log.index_file import IndexUnusable, SegmentState, index_path, load_index, save_index
from core_log.log.segment import Segment
from log_format.layout import segment_name

_log = logging.getLogger("sidegate.core.log")


@dataclass(frozen=True, slots=True)
class SealedSegment:
    """What is kept in memory of every sealed segment, open or not."""

    first_leaf: int
    end_leaf: int
    length: int
    rewritten: int
    lost: int


Rebuild = Callable[[SealedSegment, "Segments"], Index]
"""Scans a sealed segment and returns its index."""


class Segments:
    """All segments of a log.

    Invariant: `sealed` is in leaf order, and every segment in it is synced. A sealed segment is
    opened when it is asked for, and the least recently used is let go beyond `open_max`; who
    still holds a Segment goes on using it. Thread-safe: one lock for the tables, and one around
    opening and replacing files, so that a file and its index always belong together.
    """

    def __init__(
        self, files: Files, directory: Path, log_id: bytes, *, open_max: int, rebuild: Rebuild
    ) -> None:
        self._files = files
        self._directory = directory
        self._log_id = log_id
        self._open_max = open_max
        self._rebuild = rebuild
        self._sealed: dict[int, SealedSegment] = {}
        self._order: list[int] = []
        self._pinned: dict[int, Segment] = {}
        self._open: OrderedDict[int, Segment] = OrderedDict()
        self._lock = Lock()
        self._opening = RLock()

    def __len__(self) -> int:
        return len(self._order)

    @property
    def sealed(self) -> list[SealedSegment]:
        """The sealed segments, in leaf order."""
        with self._lock:
            return [self._sealed[leaf] for leaf in self._order if leaf in self._sealed]

    def from_leaf(self, leaf: int) -> list[int]:
        """The first leaves of the segments that may hold `leaf` or what follows it, in order."""
        with self._lock:
            return self._order[max(bisect_right(self._order, leaf) - 1, 0) :]

    def path(self, first_leaf: int) -> Path:
        """Where a segment lies."""
        return self._directory / segment_name(first_leaf)

    def add_active(self, segment: Segment) -> None:
        """A new last segment, which grows. It stays open."""
        with self._lock:
            self._order.append(segment.first_leaf)
            self._pinned[segment.first_leaf] = segment

    def add_sealed(self, sealed: SealedSegment, segment: Segment | None = None) -> None:
        """A sealed segment; `segment` keeps it open where its index is not yet on disk."""
        with self._lock:
            if sealed.first_leaf not in self._pinned and sealed.first_leaf not in self._sealed:
                self._order.append(sealed.first_leaf)
            self._sealed[sealed.first_leaf] = sealed
            if segment is not None:
                self._pinned[sealed.first_leaf] = segment

    def is_sealed(self, first_leaf: int) -> bool:
        """True for every segment but the one that grows."""
        with self._lock:
            return first_leaf in self._sealed

    def is_pinned(self, first_leaf: int) -> bool:
        """True for a segment whose index is in memory only."""
        with self._lock:
            return first_leaf in self._pinned

    def unsaved(self) -> list[SealedSegment]:
        """Sealed segments whose index is in memory only."""
        with self._lock:
            return [self._sealed[leaf] for leaf in self._pinned if leaf in self._sealed]

    def save(self, sealed: SealedSegment) -> None:
        """Put a sealed segment's index on disk and let go of the one in memory."""
        segment = self._pinned[sealed.first_leaf]
        save_index(
            self._files,
            index_path(self.path(sealed.first_leaf)),
            segment.index,
            self._state(sealed),
        )
        with self._lock:
            del self._pinned[sealed.first_leaf]

    def replace(self, sealed: SealedSegment, rewritten: Path, index: Index) -> None:
        """Put a rewritten file in a sealed segment's place, with its index."""
        path = self.path(sealed.first_leaf)
        with self._opening:
            self._files.rename(rewritten, path)
            with self._lock:
                self._sealed[sealed.first_leaf] = sealed
                self._open.pop(sealed.first_leaf, None)
            self._files.sync_directory(self._directory)
            self._save_if_possible(sealed, index)

    def peek(self, first_leaf: int) -> Index:
        """A segment's index for a look at its runs: entries unchecked, and nothing stays open."""
        with self._lock:
            held = self._pinned.get(first_leaf) or self._open.get(first_leaf)
        if held is not None:
            return held.index
        sealed = self._sealed[first_leaf]
        path = index_path(self.path(first_leaf))
        try:
            return load_index(self._files, path, self._state(sealed), check=False)
        except IndexUnusable:
            return self.get(first_leaf).index

    def get(self, first_leaf: int) -> Segment:
        """A segment, opened if need be. Its index is rebuilt if it cannot be believed."""
        with self._lock:
            pinned = self._pinned.get(first_leaf)
            if pinned is not None:
                return pinned
            held = self._open.get(first_leaf)
            if held is not None:
                self._open.move_to_end(first_leaf)
                return held
        with self._opening:
            return self._open.get(first_leaf) or self._open_sealed(self._sealed[first_leaf])

    def _open_sealed(self, sealed: SealedSegment) -> Segment:
        first_leaf = sealed.first_leaf
        path = self.path(first_leaf)
        file = self._files.open(path, "read")
        try:
            index = load_index(self._files, index_path(path), self._state(sealed), check=True)
        except IndexUnusable as unusable:
            _log.warning(
                "rebuilding an index",
                extra={"fields": {"segment": path.name, "why": str(unusable)}},
            )
            index = self._rebuild(sealed, self)
            self._save_if_possible(sealed, index)
        segment = Segment(first_leaf, sealed.rewritten, file, index)
        with self._lock:
            self._open[first_leaf] = segment
            if len(self._open) > self._open_max:
                self._open.popitem(last=False)
        return segment

    def _save_if_possible(self, sealed: SealedSegment, index: Index) -> None:
        """A disk that takes nothing must not keep anybody from reading: an index is disposable, and
        is rebuilt again next time."""
        try:
            save_index(
                self._files, index_path(self.path(sealed.first_leaf)), index, self._state(sealed)
            )
        except OSError as error:
            _log.warning(
                "an index could not be saved",
                extra={"fields": {"segment": segment_name(sealed.first_leaf), "why": str(error)}},
            )

    def _state(self, sealed: SealedSegment) -> SegmentState:
        return SegmentState(self._log_id, sealed.first_leaf, sealed.rewritten, sealed.length)
