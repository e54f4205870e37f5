"""Public keys as one line each (C2SP vkeys): made from private keys, and read from files.

A core's key is named by its log, which exists once the core has started; a gatekeeper's by the
gatekeeper's id. May import `log_format` and `cryptography`; must never import a service.
"""

from __future__ import annotations

from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from log_format.checkpoint_note import log_origin
from log_format.errors import FormatError
from log_format.layout import SEGMENT_HEAD_BYTES, decode_segment_head, parse_segment_name
from log_format.note import SignatureType, VerifierKey, parse_vkey

KEY_FILE_BYTES_MAX = 64 * 1024
"""A file of public keys: a hundred lines at their longest."""


class KeyProblem(Exception):
    """A key that can't be made or read. The message names the file and the next step."""


def gatekeeper_key(private: Path, gatekeeper_id: str) -> VerifierKey:
    """The public key of a gatekeeper: its cosignatures and its provenance are under it."""
    return _named(gatekeeper_id, SignatureType.COSIGNATURE_V1, private)


def core_key(private: Path, log: Path) -> VerifierKey:
    """The public key of the core whose log lies in the folder `log`."""
    return _named(log_origin(log_id_of(log)), SignatureType.ED25519, private)


def log_id_of(log: Path) -> bytes:
    """The id of a log, from the head of its first segment."""
    try:
        names = sorted(path for path in log.iterdir() if parse_segment_name(path.name) is not None)
        if names:
            with names[0].open("rb") as segment:
                return decode_segment_head(segment.read(SEGMENT_HEAD_BYTES)).log_id
    except OSError as error:
        raise KeyProblem(f"{log}: {error.strerror}; is this the core's data folder?") from error
    except FormatError as error:
        raise KeyProblem(f"{names[0]}: {error}") from error
    raise KeyProblem(f"{log} holds no log yet: start the core once, and ask again")


def read_keys(file: Path, wanted: SignatureType) -> list[VerifierKey]:
    """The keys of one kind in a file of vkey lines; empty lines and `#` lines are passed over."""
    try:
        with file.open("rb") as opened:
            text = opened.read(KEY_FILE_BYTES_MAX).decode("utf-8")
    except OSError as error:
        raise KeyProblem(f"{file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise KeyProblem(f"{file} is not text; a public key is one line") from error
    keys = []
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        try:
            key = parse_vkey(line.strip())
        except FormatError as error:
            raise KeyProblem(f"{file}: {error}") from error
        if key.type is not wanted:
            kinds = {SignatureType.ED25519: "a core's", SignatureType.COSIGNATURE_V1: "a witness's"}
            raise KeyProblem(f"{file} holds {kinds[key.type]} key, not {kinds[wanted]}")
        keys.append(key)
    if not keys:
        raise KeyProblem(f"{file} holds no key; a public key is one line")
    return keys


def _named(name: str, kind: SignatureType, private: Path) -> VerifierKey:
    try:
        key = load_pem_private_key(private.read_bytes(), password=None)
    except OSError as error:
        raise KeyProblem(f"{private}: {error.strerror}") from error
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise KeyProblem(f"{private} is not an unencrypted private key in PEM") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise KeyProblem(f"{private} holds no Ed25519 key")
    try:
        return VerifierKey(name, kind, key.public_key().public_bytes_raw())
    except FormatError as error:
        raise KeyProblem(str(error)) from error
