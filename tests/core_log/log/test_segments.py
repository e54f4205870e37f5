"""The series of segments: a few are open, and a file and its index always belong together."""

import errno
from pathlib import Path
from typing import Any

import pytest

from core_log.log.files import OsFiles
from core_log.log.index import Index
from core_log.log.index_file import index_path
from core_log.log.segment import Segment, create_segment
from core_log.log.segments import SealedSegment, Segments
from log_format.layout import SEGMENT_HEAD_BYTES, SegmentHead

LOG_ID = bytes(16)


def index_for(leaf: int) -> Index:
    index = Index(leaf)
    index.add(("orders", 0), leaf, 1, SEGMENT_HEAD_BYTES, 100, 1, 1, True)
    return index


class Rebuilder:
    """Makes indexes, and remembers for which segments it was asked."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def __call__(self, sealed: SealedSegment, segments: Segments) -> Index:
        self.asked.append(sealed.first_leaf)
        return index_for(sealed.first_leaf)


class NoPlaceForIndexes(OsFiles):
    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def open(self, path: Path, mode: Any) -> Any:
        if mode == "create" and ".idx" in path.name:
            raise OSError(self.number, "the disk takes no index")
        return super().open(path, mode)


@pytest.fixture
def rebuild() -> Any:
    return Rebuilder()


def make(folder: Any, rebuild: Any, files: Any = None, open_max: int = 2) -> Segments:
    return Segments(files or OsFiles(), folder, LOG_ID, open_max=open_max, rebuild=rebuild)


def add(segments: Segments, folder: Any, leaf: int) -> SealedSegment:
    file = create_segment(OsFiles(), folder, SegmentHead(LOG_ID, leaf, 0, 1))
    sealed = SealedSegment(leaf, leaf + 1, SEGMENT_HEAD_BYTES, 0, 0)
    segments.add_sealed(sealed, Segment(leaf, 0, file, index_for(leaf)))
    return sealed


def test_an_index_is_in_memory_until_it_is_saved(tmp_path: Path, rebuild: Any) -> None:
    segments = make(tmp_path, rebuild)
    sealed = add(segments, tmp_path, 0)
    assert segments.unsaved() == [sealed]
    in_memory = segments.get(0)
    segments.save(sealed)
    assert segments.unsaved() == []
    mapped = segments.get(0)
    assert mapped is not in_memory
    assert mapped.index.packed() == in_memory.index.packed()
    assert rebuild.asked == []


def test_only_so_many_are_kept_open(tmp_path: Path, rebuild: Any) -> None:
    segments = make(tmp_path, rebuild, open_max=2)
    for leaf in range(4):
        segments.save(add(segments, tmp_path, leaf))
    first = segments.get(0)
    assert segments.get(0) is first
    segments.get(1)
    segments.get(0)
    segments.get(2)
    assert segments.get(0) is first, "the least recently used goes first"
    segments.get(3)
    segments.get(1)
    assert segments.get(0) is not first
    assert first.file.size() == SEGMENT_HEAD_BYTES, "who holds one goes on using it"


def test_a_damaged_index_is_rebuilt_and_saved(tmp_path: Path, rebuild: Any) -> None:
    segments = make(tmp_path, rebuild)
    segments.save(add(segments, tmp_path, 0))
    path = index_path(segments.path(0))
    damaged = bytearray(path.read_bytes())
    damaged[100] ^= 1
    path.write_bytes(damaged)
    assert segments.get(0).index.packed() == index_for(0).packed()
    assert rebuild.asked == [0]
    assert make_again(tmp_path, rebuild).get(0).index.packed() == index_for(0).packed()
    assert rebuild.asked == [0]


def make_again(folder: Any, rebuild: Any) -> Segments:
    segments = make(folder, rebuild)
    segments.add_sealed(SealedSegment(0, 1, SEGMENT_HEAD_BYTES, 0, 0))
    return segments


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_a_disk_that_takes_no_index_keeps_nobody_from_reading(
    tmp_path: Path, rebuild: Any, number: int
) -> None:
    segments = make(tmp_path, rebuild)
    segments.save(add(segments, tmp_path, 0))
    index_path(segments.path(0)).unlink()
    full = make(tmp_path, rebuild, files=NoPlaceForIndexes(number))
    full.add_sealed(SealedSegment(0, 1, SEGMENT_HEAD_BYTES, 0, 0))
    assert len(full.get(0).index) == 1


def test_a_rewritten_segment_takes_the_place_of_the_old_for_new_readers(
    tmp_path: Path, rebuild: Any
) -> None:
    segments = make(tmp_path, rebuild)
    segments.save(add(segments, tmp_path, 0))
    old = segments.get(0)
    new_file = tmp_path / "new"
    new_file.write_bytes(bytes(SEGMENT_HEAD_BYTES) + b"rewritten")
    sealed = SealedSegment(0, 1, SEGMENT_HEAD_BYTES + 9, 1, 0)
    segments.replace(sealed, new_file, index_for(0))
    new = segments.get(0)
    assert (new.rewritten, new.file.size()) == (1, SEGMENT_HEAD_BYTES + 9)
    assert old.file.size() == SEGMENT_HEAD_BYTES
    assert segments.sealed == [sealed]
    assert rebuild.asked == []


def test_a_look_at_an_index_opens_nothing(tmp_path: Path, rebuild: Any) -> None:
    segments = make(tmp_path, rebuild)
    sealed = add(segments, tmp_path, 0)
    assert segments.peek(0) is segments.get(0).index
    segments.save(sealed)
    assert segments.peek(0) is not segments.peek(0)
    index_path(segments.path(0)).unlink()
    assert len(segments.peek(0)) == 1
    assert rebuild.asked == [0]


def test_the_growing_segment_is_not_among_the_sealed(tmp_path: Path, rebuild: Any) -> None:
    segments = make(tmp_path, rebuild)
    sealed = add(segments, tmp_path, 0)
    file = create_segment(OsFiles(), tmp_path, SegmentHead(LOG_ID, 1, 0, 1))
    active = Segment(1, 0, file, Index(1))
    segments.add_active(active)
    assert segments.get(1) is active
    assert segments.sealed == [sealed]
    assert (segments.is_sealed(0), segments.is_sealed(1), len(segments)) == (True, False, 2)
    assert segments.is_pinned(1)
