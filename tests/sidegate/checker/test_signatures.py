"""Signatures by prepared keys, and what they say of a sender."""

from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from log_format.envelope import decode_envelope
from log_format.note import SignatureType, VerifierKey
from sidegate.checker.signatures import Senders, verify


def test_a_signature_is_verified_and_nonsense_is_none() -> None:
    key = Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes_raw()
    assert verify(public, b"text", key.sign(b"text"))
    assert not verify(public, b"other", key.sign(b"text"))
    assert not verify(b"short", b"text", key.sign(b"text"))


def test_a_sender_is_proven_by_any_key_of_its_gatekeeper(signed_log: Any) -> None:
    envelope = decode_envelope(signed_log.frames[3])
    old = VerifierKey("gk-1", SignatureType.COSIGNATURE_V1, bytes(31) + b"\x01")
    assert Senders([old, signed_log.witness_key]).problem(envelope) is None
    forged = Senders([old]).problem(envelope)
    assert forged is not None
    assert forged[0] == "provenance"


def test_a_sender_without_a_known_gatekeeper_is_not_proven(signed_log: Any) -> None:
    envelope = decode_envelope(signed_log.frames[3])
    senders = Senders([VerifierKey("gk-2", SignatureType.COSIGNATURE_V1, bytes(32))])
    unknown = senders.problem(envelope)
    assert unknown is not None
    assert unknown[0] == "unknown_gatekeeper"
    assert "billing" in unknown[1]


def test_only_gatekeepers_keys_count(signed_log: Any) -> None:
    assert not Senders([signed_log.core_key])
    assert Senders([signed_log.witness_key])
