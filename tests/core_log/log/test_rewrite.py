"""A segment rewritten without its expired bodies: all else stays as it was, byte by byte."""

import errno
from pathlib import Path
from typing import Any

import pytest

from core_log.log.files import OsFiles
from core_log.log.index import Index
from core_log.log.rewrite import COPY_BYTES, RewriteGivenUp, head_of, rewrite
from core_log.log.segment import Segment, read_extent
from log_format.envelope import add_stamp, decode_envelope
from log_format.layout import (
    SEGMENT_HEAD_BYTES,
    SegmentHead,
    decode_segment_head,
    encode_segment_head,
)
from log_format.leaf import leaf_hash
from log_format.parts import Stamp

HEAD = SegmentHead(bytes(16), 0, 0, 5)
NEW_HEAD = SegmentHead(bytes(16), 0, 1, 5)


class Sample:
    """A sealed segment of orders and audit records in turn, with a damaged stretch."""

    def __init__(self, folder: Any, frames: Any) -> None:
        self.folder = folder
        self.index = Index(0)
        self.frames: list[bytes] = []
        data = bytearray(encode_segment_head(HEAD))
        offsets = {"orders": 0, "audit": 0}
        for leaf in range(8):
            if leaf == 4:
                self.index.add_lost(1, len(data) + 400)
                data += b"\xee" * 400
                self.frames.append(b"")
                continue
            topic = "orders" if leaf % 2 == 0 else "audit"
            frame = frames.frame(topic, [b"%d" % leaf * 300])
            raw = add_stamp(frame.envelope.raw, Stamp(leaf, offsets[topic], leaf, 0))
            whole = raw + bytes(frame.body)
            self.index.add((topic, 0), offsets[topic], 1, len(data), len(whole), leaf, leaf, True)
            offsets[topic] += 1
            data += whole
            self.frames.append(whole)
        self.path = folder / "old.seg"
        self.path.write_bytes(data)
        self.length = len(data)
        self.segment = Segment(0, 0, OsFiles().open(self.path, "read"), self.index)

    def rewrite(self, expired: Any, stopped: Any = lambda: False) -> Any:
        return rewrite(
            OsFiles(),
            self.folder / "new.seg",
            self.segment,
            NEW_HEAD,
            self.length,
            expired=expired,
            stopped=stopped,
        )

    def new(self, rewritten: Any) -> Segment:
        file = OsFiles().open(self.folder / "new.seg", "read")
        return Segment(0, 1, file, rewritten.index)


@pytest.fixture
def sample(tmp_path: Path, frames: Any) -> Any:
    return Sample(tmp_path, frames)


def of_orders(key: Any, entry: Any) -> bool:
    return key[0] == "orders"


def test_expired_bodies_go_and_their_envelopes_stay_provable(sample: Any) -> None:
    rewritten = sample.rewrite(of_orders)
    assert rewritten.bodies_removed == 3
    new = sample.new(rewritten)
    for number in (0, 2, 6):
        entry = new.index.entry(number)
        assert not entry.has_body
        envelope = decode_envelope(new.file.read(entry.position, entry.length))
        assert (envelope.has_body, envelope.stamp.leaf) == (False, number)
        before = decode_envelope(sample.frames[number])
        assert leaf_hash(envelope.raw) == leaf_hash(before.raw)


def test_what_is_kept_is_kept_byte_by_byte(sample: Any) -> None:
    rewritten = sample.rewrite(of_orders)
    new = sample.new(rewritten)
    extent = read_extent(new, ("audit", 0), 0, 100, 1 << 20, at_least_one=True)
    assert extent.frames == [sample.frames[number] for number in (1, 3, 5, 7)]
    assert b"\xee" * 400 in new.file.read(0, rewritten.length)
    assert rewritten.length == new.file.size() < sample.length
    assert decode_segment_head(new.file.read(0, 64)) == NEW_HEAD


def test_leaves_keep_their_place_and_lost_ones_stay_lost(sample: Any) -> None:
    rewritten = sample.rewrite(of_orders)
    assert len(rewritten.index) == 8
    assert rewritten.index.lost == 1
    assert rewritten.index.entry(4).length == 0
    assert rewritten.index.entry(4).position == rewritten.index.entry(5).position


def test_a_second_pass_removes_more(sample: Any) -> None:
    first = sample.rewrite(of_orders)
    sample.segment = sample.new(first)
    sample.length = first.length
    (sample.folder / "new.seg").rename(sample.folder / "once.seg")
    second = sample.rewrite(lambda key, entry: True)
    assert second.bodies_removed == 4
    assert all(not entry.has_body for key, entry in second.index.in_order() if key)


def test_nothing_expired_is_a_plain_copy(sample: Any) -> None:
    rewritten = sample.rewrite(lambda key, entry: False)
    old = sample.path.read_bytes()
    new = (sample.folder / "new.seg").read_bytes()
    assert new[SEGMENT_HEAD_BYTES:] == old[SEGMENT_HEAD_BYTES:]
    assert rewritten.index.packed() == sample.index.packed()


def test_a_damaged_envelope_is_left_as_it_is(sample: Any) -> None:
    data = bytearray(sample.path.read_bytes())
    data[SEGMENT_HEAD_BYTES + 40] ^= 1
    sample.path.write_bytes(data)
    rewritten = sample.rewrite(of_orders)
    assert (rewritten.bodies_removed, rewritten.unreadable) == (2, 1)
    first = sample.new(rewritten).file.read(64, len(sample.frames[0]))
    assert first == bytes(data[64 : 64 + len(sample.frames[0])])


def test_a_closing_log_gives_the_rewriting_up(sample: Any) -> None:
    with pytest.raises(RewriteGivenUp, match="closing"):
        sample.rewrite(of_orders, stopped=lambda: True)


class Unreadable:
    def read(self, position: int, length: int) -> bytes:
        raise OSError(errno.EIO, "bad sector")


def test_a_segment_that_cannot_be_read_stays_as_it_is(sample: Any) -> None:
    sample.segment = Segment(0, 0, Unreadable(), sample.index)
    with pytest.raises(RewriteGivenUp, match="bad sector"):
        sample.rewrite(of_orders)
    with pytest.raises(RewriteGivenUp, match="bad sector"):
        head_of(sample.segment)


def test_a_file_that_was_cut_short_is_not_copied(sample: Any) -> None:
    sample.path.write_bytes(sample.path.read_bytes()[:-100])
    with pytest.raises(RewriteGivenUp, match="shorter"):
        sample.rewrite(of_orders)


def test_a_damaged_head_is_not_carried_on(sample: Any) -> None:
    assert head_of(sample.segment) == HEAD
    data = bytearray(sample.path.read_bytes())
    data[9] ^= 1
    sample.path.write_bytes(data)
    with pytest.raises(RewriteGivenUp, match="head is damaged"):
        head_of(sample.segment)


def test_long_stretches_are_copied_in_pieces(tmp_path: Path, frames: Any) -> None:
    sample = Sample(tmp_path, frames)
    tail = bytes(range(256)) * (2 * COPY_BYTES // 256 + 3)
    with sample.path.open("ab") as file:
        file.write(tail)
    sample.length += len(tail)
    rewritten = sample.rewrite(of_orders)
    assert (tmp_path / "new.seg").read_bytes().endswith(tail)
    assert rewritten.length == (tmp_path / "new.seg").stat().st_size
