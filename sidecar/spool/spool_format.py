"""How the spool lies on disk: records in segments, each under its own CRC-32C. Pure.

A segment begins with a magic text. A record is a head of 32 bytes and a payload, padded to a
multiple of 8: a frame to send, or marks that frames are settled. All numbers little-endian.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from crc32c import crc32c

from log_format.limits import BODY_BYTES_MAX, ENVELOPE_BYTES_MAX
from log_format.parts import padded

SEGMENT_MAGIC: Final = b"SGSPOOL1"
RECORD_MAGIC: Final = 0x52535347
_HEAD: Final = struct.Struct("<IIIIQq")
"""magic, CRC-32C of everything behind it, payload length, kind, order, time written (µs)"""
HEAD_BYTES: Final = _HEAD.size
_CRC_FROM: Final = 8
PAYLOAD_BYTES_MAX: Final = ENVELOPE_BYTES_MAX + BODY_BYTES_MAX + 8
"""A whole frame."""
_OFFSET_BITS: Final = 40
"""A position is a segment's number and an offset of up to a terabyte in it."""
_MARK: Final = struct.Struct("<Q")


class Kind(IntEnum):
    """What a record holds."""

    FRAME = 1
    DONE = 2


@dataclass(frozen=True, slots=True)
class Record:
    """A checked record. `order` is the batch's place among all; `offset` is in its segment."""

    kind: Kind
    order: int
    written_us: int
    payload: memoryview
    offset: int

    @property
    def end(self) -> int:
        """Where the next record begins."""
        return self.offset + record_bytes(len(self.payload))


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes that are no record, between two that are, or up to the end."""

    offset: int
    end: int
    at_end: bool


def record_bytes(payload_len: int) -> int:
    """Bytes on disk of a record with this payload."""
    return padded(HEAD_BYTES + payload_len)


def encode_record(kind: Kind, order: int, written_us: int, payload: bytes) -> bytes:
    """A record as bytes."""
    head = _HEAD.pack(RECORD_MAGIC, 0, len(payload), kind, order, written_us)
    crc = crc32c(payload, crc32c(head[_CRC_FROM:]))
    whole = b"".join((head[:4], crc.to_bytes(4, "little"), head[_CRC_FROM:], payload))
    return whole.ljust(record_bytes(len(payload)), b"\0")


def encode_done(positions: list[int], written_us: int) -> bytes:
    """A record that marks these positions as settled."""
    marks = b"".join(_MARK.pack(position) for position in positions)
    return encode_record(Kind.DONE, 0, written_us, marks)


def decode_done(record: Record) -> list[int]:
    """The positions that a record of marks settles."""
    return [position for (position,) in _MARK.iter_unpack(record.payload)]


def decode_record(data: bytes | memoryview, offset: int) -> Record | None:
    """The record at `offset`, or None where there is no whole and sound one."""
    if len(data) - offset < HEAD_BYTES:
        return None
    magic, crc, length, kind, order, written_us = _HEAD.unpack_from(data, offset)
    if magic != RECORD_MAGIC or length > PAYLOAD_BYTES_MAX or kind not in (1, 2):
        return None
    if kind == Kind.DONE and length % _MARK.size:
        return None
    end = offset + HEAD_BYTES + length
    if end > len(data) or offset + record_bytes(length) > len(data):
        return None
    view = memoryview(data)
    if crc32c(view[offset + _CRC_FROM : end]) != crc:
        return None
    return Record(Kind(kind), order, written_us, view[offset + HEAD_BYTES : end], offset)


def payload_length(head: bytes) -> int | None:
    """How long the payload behind a record's head is, or None where this is no head."""
    if len(head) < HEAD_BYTES:
        return None
    magic, _crc, length, _kind, _order, _written_us = _HEAD.unpack_from(head)
    return length if magic == RECORD_MAGIC and length <= PAYLOAD_BYTES_MAX else None


def scan_segment(data: bytes | memoryview) -> Iterator[Record | Damage]:
    """Every record of a segment in order; damage where there is none, then what follows it.

    Damage up to the end is a torn tail where nothing was written behind it.
    """
    offset = len(SEGMENT_MAGIC)
    if bytes(data[:offset]) != SEGMENT_MAGIC:
        if len(data):
            yield Damage(0, len(data), at_end=True)
        return
    while offset < len(data):
        record = decode_record(data, offset)
        if record is None:
            found = _next_record(data, offset + 8)
            yield Damage(offset, found, at_end=found >= len(data))
            offset = found
            continue
        yield record
        offset = record.end


def _next_record(data: bytes | memoryview, offset: int) -> int:
    """Where the next sound record begins at or behind `offset`; records are aligned."""
    for candidate in range(offset, len(data) - HEAD_BYTES + 1, 8):
        if decode_record(data, candidate) is not None:
            return candidate
    return len(data)


def make_position(segment: int, offset: int) -> int:
    """A place in the spool as one number."""
    return segment << _OFFSET_BITS | offset


def split_position(position: int) -> tuple[int, int]:
    """Segment number and offset of a position."""
    return position >> _OFFSET_BITS, position & ((1 << _OFFSET_BITS) - 1)
