"""The envelope: a fixed head and up to three parts, under one CRC-32C.

Everything that a gatekeeper or an index needs is here; nobody has to open the body.
Parts stand in the order producer, provenance, stamp; each writer appends its own.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from crc32c import crc32c

from log_format.errors import (
    BadField,
    BadMagic,
    ChecksumMismatch,
    TooLarge,
    Truncated,
    UnsupportedVersion,
)
from log_format.limits import BODY_BYTES_MAX, ENVELOPE_BYTES_MAX
from log_format.parts import (
    KIND_PRODUCER,
    KIND_PROVENANCE,
    KIND_STAMP,
    SIGNATURE_BYTES,
    STAMP_BYTES,
    Producer,
    Provenance,
    Stamp,
    decode_producer,
    decode_provenance,
    decode_stamp,
    encode_producer,
    encode_provenance,
    encode_stamp,
    padded,
    signed_bytes,
)

MAGIC: Final = b"SGBF"
"""A whole frame: envelope and body."""
MAGIC_BODILESS: Final = b"SGBE"
"""An envelope whose body retention has removed. It has a stamp, and is found only in the log."""
VERSION: Final = 1
FLAG_ENCRYPTED: Final = 0x0001

_HEAD: Final = struct.Struct("<4sBBHIIII")
HEAD_BYTES: Final = _HEAD.size
_PARTITION_AT: Final = HEAD_BYTES + 4
"""The producer part is the first, and its kind and lengths take four bytes."""
_CRC_AT: Final = 20
_PART_HEAD: Final = struct.Struct("<BBH")
_ORDERS: Final = (
    (KIND_PRODUCER,),
    (KIND_PRODUCER, KIND_PROVENANCE),
    (KIND_PRODUCER, KIND_STAMP),
    (KIND_PRODUCER, KIND_PROVENANCE, KIND_STAMP),
)


class Codec(IntEnum):
    """How the body is stored."""

    NONE = 0
    ZSTD = 1


@dataclass(frozen=True, slots=True)
class Envelope:
    """A checked envelope. `raw` is exactly its bytes; the other fields were read from them."""

    raw: bytes
    codec: Codec
    encrypted: bool
    has_body: bool
    body_len: int
    uncompressed_len: int
    producer: Producer
    provenance: Provenance | None
    stamp: Stamp | None

    @property
    def frame_len(self) -> int:
        """Bytes from this frame's begin to the next one's."""
        return len(self.raw) + (padded(self.body_len) if self.has_body else 0)


@dataclass(frozen=True, slots=True)
class Lengths:
    """What the fixed head alone tells: enough to know how many bytes to wait for."""

    envelope: int
    frame: int


def peek_lengths(data: bytes | bytearray | memoryview, position: int = 0) -> Lengths:
    """Read the head at `position`; lengths are checked against their limits, the CRC is not."""
    if len(data) - position < HEAD_BYTES:
        raise Truncated("the head is incomplete")
    magic, version, codec, flags, envelope_len, body_len, uncompressed_len, _crc = (
        _HEAD.unpack_from(data, position)
    )
    if magic not in (MAGIC, MAGIC_BODILESS):
        raise BadMagic(f"no frame begins with {bytes(magic).hex()}")
    if version != VERSION:
        raise UnsupportedVersion(f"frame version {version}; this program reads version {VERSION}")
    if codec not in (Codec.NONE, Codec.ZSTD):
        raise BadField("codec", f"{codec} is unknown")
    if flags & ~FLAG_ENCRYPTED:
        raise BadField("flags", f"{flags:#06x} has unknown bits")
    if envelope_len > ENVELOPE_BYTES_MAX:
        raise TooLarge(f"envelope of {envelope_len} bytes; the limit is {ENVELOPE_BYTES_MAX}")
    if max(body_len, uncompressed_len) > BODY_BYTES_MAX:
        raise TooLarge(
            f"body of {max(body_len, uncompressed_len)} bytes; the limit is {BODY_BYTES_MAX}"
        )
    if envelope_len <= HEAD_BYTES or envelope_len % 8:
        raise BadField("envelope length", f"{envelope_len} is impossible")
    if codec == Codec.NONE and body_len != uncompressed_len:
        raise BadField("uncompressed length", "differs from the length of an uncompressed body")
    has_body = magic == MAGIC
    return Lengths(envelope_len, envelope_len + (padded(body_len) if has_body else 0))


def peek_partition(data: bytes | bytearray | memoryview) -> int:
    """The partition of the frame at the begin of `data`, which is not checked: for frames of a
    peer that has checked them, where reading every part of each would cost too much."""
    if len(data) < _PARTITION_AT + 4 or data[HEAD_BYTES] != KIND_PRODUCER:
        raise Truncated("the envelope is incomplete")
    return int.from_bytes(data[_PARTITION_AT : _PARTITION_AT + 4], "little", signed=True)


def decode_envelope(data: bytes | bytearray | memoryview, position: int = 0) -> Envelope:
    """Read and check the envelope at `position`, or raise a FormatError that says what is wrong."""
    lengths = peek_lengths(data, position)
    end = position + lengths.envelope
    if len(data) < end:
        raise Truncated("the envelope is incomplete")
    raw = bytes(data[position:end])
    magic, _version, codec, flags, _envelope_len, body_len, uncompressed_len, crc = (
        _HEAD.unpack_from(raw)
    )
    if _checksum(raw) != crc:
        raise ChecksumMismatch("the envelope's CRC-32C does not match")
    parts = _split_parts(raw)
    if tuple(parts) not in _ORDERS:
        raise BadField("parts", f"kinds {list(parts)} do not stand in a known order")
    has_body = magic == MAGIC
    if not has_body and KIND_STAMP not in parts:
        raise BadField("parts", "an envelope without body has no stamp")
    return Envelope(
        raw=raw,
        codec=Codec(codec),
        encrypted=bool(flags & FLAG_ENCRYPTED),
        has_body=has_body,
        body_len=body_len,
        uncompressed_len=uncompressed_len,
        producer=decode_producer(parts[KIND_PRODUCER]),
        provenance=decode_provenance(parts[KIND_PROVENANCE]) if KIND_PROVENANCE in parts else None,
        stamp=decode_stamp(parts[KIND_STAMP]) if KIND_STAMP in parts else None,
    )


def read_stamped(data: bytes | bytearray | memoryview) -> tuple[bytes, Stamp]:
    """A stamped envelope's bytes and its stamp: the checksum is checked, other parts are not read.

    For whoever hashes millions of them and will hold the hash against another.
    """
    end = peek_lengths(data).envelope
    if len(data) < end:
        raise Truncated("the envelope is incomplete")
    raw = bytes(data[:end])
    if _checksum(raw) != int.from_bytes(raw[_CRC_AT:HEAD_BYTES], "little"):
        raise ChecksumMismatch("the envelope's CRC-32C does not match")
    if raw[-STAMP_BYTES] != KIND_STAMP:
        raise BadField("parts", "the last one is no stamp")
    return raw, decode_stamp(raw[-STAMP_BYTES:])


def new_envelope(
    producer: Producer,
    *,
    body_len: int,
    uncompressed_len: int,
    codec: Codec = Codec.NONE,
    encrypted: bool = False,
) -> bytes:
    """An envelope with only a producer part: what a sidecar sends."""
    if max(body_len, uncompressed_len) > BODY_BYTES_MAX:
        raise TooLarge(f"body of {max(body_len, uncompressed_len)} bytes; limit {BODY_BYTES_MAX}")
    flags = FLAG_ENCRYPTED if encrypted else 0
    part = encode_producer(producer)
    head = _HEAD.pack(
        MAGIC, VERSION, codec, flags, HEAD_BYTES + len(part), body_len, uncompressed_len, 0
    )
    return _sealed(bytearray(head + part))


def add_provenance(envelope: bytes, part: Provenance) -> bytes:
    """`envelope` with a provenance part after its producer part. It must have no other part."""
    return _with_part(envelope, encode_provenance(part), after=(KIND_PRODUCER,))


def seal_provenance(envelope: bytes, part: Provenance, sign: Callable[[bytes], bytes]) -> bytes:
    """`envelope` with `part` under the signature that `sign` makes; the part is encoded once."""
    encoded = encode_provenance(part)
    parts = _split_parts(envelope)
    if tuple(parts) != (KIND_PRODUCER,):
        raise BadField("parts", f"cannot add provenance to an envelope with parts {list(parts)}")
    signature = sign(signed_bytes(parts[KIND_PRODUCER], encoded))
    if len(signature) != SIGNATURE_BYTES:
        raise BadField("signature", f"must have {SIGNATURE_BYTES} bytes")
    return _appended(envelope, encoded[:-SIGNATURE_BYTES] + signature)


def provenance_signed_bytes(envelope: bytes) -> bytes:
    """What the signature in this envelope's provenance part covers."""
    parts = _split_parts(envelope)
    if KIND_PROVENANCE not in parts:
        raise BadField("parts", "this envelope has no provenance")
    return signed_bytes(parts[KIND_PRODUCER], parts[KIND_PROVENANCE])


