"""How a log lies on disk: file names and the head of a segment. Writers and checkers share it.

A log is a folder of segments. A segment is a head of fixed size and then frames, back to back.
It is named by its first leaf, so that a listing in name order is the log in order. The head names
the log that the segment belongs to, and how often the cleaner has rewritten it.
"""

import re
import struct
from dataclasses import dataclass
from typing import Final

from crc32c import crc32c

from log_format.errors import BadMagic, ChecksumMismatch, Truncated, UnsupportedVersion

SEGMENT_MAGIC: Final = b"SGLOGSEG"
SEGMENT_VERSION: Final = 1
SEGMENT_SUFFIX: Final = ".seg"
_HEAD: Final = struct.Struct("<8sII16sQQqI4x")
SEGMENT_HEAD_BYTES: Final = _HEAD.size
_CRC_AT: Final = 56
_NAME: Final = re.compile(r"([0-9]{20})\.seg")


@dataclass(frozen=True, slots=True)
class SegmentHead:
    """The first bytes of a segment. `rewritten` counts the cleaner's passes over it."""

    log_id: bytes
    first_leaf: int
    rewritten: int
    created_us: int


def segment_name(first_leaf: int) -> str:
    """The file name of the segment that begins with `first_leaf`."""
    return f"{first_leaf:020d}{SEGMENT_SUFFIX}"


def parse_segment_name(name: str) -> int | None:
    """The first leaf of a segment's file name, or None for any other file."""
    match = _NAME.fullmatch(name)
    return int(match[1]) if match else None


def encode_segment_head(head: SegmentHead) -> bytes:
    """The head as bytes, under a CRC-32C of its own."""
    packed = _HEAD.pack(
        SEGMENT_MAGIC,
        SEGMENT_VERSION,
        0,
        head.log_id,
        head.first_leaf,
        head.rewritten,
        head.created_us,
        0,
    )
    crc = crc32c(packed[:_CRC_AT])
    return packed[:_CRC_AT] + struct.pack("<I4x", crc)


def decode_segment_head(data: bytes | memoryview) -> SegmentHead:
    """Read a segment's head, or raise a FormatError that says what is wrong."""
    if len(data) < SEGMENT_HEAD_BYTES:
        raise Truncated("the segment's head is incomplete")
    magic, version, reserved, log_id, first_leaf, rewritten, created_us, crc = _HEAD.unpack_from(
        data
    )
    if magic != SEGMENT_MAGIC:
        raise BadMagic("this file is not a segment of a Sidegate log")
    # Every version has magic, version and CRC at these places: so rot is not taken for a newer one.
    if crc32c(bytes(data[:_CRC_AT])) != crc:
        raise ChecksumMismatch("the segment head's CRC-32C does not match")
    if version != SEGMENT_VERSION:
        raise UnsupportedVersion(
            f"segment version {version}; this program reads version {SEGMENT_VERSION}"
        )
    if reserved or any(data[_CRC_AT + 4 : SEGMENT_HEAD_BYTES]):
        raise ChecksumMismatch("the segment head's reserved bytes are not zero")
    return SegmentHead(log_id, first_leaf, rewritten, created_us)
