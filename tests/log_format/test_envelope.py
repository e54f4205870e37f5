"""Each writer appends its part once, in order, under one checksum."""

import struct
from dataclasses import replace

import pytest

from log_format.envelope import (
    HEAD_BYTES,
    Codec,
    add_provenance,
    add_stamp,
    decode_envelope,
    new_envelope,
    peek_lengths,
    peek_partition,
    provenance_signed_bytes,
    read_stamped,
    seal_provenance,
    without_body,
)
from log_format.errors import (
    BadField,
    BadMagic,
    ChecksumMismatch,
    FormatError,
    TooLarge,
    Truncated,
    UnsupportedVersion,
)
from log_format.limits import BODY_BYTES_MAX
from log_format.parts import Producer, Provenance, Stamp


@pytest.fixture
def sent(producer: Producer) -> bytes:
    return new_envelope(producer, body_len=80, uncompressed_len=80)


def test_parts_come_back_as_each_writer_wrote_them(
    sent: bytes, producer: Producer, provenance: Provenance, stamp: Stamp
) -> None:
    assert decode_envelope(sent).producer == producer
    proven = add_provenance(sent, provenance)
    assert decode_envelope(proven).provenance == provenance
    stamped = decode_envelope(add_stamp(proven, stamp))
    assert (stamped.producer, stamped.provenance, stamped.stamp) == (producer, provenance, stamp)
    assert len(stamped.raw) % 8 == 0


def test_the_core_may_stamp_its_own_batch_that_has_no_provenance(sent: bytes, stamp: Stamp) -> None:
    envelope = decode_envelope(add_stamp(sent, stamp))
    assert envelope.provenance is None
    assert envelope.stamp == stamp


def test_a_stamped_envelope_can_be_read_without_its_other_parts(
    sent: bytes, provenance: Provenance, stamp: Stamp
) -> None:
    stamped = add_stamp(add_provenance(sent, provenance), stamp)
    assert read_stamped(stamped + b"body") == (stamped, stamp)
    assert read_stamped(without_body(stamped)) == (without_body(stamped), stamp)
    for at in range(len(stamped)):
        with pytest.raises(FormatError):
            read_stamped(stamped[:at] + bytes([stamped[at] ^ 1]) + stamped[at + 1 :])
        with pytest.raises(Truncated):
            read_stamped(stamped[:at])
    with pytest.raises(BadField, match="no stamp"):
        read_stamped(sent)


def test_no_part_is_added_twice_or_out_of_order(
    sent: bytes, provenance: Provenance, stamp: Stamp
) -> None:
    proven = add_provenance(sent, provenance)
    stamped = add_stamp(proven, stamp)
    for envelope in (proven, stamped, add_stamp(sent, stamp)):
        with pytest.raises(BadField, match="cannot add a part"):
            add_provenance(envelope, provenance)
    with pytest.raises(BadField, match="cannot add a part"):
        add_stamp(stamped, stamp)


def test_what_is_signed_is_known_before_and_after_the_part_is_added(
    sent: bytes, provenance: Provenance, stamp: Stamp
) -> None:
    signed: list[bytes] = []

    def sign(data: bytes) -> bytes:
        signed.append(data)
        return b"\x07" * 64

    seal_provenance(sent, provenance, sign)
    (before,) = signed
    assert provenance_signed_bytes(add_provenance(sent, provenance)) == before
    assert provenance_signed_bytes(add_stamp(add_provenance(sent, provenance), stamp)) == before
    assert provenance.signature not in before
    with pytest.raises(BadField, match="no provenance"):
        provenance_signed_bytes(sent)


def test_sealing_is_signing_and_adding_in_one(sent: bytes, provenance: Provenance) -> None:
    signed: list[bytes] = []

    def sign(data: bytes) -> bytes:
        signed.append(data)
        return b"\x07" * 64

    sealed = seal_provenance(sent, provenance, sign)
    assert signed == [provenance_signed_bytes(sealed)]
    assert sealed == add_provenance(sent, replace(provenance, signature=b"\x07" * 64))
    with pytest.raises(BadField):
        seal_provenance(sealed, provenance, sign)
    with pytest.raises(BadField, match="64 bytes"):
        seal_provenance(sent, provenance, lambda data: b"short")


def test_a_removed_body_changes_the_length_of_the_frame_and_nothing_else(
    sent: bytes, stamp: Stamp
) -> None:
    stamped = add_stamp(sent, stamp)
    bodiless = decode_envelope(without_body(stamped))
    assert not bodiless.has_body
    assert bodiless.frame_len == len(stamped)
    assert bodiless.body_len == 80


def test_an_envelope_without_body_must_have_a_stamp(sent: bytes) -> None:
    with pytest.raises(BadField, match="no stamp"):
        decode_envelope(without_body(sent))


def with_field(envelope: bytes, layout: str, position: int, value: object) -> bytes:
    changed = bytearray(envelope)
    struct.pack_into(layout, changed, position, value)
    return bytes(changed)


@pytest.mark.parametrize(
    ("layout", "position", "value", "error"),
    [
        ("<4s", 0, b"HTTP", BadMagic),
        ("<B", 4, 2, UnsupportedVersion),
        ("<B", 5, 9, BadField),
        ("<H", 6, 2, BadField),
        ("<I", 8, 4104, TooLarge),
        ("<I", 8, 0, BadField),
        ("<I", 8, 9, BadField),
        ("<I", 8, HEAD_BYTES, BadField),
        ("<I", 12, BODY_BYTES_MAX + 1, TooLarge),
        ("<I", 16, BODY_BYTES_MAX + 1, TooLarge),
        ("<I", 16, 79, BadField),
        ("<I", 20, 0, ChecksumMismatch),
    ],
)
def test_a_head_that_is_not_allowed_is_refused_before_anything_is_read(
    sent: bytes, layout: str, position: int, value: object, error: type[Exception]
) -> None:
    with pytest.raises(error):
        decode_envelope(with_field(sent, layout, position, value))


def test_lengths_are_known_from_the_head_alone(sent: bytes) -> None:
    lengths = peek_lengths(sent[:HEAD_BYTES])
    assert (lengths.envelope, lengths.frame) == (len(sent), len(sent) + 80)
    with pytest.raises(Truncated):
        peek_lengths(sent[: HEAD_BYTES - 1])
    with pytest.raises(Truncated):
        decode_envelope(sent[:-1])


def test_a_body_above_the_limit_is_not_announced(producer: Producer) -> None:
    with pytest.raises(TooLarge):
        new_envelope(producer, body_len=1, uncompressed_len=BODY_BYTES_MAX + 1, codec=Codec.ZSTD)


@pytest.mark.parametrize("partition", [0, 1, 255, 256, 2**31 - 1])
def test_the_partition_can_be_told_without_reading_the_rest(
    producer: Producer, partition: int
) -> None:
    part = replace(producer, partition=partition)
    assert peek_partition(new_envelope(part, body_len=8, uncompressed_len=8)) == partition


@pytest.mark.parametrize("data", [b"", bytes(HEAD_BYTES), bytes(100)])
def test_what_is_no_envelope_has_no_partition(data: bytes) -> None:
    with pytest.raises(Truncated):
        peek_partition(data)
