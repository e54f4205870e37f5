"""Provenance: who sent a batch, how that was proven, which rule allowed it, under a signature.

The gatekeeper is the only one who writes this part, and signs it with its own Ed25519 key over
the producer part and the provenance (`log_format.parts.signed_bytes`). May import `log_format`
and `cryptography`; knows nothing of HTTP.
"""

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gatekeeper.audit.decisions import Ruling
from log_format.envelope import seal_provenance
from log_format.note import SignatureType, VerifierKey
from log_format.parts import Provenance

COSIGNATURE_LINE = b"cosignature/v1\n"


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
