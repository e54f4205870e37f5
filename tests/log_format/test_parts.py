"""A part with a value that the format does not allow is neither written nor read."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_format.errors import BadField, FormatError
from log_format.limits import NAME_BYTES_MAX
from log_format.parts import (
    Producer,
    Provenance,
    Stamp,
    decode_producer,
    decode_provenance,
    decode_stamp,
    encode_producer,
    encode_provenance,
    encode_stamp,
)

INT64 = st.integers(-(2**63), 2**63 - 1)
NAMES = st.text(max_size=NAME_BYTES_MAX // 4)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("topic", "a b"),
        ("partition", -1),
        ("producer_id", -1),
        ("epoch", -1),
        ("epoch", 2**15),
        ("first_sequence", -1),
        ("first_sequence", 2**31),
        ("count", 0),
        ("count", 1_000_001),
        ("greatest_event_us", 0),
        ("body_sha256", b"short"),
    ],
)
def test_a_producer_part_names_the_field_that_is_wrong(
    producer: Producer, field: str, value: object
) -> None:
    with pytest.raises(BadField) as caught:
        encode_producer(replace(producer, **{field: value}))  # type: ignore[arg-type]
    assert caught.value.field == field


@pytest.mark.parametrize("field", ["principal", "issuer", "client_id", "token_id", "rule"])
def test_a_name_above_the_limit_is_refused(provenance: Provenance, field: str) -> None:
    with pytest.raises(BadField, match="the limit is 512"):
        encode_provenance(replace(provenance, **{field: "ü" * 257}))  # type: ignore[arg-type]


@pytest.mark.parametrize("field", ["thumbprint", "decision_id", "policy_hash", "signature"])
def test_a_hash_of_another_length_is_refused(provenance: Provenance, field: str) -> None:
    with pytest.raises(BadField) as caught:
        encode_provenance(replace(provenance, **{field: b"x"}))  # type: ignore[arg-type]
    assert caught.value.field == field


def test_a_durable_position_above_the_batch_itself_is_refused() -> None:
    with pytest.raises(BadField, match="durable_leaf"):
        decode_stamp(encode_stamp(Stamp(leaf=4, base_offset=0, append_us=0, durable_leaf=5)))
    with pytest.raises(FormatError):
        encode_stamp(Stamp(leaf=-1, base_offset=0, append_us=0, durable_leaf=0))


@given(NAMES, NAMES, NAMES, NAMES, NAMES, NAMES, INT64)
def test_provenance_comes_back_as_written(
    principal: str,
    issuer: str,
    client_id: str,
    token_id: str,
    rule: str,
    gatekeeper_id: str,
    received_us: int,
) -> None:
    part = Provenance(
        principal=principal,
        issuer=issuer,
        client_id=client_id,
        thumbprint=b"t" * 32,
        token_id=token_id,
        decision_id=b"d" * 16,
        policy_hash=b"p" * 32,
        rule=rule,
        gatekeeper_id=gatekeeper_id,
        received_us=received_us,
        signature=b"s" * 64,
    )
    encoded = encode_provenance(part)
    assert len(encoded) % 8 == 0
    assert decode_provenance(encoded) == part


def test_a_part_of_another_length_than_its_fields_is_refused(
    producer: Producer, provenance: Provenance, stamp: Stamp
) -> None:
    for decode, encoded in (
        (decode_producer, encode_producer(producer)),
        (decode_provenance, encode_provenance(provenance)),
        (decode_stamp, encode_stamp(stamp)),
    ):
        for wrong in (encoded + bytes(8), encoded[:-8], encoded[:8]):
            with pytest.raises(BadField):
                decode(wrong)
