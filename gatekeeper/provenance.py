"""Provenance: who sent a batch, how that was proven, which rule allowed it, under a signature.

The gatekeeper is the only one who writes this part, and signs it with its own Ed25519 key over
the producer part and the provenance (`log_format.parts.signed_bytes`). May import `log_format`
and `cryptography`; knows nothing of HTTP.
"""

from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from gatekeeper.decisions import Ruling
from hosting.lifecycle import StartError
from log_format.envelope import seal_provenance
from log_format.note import SignatureType, VerifierKey
from log_format.parts import Provenance

COSIGNATURE_LINE = b"cosignature/v1\n"


class SigningKeyError(StartError):
    """The signing key can't be used. The message says which file and what to do."""


class Sealer:
    """Adds signed provenance to envelopes. Holds the private key, which it never shows."""

    def __init__(self, key: Ed25519PrivateKey, gatekeeper_id: str) -> None:
        self._key = key
        self.gatekeeper_id = gatekeeper_id
        self.public_key = key.public_key()

    def __repr__(self) -> str:
        return f"<Sealer of {self.gatekeeper_id}>"

    def provenance(self, ruling: Ruling, received_us: int) -> Provenance:
        """The unsigned part for every batch that `ruling` allows. Made once per request and topic;
        the signature differs from batch to batch."""
        identity = ruling.identity
        return Provenance(
            principal=ruling.principal,
            issuer=identity.issuer_url,
            client_id=identity.client_id,
            thumbprint=identity.thumbprint,
            token_id=identity.token_id,
            decision_id=ruling.decision_id,
            policy_hash=ruling.policy_hash,
            rule=ruling.rule,
            gatekeeper_id=self.gatekeeper_id,
            received_us=received_us,
        )

    @property
    def witness_key(self) -> VerifierKey:
        """The public half under this gatekeeper's name, as who checks cosignatures needs it."""
        public = self.public_key.public_bytes_raw()
        return VerifierKey(self.gatekeeper_id, SignatureType.COSIGNATURE_V1, public)

    def cosign(self, message: bytes) -> bytes:
        """Sign a cosignature's message, and nothing else: its first line can stand before no
        provenance, so neither signature can be passed off as the other."""
        if not message.startswith(COSIGNATURE_LINE):
            raise ValueError("only a cosignature's message is signed here")
        return self._key.sign(message)

    def seal(self, envelope: bytes, part: Provenance) -> bytes:
        """`envelope`, which has a producer part only, with `part` signed and added."""
        return seal_provenance(envelope, part, self._key.sign)


def load_signing_key(path: Path) -> Ed25519PrivateKey:
    """Read the gatekeeper's private key: Ed25519 as unencrypted PEM, readable by its owner only."""
    try:
        mode = path.stat().st_mode & 0o777
        data = path.read_bytes()
    except OSError as error:
        raise SigningKeyError(
            f"signing_key: {path.name} can't be read ({error.strerror}); make one with "
            "`openssl genpkey -algorithm ed25519`"
        ) from error
    if mode & 0o077:
        raise SigningKeyError(
            f"signing_key: {path.name} has mode {mode:04o}; others may read it; `chmod 600` it"
        )
    try:
        key = load_pem_private_key(data, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise SigningKeyError(
            f"signing_key: {path.name} is not an unencrypted private key in PEM"
        ) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise SigningKeyError(
            f"signing_key: {path.name} holds no Ed25519 key; provenance is signed with Ed25519 only"
        )
    return key
