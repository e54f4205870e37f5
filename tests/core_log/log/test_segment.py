"""Reading a partition's frames out of one segment, whole, checked, and around damage."""

from pathlib import Path
from typing import Any

import pytest

from core_log.log.files import OsFiles
from core_log.log.index import Index
from core_log.log.segment import GAP_BYTES_MAX, Segment, create_segment, read_extent
from log_format.envelope import add_stamp, decode_envelope, without_body
from log_format.layout import SEGMENT_HEAD_BYTES, SegmentHead, decode_segment_head
from log_format.parts import Stamp

ORDERS = ("orders", 0)


class CountingFile:
    """A file that remembers where it was read."""

    def __init__(self, data: bytes) -> None:
        self.data = bytearray(data)
        self.reads: list[tuple[int, int]] = []

    def read(self, position: int, length: int) -> bytes:
        self.reads.append((position, length))
        return bytes(self.data[position : position + length])


class Builder:
    """Builds a segment in memory, frame by frame."""

    def __init__(self, frames: Any) -> None:
        self.frames = frames
        self.data = bytearray(SEGMENT_HEAD_BYTES)
        self.index = Index(0)
        self.ends: dict[tuple[str, int], int] = {}
        self.written: list[bytes] = []

    def add(
        self, topic: str = "orders", values: Any = (b"value",), *, bodiless: Any = False
    ) -> bytes:
        key = (topic, 0)
        frame = self.frames.frame(topic, values)
        base = self.ends.get(key, 0)
        raw = add_stamp(frame.envelope.raw, Stamp(len(self.index), base, 1, 0))
        data = without_body(raw) if bodiless else raw + bytes(frame.body)
        self.index.add(key, base, len(values), len(self.data), len(data), 1, 1, not bodiless)
        self.ends[key] = base + len(values)
        self.data += data
        self.written.append(data)
        return data

    def lose(self, topic: str, records: int) -> None:
        self.index.add_lost(1, len(self.data))
        self.ends[topic, 0] = self.ends.get((topic, 0), 0) + records

    def segment(self) -> Segment:
        return Segment(0, 0, CountingFile(bytes(self.data)), self.index)


@pytest.fixture
def builder(frames: Any) -> Any:
    return Builder(frames)


def read(
    segment: Any,
    offset: Any,
    *,
    end: Any = 1000,
    max_bytes: Any = 1 << 20,
    at_least_one: Any = True,
) -> Any:
    return read_extent(segment, ORDERS, offset, end, max_bytes, at_least_one=at_least_one)


def test_a_new_segment_has_its_head_and_nothing_else(tmp_path: Path) -> None:
    head = SegmentHead(bytes(range(16)), 42, 0, 7)
    file = create_segment(OsFiles(), tmp_path, head)
    path = tmp_path / "00000000000000000042.seg"
    assert decode_segment_head(path.read_bytes()) == head
    assert file.size() == SEGMENT_HEAD_BYTES


def test_neighbours_are_read_with_one_call(builder: Any) -> None:
    expected = [builder.add(values=[b"a", b"b"]) for _ in range(5)]
    segment = builder.segment()
    extent = read(segment, 0)
    assert extent.frames == expected
    assert (extent.next_offset, extent.stopped, extent.problem) == (10, False, None)
    assert len(segment.file.reads) == 1


def test_small_gaps_are_read_over_and_large_ones_are_not(builder: Any) -> None:
    mine = [builder.add()]
    builder.add("audit")
    mine.append(builder.add())
    builder.add("audit", [b"x" * GAP_BYTES_MAX])
    mine.append(builder.add())
    segment = builder.segment()
    assert read(segment, 0).frames == mine
    assert len(segment.file.reads) == 2


@pytest.mark.parametrize(("offset", "first"), [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2)])
def test_the_first_frame_is_the_one_that_holds_the_offset(
    builder: Any, offset: Any, first: Any
) -> None:
    expected = [builder.add(values=[b"a", b"b"]) for _ in range(3)]
    assert read(builder.segment(), offset).frames == expected[first:]


def test_a_read_ends_at_its_bytes_but_gives_one_frame_if_asked_to(builder: Any) -> None:
    expected = [builder.add() for _ in range(4)]
    two = len(expected[0]) * 2 + 10
    extent = read(builder.segment(), 1, max_bytes=two)
    assert (extent.frames, extent.next_offset, extent.stopped) == (expected[1:3], 3, True)
    assert read(builder.segment(), 1, max_bytes=1).frames == expected[1:2]
    assert read(builder.segment(), 1, max_bytes=1, at_least_one=False).frames == []


def test_nothing_beyond_the_committed_end_is_read(builder: Any) -> None:
    expected = [builder.add() for _ in range(4)]
    assert read(builder.segment(), 0, end=2).frames == expected[:2]


def test_batches_without_bodies_are_passed_over(builder: Any) -> None:
    builder.add(bodiless=True)
    builder.add(bodiless=True)
    kept = builder.add()
    extent = read(builder.segment(), 0)
    assert (extent.frames, extent.next_offset) == ([kept], 3)


def test_lost_offsets_are_named_where_a_read_meets_them(builder: Any) -> None:
    before = builder.add()
    builder.lose("orders", 3)
    after = builder.add()
    segment = builder.segment()
    extent = read(segment, 0)
    assert (extent.frames, extent.next_offset, extent.problem_end) == ([before], 1, 4)
    assert "lost" in extent.problem
    extent = read(segment, 2)
    assert (extent.frames, extent.next_offset, extent.problem_end) == ([], 2, 4)
    assert read(segment, 4).frames == [after]


def test_a_damaged_batch_costs_itself_alone(builder: Any) -> None:
    written = [builder.add(values=[b"a", b"b"]) for _ in range(3)]
    segment = builder.segment()
    segment.file.data[SEGMENT_HEAD_BYTES + len(written[0]) + 250] ^= 1
    extent = read(segment, 0)
    assert (extent.frames, extent.next_offset, extent.problem_end) == (written[:1], 2, 4)
    assert "damaged" in extent.problem
    assert read(segment, 3).next_offset == 3
    assert read(segment, 4).frames == written[2:]


def test_a_frame_that_the_index_did_not_name_is_not_given_out(builder: Any) -> None:
    """A wrong position may hold a sound frame of somebody else."""
    first = builder.add()
    second = builder.add()
    assert len(first) == len(second)
    segment = builder.segment()
    at = SEGMENT_HEAD_BYTES
    swapped = bytes(segment.file.data[at : at + len(first)])
    segment.file.data[at : at + len(first)] = second
    segment.file.data[at + len(first) : at + 2 * len(first)] = swapped
    assert decode_envelope(segment.file.read(at, len(first))).stamp.leaf == 1
    extent = read(segment, 0)
    assert extent.frames == []
    assert "not the one" in extent.problem


def test_a_partition_whose_run_was_lost_is_passed_over(builder: Any) -> None:
    builder.add("audit")
    extent = read(builder.segment(), 5)
    assert (extent.frames, extent.next_offset, extent.problem) == ([], 5, None)
