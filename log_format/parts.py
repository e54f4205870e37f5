"""The three parts of an envelope: what each writer knows, as values and as bytes.

Each part begins with its kind and its length and is padded with zeros to a multiple of 8.
Decoders check every field before they return it.
"""

import struct
from dataclasses import dataclass
from typing import Final

from log_format.errors import BadField, FormatError
from log_format.limits import NAME_BYTES_MAX, RECORDS_MAX
from log_format.sequence import EPOCH_MAX, SEQUENCE_MAX
from log_format.topic import check_any_topic

KIND_PRODUCER: Final = 1
KIND_PROVENANCE: Final = 2
KIND_STAMP: Final = 3

SIGNATURE_CONTEXT: Final = b"sidegate provenance v1\x00"
SIGNATURE_BYTES: Final = 64

_PRODUCER: Final = struct.Struct("<BBHiqhHiiIqq32s")
_PROVENANCE: Final = struct.Struct("<BBHHHHHHHq16s32s32s")
_STAMP: Final = struct.Struct("<BBHIQqqQ")
DURABLE_BYTES: Final = 8
STAMP_BYTES: Final = _STAMP.size
"""The durable position is the last field of the last part, so that a leaf can leave it out."""


def padded(length: int) -> int:
    """`length` rounded up to a multiple of 8."""
    return (length + 7) & ~7


@dataclass(frozen=True, slots=True)
class Producer:
    """Written by the sidecar: what the batch is and where it belongs."""

    topic: str
    partition: int
    producer_id: int
    epoch: int
    first_sequence: int
    count: int
    first_event_us: int
    greatest_event_us: int
    body_sha256: bytes


@dataclass(frozen=True, slots=True)
class Provenance:
    """Written by the gatekeeper: who sent the batch, how that was proven, which rule allowed it."""

    principal: str
    issuer: str
    client_id: str
    thumbprint: bytes
    token_id: str
    decision_id: bytes
    policy_hash: bytes
    rule: str
    gatekeeper_id: str
    received_us: int
    signature: bytes = bytes(SIGNATURE_BYTES)


@dataclass(frozen=True, slots=True)
class Stamp:
    """Written by the core: the batch's place in the log.

    `durable_leaf` is the durable position: every leaf below it was synced when this was written.
    """

    leaf: int
    base_offset: int
    append_us: int
    durable_leaf: int


def encode_producer(part: Producer) -> bytes:
    """The producer part as bytes."""
    topic = check_any_topic(part.topic).encode("ascii")
    _check_producer(part)
    length = padded(_PRODUCER.size + len(topic))
    head = _PRODUCER.pack(
        KIND_PRODUCER,
        len(topic),
        length,
        part.partition,
        part.producer_id,
        part.epoch,
        0,
        part.first_sequence,
        part.count,
        0,
        part.first_event_us,
        part.greatest_event_us,
        part.body_sha256,
    )
    return (head + topic).ljust(length, b"\0")


def decode_producer(part: bytes) -> Producer:
    """Read a producer part whose length is already known to be right."""
    if len(part) < _PRODUCER.size:
        raise BadField("producer part", "is shorter than its fixed fields")
    (
        _kind,
        topic_len,
        _length,
        partition,
        producer_id,
        epoch,
        reserved_a,
        first_sequence,
        count,
        reserved_b,
        first_event_us,
        greatest_event_us,
        body_sha256,
    ) = _PRODUCER.unpack_from(part)
    end = _PRODUCER.size + topic_len
    if reserved_a or reserved_b or len(part) != padded(end) or any(part[end:]):
        raise BadField("producer part", "has a wrong length, padding or reserved field")
    try:
        topic = check_any_topic(part[_PRODUCER.size : end].decode("ascii"))
    except UnicodeDecodeError as error:
        raise BadField("topic", "is not ASCII") from error
    producer = Producer(
        topic,
        partition,
        producer_id,
        epoch,
        first_sequence,
        count,
        first_event_us,
        greatest_event_us,
        body_sha256,
    )
    _check_producer(producer)
    return producer


def _check_producer(part: Producer) -> None:
    if part.partition < 0:
        raise BadField("partition", "is negative")
    if part.producer_id < 0:
        raise BadField("producer_id", "is negative")
    if not 0 <= part.epoch <= EPOCH_MAX:
        raise BadField("epoch", f"must be between 0 and {EPOCH_MAX}")
    if not 0 <= part.first_sequence <= SEQUENCE_MAX:
        raise BadField("first_sequence", f"must be between 0 and {SEQUENCE_MAX}")
    if not 1 <= part.count <= RECORDS_MAX:
        raise BadField("count", f"must be between 1 and {RECORDS_MAX}")
    if part.greatest_event_us < part.first_event_us:
        raise BadField("greatest_event_us", "is less than the first event's time")
    if len(part.body_sha256) != 32:
        raise BadField("body_sha256", "must have 32 bytes")


