"""The public keys of the witnesses whose cosignatures the core keeps, one vkey a line."""

from pathlib import Path
from typing import Final

from log_format.errors import FormatError
from log_format.note import SignatureType, VerifierKey, parse_vkey

FILE_BYTES_MAX: Final = 64 * 1024
"""A hundred keys at their longest; a mesh has a few gatekeepers."""


class WitnessKeysUnusable(Exception):
    """The file can't be used. The message names the line and what to do."""


def load_witness_keys(path: Path | None) -> list[VerifierKey]:
    """The keys in a file; empty lines and `#` lines are passed over. None: no keys."""
    if path is None:
        return []
    try:
        with path.open("rb") as file:
            text = file.read(FILE_BYTES_MAX).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise WitnessKeysUnusable(f"witness_keys: {path.name} can't be read: {error}") from error
    keys = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            key = parse_vkey(line.strip())
        except FormatError as error:
            raise WitnessKeysUnusable(f"witness_keys: {path.name}:{number}: {error}") from error
        if key.type is not SignatureType.COSIGNATURE_V1:
            raise WitnessKeysUnusable(
                f"witness_keys: {path.name}:{number}: {key.name} is no witness's key; print it "
                "with `sidegate public-key gatekeeper`"
            )
        keys.append(key)
    if not keys:
        raise WitnessKeysUnusable(f"witness_keys: {path.name} holds no key")
    return keys
