"""A service's private key for signatures that outlive it, read from a file of its own.

May import `cryptography`. Must never know what is signed.
"""

import os
from pathlib import Path
from typing import Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from hosting.lifecycle import StartError

KEY_FILE_BYTES_MAX: Final = 64 * 1024
"""A private key in PEM is a few hundred bytes; nothing of another size is read."""
_OTHERS: Final = 0o077
_OTHERS_MOUNTED: Final = 0o037
_ROOT: Final = 0


class SigningKeyError(StartError):
    """The signing key can't be used. The message says which file and what to do."""


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
            f"signing_key: {path.name} holds no Ed25519 key; signatures here are Ed25519 only"
        )
    return key


def is_shared(mode: int, *, owner: int, user: int) -> bool:
    """True if a file of this mode is not for this user alone.

    A secret that Kubernetes mounts belongs to root, and the service reads it as its group: that
    group may read, and nobody else.
    """
    mounted = owner == _ROOT and user != _ROOT
    return bool(mode & (_OTHERS_MOUNTED if mounted else _OTHERS))
