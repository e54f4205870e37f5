"""A leaf covers all that must never change, and nothing that may."""

from dataclasses import replace
from hashlib import sha256

from log_format.envelope import add_provenance, add_stamp, new_envelope, without_body
from log_format.leaf import leaf_hash
from log_format.parts import Producer, Provenance, Stamp


def test_a_leaf_is_the_hash_of_the_envelope_without_checksum_and_durable_position(
    producer: Producer, provenance: Provenance, stamp: Stamp
) -> None:
    sent = new_envelope(producer, body_len=80, uncompressed_len=80)
    envelope = add_stamp(add_provenance(sent, provenance), stamp)
    expected = sha256(b"\x00" + envelope[:20] + envelope[24:-8]).digest()
    assert leaf_hash(envelope) == expected


def test_a_leaf_survives_what_may_change_and_nothing_else(
    producer: Producer, provenance: Provenance, stamp: Stamp
) -> None:
    sent = new_envelope(producer, body_len=80, uncompressed_len=80)
    envelope = add_stamp(add_provenance(sent, provenance), stamp)
    leaf = leaf_hash(envelope)
    assert leaf_hash(without_body(envelope)) == leaf
    later = replace(stamp, durable_leaf=3)
    assert leaf_hash(add_stamp(add_provenance(sent, provenance), later)) == leaf
    for changed in (
        add_stamp(add_provenance(sent, replace(provenance, principal="mallory")), stamp),
        add_stamp(add_provenance(sent, provenance), replace(stamp, base_offset=91)),
        add_stamp(add_provenance(sent, provenance), replace(stamp, append_us=1)),
        add_stamp(sent, stamp),
    ):
        assert leaf_hash(changed) != leaf