def add_stamp(envelope: bytes, part: Stamp) -> bytes:
    """`envelope` with the core's stamp as its last part."""
    return _with_part(
        envelope,
        encode_stamp(part),
        after=(KIND_PRODUCER, KIND_PROVENANCE) if _kinds(envelope) == 2 else (KIND_PRODUCER,),
    )


def without_body(envelope: bytes) -> bytes:
    """The envelope as the log keeps it after retention has removed its body."""
    bodiless = bytearray(envelope)
    bodiless[: len(MAGIC_BODILESS)] = MAGIC_BODILESS
    return _sealed(bodiless)


def _with_part(envelope: bytes, part: bytes, *, after: tuple[int, ...]) -> bytes:
    kinds = tuple(_split_parts(envelope))
    if kinds != after:
        raise BadField("parts", f"cannot add a part to an envelope with parts {list(kinds)}")
    return _appended(envelope, part)


def _appended(envelope: bytes, part: bytes) -> bytes:
    whole = bytearray(envelope + part)
    if len(whole) > ENVELOPE_BYTES_MAX:
        raise TooLarge(f"envelope of {len(whole)} bytes; the limit is {ENVELOPE_BYTES_MAX}")
    struct.pack_into("<I", whole, 8, len(whole))
    return _sealed(whole)


def _kinds(envelope: bytes) -> int:
    return len(_split_parts(envelope))


def _sealed(envelope: bytearray) -> bytes:
    struct.pack_into("<I", envelope, _CRC_AT, _checksum(envelope))
    return bytes(envelope)


def _checksum(envelope: bytes | bytearray) -> int:
    """CRC-32C of everything but the four bytes that hold it."""
    view = memoryview(envelope)
    return crc32c(view[HEAD_BYTES:], crc32c(view[:_CRC_AT]))


def _split_parts(raw: bytes) -> dict[int, bytes]:
    parts: dict[int, bytes] = {}
    position = HEAD_BYTES
    while position < len(raw):
        if len(raw) - position < _PART_HEAD.size:
            raise BadField("parts", "end in the middle of a part's head")
        kind, _aside, length = _PART_HEAD.unpack_from(raw, position)
        if length < _PART_HEAD.size or length % 8 or position + length > len(raw):
            raise BadField("parts", f"part of kind {kind} has the impossible length {length}")
        if kind in parts:
            raise BadField("parts", f"kind {kind} stands twice")
        parts[kind] = raw[position : position + length]
        position += length
    return parts
