"""Ed25519 for signed notes: verify a signature, and read the core's public key.

May import `cryptography` and `log_format`; knows nothing of what the notes say.
"""

from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from hosting.lifecycle import StartError
from log_format.errors import FormatError
from log_format.note import SignatureType, VerifierKey, parse_vkey


def verify(public: bytes, message: bytes, signature: bytes) -> bool:
    """Whether `signature` is this key's over `message`."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def load_core_keys(path: Path) -> tuple[VerifierKey, ...]:
    """The core's public keys from a file of vkey lines, or StartError. There is one, and two while
    the core's key is renewed: what is remembered is under the old one."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not text"
        raise StartError(
            f"core.public_key: {path.name} can't be read ({reason}); print it on the core's host "
            "with `sidegate public-key core --config core.yaml` and bring it here"
        ) from error
    try:
        keys = tuple(parse_vkey(line.strip()) for line in lines if line.strip())
    except FormatError as error:
        raise StartError(f"core.public_key: {path.name}: {error}") from error
    if any(key.type is not SignatureType.ED25519 for key in keys):
        raise StartError(f"core.public_key: {path.name} is a witness's key, not a core's")
    if len({key.name for key in keys}) != 1:
        raise StartError(
            f"core.public_key: {path.name} must hold a key of one log, on a line by itself"
        )
    return keys
