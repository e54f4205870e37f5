"""Sample frames that every test of the format may use."""

import pytest

from log_format.body import encode_body
from log_format.envelope import Codec, add_provenance, add_stamp, decode_envelope
from log_format.frame import body_padding, encode_frame
from log_format.parts import Producer, Provenance, Stamp

PRODUCER = Producer(
    topic="orders.eu",
    partition=3,
    producer_id=7_000_000_001,
    epoch=2,
    first_sequence=40,
    count=3,
    first_event_us=1_700_000_000_000_000,
    greatest_event_us=1_700_000_000_000_900,
    body_sha256=bytes(32),
)
PROVENANCE = Provenance(
    principal="billing",
    issuer="corp",
    client_id="billing-client",
    thumbprint=bytes(range(32)),
    token_id="token-1",
    decision_id=bytes(range(16)),
    policy_hash=bytes(range(32, 64)),
    rule='topics."orders.*".publish',
    gatekeeper_id="gatekeeper-1",
    received_us=1_700_000_000_001_000,
    signature=b"\xa5" * 64,
)
STAMP = Stamp(leaf=12, base_offset=90, append_us=1_700_000_000_002_000, durable_leaf=11)


@pytest.fixture
def producer() -> Producer:
    return PRODUCER


@pytest.fixture
def provenance() -> Provenance:
    return PROVENANCE


@pytest.fixture
def stamp() -> Stamp:
    return STAMP


@pytest.fixture
def body() -> bytes:
    return encode_body(
        [1_700_000_000_000_000, 1_700_000_000_000_100, 1_700_000_000_000_900],
        [b'{"order_id":101}', b"", b"plain"],
        ids=[b"a", b"b", b"c"],
        keys=[b"k", None, b""],
        content_types=[None, None, b"text/plain"],
    )


@pytest.fixture
def sent_frame(producer: Producer, body: bytes) -> bytes:
    """A frame as a sidecar sends it."""
    return encode_frame(producer, body)


@pytest.fixture
def stored_frame(producer: Producer, body: bytes, provenance: Provenance, stamp: Stamp) -> bytes:
    """A frame as it lies in the log, with all three parts and a compressed body."""
    sent = encode_frame(producer, body, codec=Codec.ZSTD)
    envelope = decode_envelope(sent)
    stored = sent[len(envelope.raw) : len(envelope.raw) + envelope.body_len]
    whole = add_stamp(add_provenance(envelope.raw, provenance), stamp)
    return whole + stored + body_padding(len(stored))
