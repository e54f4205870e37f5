"""Ed25519 signatures: a few under checkpoints, and one in every batch of a log.

Those of batches are most of a check's time, so libsodium verifies them, which takes half of
OpenSSL's; what it refuses is put to `cryptography`, whose word counts. Knows nothing of files.
"""

from collections.abc import Iterable
from functools import lru_cache

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from nacl.bindings import crypto_sign_open
from nacl.exceptions import BadSignatureError

from log_format.envelope import Envelope, provenance_signed_bytes
from log_format.note import SignatureType, VerifierKey
from log_format.parts import Provenance

KEYS_MAX = 256
"""Prepared keys that are kept: far more gatekeepers than one log has."""


@lru_cache(KEYS_MAX)
def _prepared(public: bytes) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(public)


def verify(public: bytes, message: bytes, signature: bytes) -> bool:
    """Whether `signature` is this key's over `message`."""
    try:
        _prepared(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


class Senders:
    """Judges who a batch says it is from, by the gatekeepers' public keys.

    A gatekeeper that has renewed its key has several under one name. Made in each process anew.
    """

    def __init__(self, keys: Iterable[VerifierKey]) -> None:
        self._keys: dict[str, list[bytes]] = {}
        for key in keys:
            if key.type is SignatureType.COSIGNATURE_V1:
                self._keys.setdefault(key.name, []).append(key.public)

    def __bool__(self) -> bool:
        return bool(self._keys)

    def problem(self, envelope: Envelope) -> tuple[str, str] | None:
        """None where the sender is proven, else a finding's kind and text."""
        provenance = envelope.provenance
        if provenance is None:
            return "no_provenance", "no gatekeeper says who sent it"
        keys = self._keys.get(provenance.gatekeeper_id)
        if keys is None:
            who = f"{provenance.gatekeeper_id!r} vouches for the sender {provenance.principal!r}"
            return "unknown_gatekeeper", f"{who}, and no key of it was given"
        return None if _is_signed(envelope, provenance, keys) else _forged(provenance)


def _is_signed(envelope: Envelope, provenance: Provenance, keys: list[bytes]) -> bool:
    message = provenance_signed_bytes(envelope.raw)
    for public in keys:
        try:
            crypto_sign_open(provenance.signature + message, public)
        except (BadSignatureError, ValueError):
            if not verify(public, message, provenance.signature):
                continue
        return True
    return False


def _forged(provenance: Provenance) -> tuple[str, str]:
    who = f"the sender {provenance.principal!r}, the content, the topic or the sequence"
    return "provenance", f"not what {provenance.gatekeeper_id!r} signed: {who} was changed"
