"""Provenance: filled from the decision, signed with the gatekeeper's key."""

from collections.abc import Callable

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gatekeeper.audit.decisions import Ruling
from gatekeeper.identity.identity import Identity
from gatekeeper.provenance import Sealer
from log_format.checkpoint_note import cosigned_message
from log_format.envelope import decode_envelope, provenance_signed_bytes
from log_format.frame import decode_frame

WHO = Identity(
    "spiffe://example/app", b"\x07" * 32, "corp", "https://idp", "c", "s", "t", frozenset(), 1.0
)
RULING = Ruling(
    decision_id=b"\x01" * 16,
    at_us=1,
    allowed=True,
    action="publish",
    topic="orders",
    principal="billing",
    rule="rule 5",
    reason="allowed",
    text="",
    policy_hash=b"\x02" * 32,
    identity=WHO,
)


def test_a_sealed_envelope_tells_who_how_and_by_which_rule(frame: Callable[..., bytes]) -> None:
    key = Ed25519PrivateKey.generate()
    sealer = Sealer(key, "spiffe://example/gatekeeper")
    raw = decode_frame(frame("orders")).envelope.raw
    sealed = decode_envelope(sealer.seal(raw, sealer.provenance(RULING, 99)))
    part = sealed.provenance
    assert part is not None
    assert (part.principal, part.issuer, part.client_id) == ("billing", "https://idp", "c")
    assert (part.token_id, part.rule, part.gatekeeper_id) == (
        "t",
        "rule 5",
        "spiffe://example/gatekeeper",
    )
    assert (part.thumbprint, part.decision_id) == (b"\x07" * 32, b"\x01" * 16)
    assert (part.policy_hash, part.received_us) == (b"\x02" * 32, 99)
    sealer.public_key.verify(part.signature, provenance_signed_bytes(sealed.raw))


def test_a_signature_moved_to_another_batch_does_not_verify(frame: Callable[..., bytes]) -> None:
    sealer = Sealer(Ed25519PrivateKey.generate(), "g")
    part = sealer.provenance(RULING, 99)
    one = decode_envelope(sealer.seal(decode_frame(frame("orders")).envelope.raw, part))
    other = decode_envelope(sealer.seal(decode_frame(frame("other")).envelope.raw, part))
    assert one.provenance is not None
    with pytest.raises(InvalidSignature):
        sealer.public_key.verify(one.provenance.signature, provenance_signed_bytes(other.raw))


def test_the_key_is_never_shown() -> None:
    assert repr(Sealer(Ed25519PrivateKey.generate(), "g")) == "<Sealer of g>"


def test_a_cosignature_is_signed_and_nothing_that_could_be_provenance() -> None:
    key = Ed25519PrivateKey.generate()
    sealer = Sealer(key, "spiffe://example/gatekeeper")
    message = cosigned_message("sidegate/aa\n1\nroot\n", 7)
    key.public_key().verify(sealer.cosign(message), message)
    assert sealer.witness_key.name == "spiffe://example/gatekeeper"
    assert sealer.witness_key.public == key.public_key().public_bytes_raw()
    for other in (b"", b"sidegate provenance v1\x00", message[1:]):
        with pytest.raises(ValueError, match="cosignature"):
            sealer.cosign(other)
