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


def load_core_key(path: Path) -> VerifierKey:
    """The core's public key from a file with one vkey line, or StartError."""
    try:
        line = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not text"
        raise StartError(
            f"core.public_key: {path.name} can't be read ({reason}); print it on the core's host "
            "with `sidegate public-key core --config core.yaml` and bring it here"
        ) from error
    try:
        key = parse_vkey(line)
    except FormatError as error:
        raise StartError(f"core.public_key: {path.name}: {error}") from error
    if key.type is not SignatureType.ED25519:
        raise StartError(f"core.public_key: {path.name} is a witness's key, not a core's")
    return key
