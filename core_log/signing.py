"""Who signs the log's checkpoints: the core itself with a key in a file, or another process.

A signer is asked with a proof that the new tree extends the last one. May import `cryptography`
and the format; reads the key's file and no other.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from log_format.checkpoint_note import TreeHead, sign_tree_head
from log_format.note import Note, SignatureType, VerifierKey

KEY_FILE_BYTES_MAX: Final = 64 * 1024
"""A private key in PEM is a few hundred bytes; nothing of another size is read."""
_OTHERS: Final = 0o077
_OTHERS_MOUNTED: Final = 0o037
_ROOT: Final = 0


class SigningKeyError(Exception):
    """The signing key can't be used. The message says which file and what to do."""


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


def load_signing_key(path: Path) -> Ed25519PrivateKey:
    """Read a private key: Ed25519 as unencrypted PEM, readable by its owner only."""
    try:
        facts = path.stat()
        mode = facts.st_mode & 0o777
        with path.open("rb") as file:
            data = file.read(KEY_FILE_BYTES_MAX)
    except OSError as error:
        raise SigningKeyError(
            f"signing_key: {path.name} can't be read ({error.strerror}); make one with "
            "`openssl genpkey -algorithm ed25519`"
        ) from error
    if is_shared(mode, owner=facts.st_uid, user=os.getuid()):
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
            f"signing_key: {path.name} holds no Ed25519 key; checkpoints are signed with Ed25519"
        )
    return key


def is_shared(mode: int, *, owner: int, user: int) -> bool:
    """True if a file of this mode is not for this user alone.

    A secret that Kubernetes mounts belongs to root, and the service reads it as its group: that
    group may read, and nobody else.
    """
    mounted = owner == _ROOT and user != _ROOT
    return bool(mode & (_OTHERS_MOUNTED if mounted else _OTHERS))


def verify(public: bytes, message: bytes, signature: bytes) -> bool:
    """Whether `signature` is this key's over `message`."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True
