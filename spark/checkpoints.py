"""Checkpoints from all hands: the log's own, the gatekeeper's, and what the auditor brings.

Reads signed notes, checks their signatures where a key is known, and turns them into roots that
the tree check compares with the log's leaves. What is wrong with a note is a finding in words.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from log_format.checkpoint_note import BadSignature, parse_tree_head, verified_signatures
from log_format.errors import FormatError
from log_format.note import NOTE_BYTES_MAX, VerifierKey, parse_note, parse_vkey
from spark.checks.tree import Stated
from spark.leaf_tiles import TREE_FOLDER
from spark.synced import CHECKPOINT_NAME

SERIES_FOLDER: Final = "checkpoints"


@dataclass(frozen=True, slots=True)
class Wrong:
    """A note that can't be what it claims. `kind` is stable; `text` says what is wrong."""

    kind: str
    text: str


class BadKey(Exception):
    """A file that holds no public key."""


def own_checkpoints(log: Path) -> list[Path]:
    """The newest checkpoint beside the log and the series of kept ones."""
    tree = log / TREE_FOLDER
    newest = tree / CHECKPOINT_NAME
    series = sorted(path for path in (tree / SERIES_FOLDER).glob("*") if path.name.isdigit())
    return [*series, *([newest] if newest.is_file() else [])]


def read_keys(path: Path) -> tuple[VerifierKey, ...]:
    """The public keys in a file, one a line; `core.pub` has one, until the key is renewed."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        keys = tuple(parse_vkey(line.strip()) for line in lines if line.strip())
    except (OSError, UnicodeDecodeError, FormatError) as error:
        raise BadKey(f"{path}: {error}") from error
    if not keys:
        raise BadKey(f"{path} holds no key; a public key is one line")
    return keys


def read_checkpoint(
    path: Path, *, source: str, origin: str, keys: Sequence[VerifierKey], signed_by: str | None
) -> Stated | Wrong:
    """The root that the note in `path` states, or what is wrong with it.

    `signed_by` names the key that must have signed it; None where that key is not known.
    """
    try:
        with path.open("rb") as file:
            note = parse_note(file.read(NOTE_BYTES_MAX + 1))
        head = parse_tree_head(note.text)
    except OSError as error:
        return Wrong("checkpoint_unreadable", f"{source}: {error.strerror}")
    except FormatError as error:
        return Wrong("checkpoint_unreadable", f"{source}: {error}")
    if head.origin != origin:
        text = f"{source} is of the log {head.origin}, and this one is {origin}"
        return Wrong("checkpoint_foreign", text)
    try:
        signed = verified_signatures(note, keys, _verify)
    except BadSignature as error:
        return Wrong("checkpoint_signature", f"{source}: {error}")
    if signed_by is not None and signed_by not in {each.key.name for each in signed}:
        return Wrong("checkpoint_signature", f"{source} is not signed by {signed_by}")
    return Stated(source, head.size, head.root)


def read_all(
    sources: Iterable[tuple[Path, str]],
    *,
    origin: str,
    keys: Sequence[VerifierKey],
    signed_by: str | None,
) -> Iterator[Stated | Wrong]:
    """Each (file, source) of a list."""
    for path, source in sources:
        yield read_checkpoint(path, source=source, origin=origin, keys=keys, signed_by=signed_by)


def _verify(public: bytes, message: bytes, signature: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except InvalidSignature:
        return False
    return True
