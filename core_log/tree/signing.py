"""Who signs the log's checkpoints: the core itself with a key in a file, or another process.

A signer is asked with a proof that the new tree extends the last one. May import `cryptography`
and the format.
"""

from collections.abc import Sequence
from typing import Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from log_format.checkpoint_note import TreeHead, sign_tree_head
from log_format.note import Note, SignatureType, VerifierKey


class SignerUnavailable(Exception):
    """The signer can't be reached or made no sense; ask again later."""


class NotAnExtension(Exception):
    """The signer refuses: it is not shown that the tree extends what it signed last (`head`)."""

    def __init__(self, why: str, head: TreeHead | None = None) -> None:
        super().__init__(why)
        self.head = head


class Signer(Protocol):
    """Signs checkpoints of one log. Called by one thread."""

    def key(self) -> VerifierKey:
        """The public key, under the log's origin. May raise SignerUnavailable."""

    def sign(self, head: TreeHead, before: TreeHead | None, proof: Sequence[bytes]) -> Note:
        """`head` as a signed note; `proof` shows that it extends `before`.

        Raises SignerUnavailable or NotAnExtension.
        """


class LocalSigner:
    """Signs with a key in memory. That the tree only grows is its caller's to check."""

    def __init__(self, private: Ed25519PrivateKey, origin: str) -> None:
        self._private = private
        self._key = VerifierKey(
            origin, SignatureType.ED25519, private.public_key().public_bytes_raw()
        )

    def key(self) -> VerifierKey:
        """The public key."""
        return self._key

    def sign(
        self,
        head: TreeHead,
        before: TreeHead | None,  # noqa: ARG002 - for signers that trust nobody
        proof: Sequence[bytes],  # noqa: ARG002
    ) -> Note:
        """The signed note."""
        return sign_tree_head(head, self._key, self._private.sign)


def verify(public: bytes, message: bytes, signature: bytes) -> bool:
    """Whether `signature` is this key's over `message`."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True
