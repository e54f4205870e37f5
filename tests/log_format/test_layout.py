"""Segment names sort as the log does, and a damaged head is refused."""

import struct

import pytest
from crc32c import crc32c

from log_format.errors import BadMagic, ChecksumMismatch, FormatError, Truncated, UnsupportedVersion
from log_format.layout import (
    SEGMENT_HEAD_BYTES,
    SegmentHead,
    decode_segment_head,
    encode_segment_head,
    parse_segment_name,
    segment_name,
)

HEAD = SegmentHead(log_id=b"0123456789abcdef", first_leaf=2**40, rewritten=3, created_us=-5)


def test_names_sort_in_the_order_of_their_leaves() -> None:
    leaves = [0, 9, 10, 99_999, 2**63]
    names = [segment_name(leaf) for leaf in leaves]
    assert names == sorted(names)
    assert [parse_segment_name(name) for name in names] == leaves


@pytest.mark.parametrize("name", ["5.seg", "0" * 20, "0" * 20 + ".seg.torn", "x" * 20 + ".seg", ""])
def test_other_files_are_not_segments(name: str) -> None:
    assert parse_segment_name(name) is None


def test_a_head_comes_back() -> None:
    encoded = encode_segment_head(HEAD)
    assert len(encoded) == SEGMENT_HEAD_BYTES
    assert decode_segment_head(encoded) == HEAD


def test_every_bit_flip_and_truncation_of_a_head_is_refused() -> None:
    encoded = encode_segment_head(HEAD)
    for bit in range(len(encoded) * 8):
        damaged = bytearray(encoded)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(FormatError):
            decode_segment_head(bytes(damaged))
    with pytest.raises(Truncated):
        decode_segment_head(encoded[:-1])


def test_a_foreign_file_and_a_newer_version_are_told_apart() -> None:
    encoded = encode_segment_head(HEAD)
    with pytest.raises(BadMagic):
        decode_segment_head(b"PAR1" + encoded[4:])
    newer = encoded[:8] + struct.pack("<I", 2) + encoded[12:56]
    with pytest.raises(UnsupportedVersion, match="segment version 2"):
        decode_segment_head(newer + struct.pack("<I4x", crc32c(newer)))
    with pytest.raises(ChecksumMismatch):
        decode_segment_head(newer + encoded[56:])
    with pytest.raises(ChecksumMismatch):
        decode_segment_head(encoded[:16] + b"x" + encoded[17:])