def encode_provenance(part: Provenance) -> bytes:
    """The provenance part as bytes; an unsigned one carries zeros in the signature's place."""
    names = [
        _encode_name(field, value)
        for field, value in (
            ("principal", part.principal),
            ("issuer", part.issuer),
            ("client_id", part.client_id),
            ("token_id", part.token_id),
            ("rule", part.rule),
            ("gatekeeper_id", part.gatekeeper_id),
        )
    ]
    for field, value, size in (
        ("thumbprint", part.thumbprint, 32),
        ("decision_id", part.decision_id, 16),
        ("policy_hash", part.policy_hash, 32),
        ("signature", part.signature, SIGNATURE_BYTES),
    ):
        if len(value) != size:
            raise BadField(field, f"must have {size} bytes")
    strings = b"".join(names)
    length = padded(_PROVENANCE.size + len(strings)) + SIGNATURE_BYTES
    head = _PROVENANCE.pack(
        KIND_PROVENANCE,
        0,
        length,
        *map(len, names),
        part.received_us,
        part.decision_id,
        part.thumbprint,
        part.policy_hash,
    )
    return (head + strings).ljust(length - SIGNATURE_BYTES, b"\0") + part.signature


def decode_provenance(part: bytes) -> Provenance:
    """Read a provenance part. Its signature is not checked here: that needs a public key."""
    if len(part) < _PROVENANCE.size + SIGNATURE_BYTES:
        raise BadField("provenance part", "is shorter than its fixed fields")
    _kind, reserved, _length, *rest = _PROVENANCE.unpack_from(part)
    lengths, (received_us, decision_id, thumbprint, policy_hash) = rest[:6], rest[6:]
    end = _PROVENANCE.size + sum(lengths)
    if reserved or len(part) != padded(end) + SIGNATURE_BYTES or any(part[end:-SIGNATURE_BYTES]):
        raise BadField("provenance part", "has a wrong length, padding or reserved field")
    names = []
    position = _PROVENANCE.size
    for length in lengths:
        try:
            names.append(part[position : position + length].decode("utf-8"))
        except UnicodeDecodeError as error:
            raise BadField("provenance part", "holds a name that is not UTF-8") from error
        position += length
    principal, issuer, client_id, token_id, rule, gatekeeper_id = names
    return Provenance(
        principal=principal,
        issuer=issuer,
        client_id=client_id,
        thumbprint=thumbprint,
        token_id=token_id,
        decision_id=decision_id,
        policy_hash=policy_hash,
        rule=rule,
        gatekeeper_id=gatekeeper_id,
        received_us=received_us,
        signature=part[-SIGNATURE_BYTES:],
    )


def signed_bytes(producer_part: bytes, provenance_part: bytes) -> bytes:
    """What the gatekeeper's Ed25519 signature covers."""
    return SIGNATURE_CONTEXT + producer_part + provenance_part[:-SIGNATURE_BYTES]


def _encode_name(field: str, value: str) -> bytes:
    encoded = value.encode("utf-8")
    if len(encoded) > NAME_BYTES_MAX:
        raise BadField(field, f"has {len(encoded)} bytes; the limit is {NAME_BYTES_MAX}")
    return encoded


def encode_stamp(part: Stamp) -> bytes:
    """The stamp part as bytes."""
    try:
        return _STAMP.pack(
            KIND_STAMP,
            0,
            _STAMP.size,
            0,
            part.leaf,
            part.base_offset,
            part.append_us,
            part.durable_leaf,
        )
    except struct.error as error:
        raise FormatError(f"stamp: {error}") from error


def decode_stamp(part: bytes) -> Stamp:
    """Read a stamp part."""
    if len(part) != _STAMP.size:
        raise BadField("stamp part", f"must have {_STAMP.size} bytes")
    _kind, reserved_a, _length, reserved_b, leaf, base_offset, append_us, durable = _STAMP.unpack(
        part
    )
    if reserved_a or reserved_b:
        raise BadField("stamp part", "has a reserved field that is not zero")
    if base_offset < 0:
        raise BadField("base_offset", "is negative")
    if durable > leaf:
        raise BadField("durable_leaf", "is above the batch's own leaf")
    return Stamp(leaf, base_offset, append_us, durable)
