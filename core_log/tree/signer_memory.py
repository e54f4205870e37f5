"""What a signer process remembers: the one log that it signs for, and the last tree it signed.

The decision is pure: a tree is signed if a proof shows that it extends the last one. The memory is
on disk before the signature leaves, so that no crash makes the signer forget what it has signed.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from log_format.checkpoint_note import TreeHead, parse_tree_head
from log_format.errors import FormatError
from log_format.tree import EMPTY_ROOT, verify_consistency

MEMORY_NAME: Final = "last-signed"
_MEMORY_BYTES_MAX: Final = 4096


class MemoryUnusable(Exception):
    """The memory can't be read, so nothing may be signed. The message says what to do."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a tree is not signed."""

    code: str
    why: str


def decide(
    last: TreeHead | None, head: TreeHead, before_size: int, proof: Sequence[bytes]
) -> Refusal | None:
    """None if `head` may be signed after `last`, given the proof that starts from `before_size`.

    A signer that has signed nothing takes the first log that it is shown.
    """
    if last is None:
        last = TreeHead(head.origin, 0, EMPTY_ROOT)
    if head.origin != last.origin:
        return Refusal("other_log", f"this signer signs for {last.origin} alone")
    if head.extensions:
        return Refusal("bad_checkpoint", "a checkpoint with further lines is not signed")
    if head.size < last.size:
        return Refusal(
            "not_an_extension", f"{last.size} leaves were signed; {head.size} do not extend them"
        )
    if before_size != last.size:
        return Refusal("other_start", f"prove it from the {last.size} leaves that were signed last")
    if not verify_consistency(last.size, head.size, last.root, head.root, proof):
        return Refusal(
            "not_an_extension",
            f"the tree of {head.size} leaves does not extend the {last.size} that were signed",
        )
    return None


class SignerMemory:
    """The file with the last tree that was signed. Replaced whole and synced each time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / MEMORY_NAME
        self.last: TreeHead | None = None

    def load(self) -> None:
        """Read it. One that is damaged stops the signer: it must not begin anew by itself."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            with self._path.open("rb") as file:
                data = file.read(_MEMORY_BYTES_MAX)
        except FileNotFoundError:
            return
        try:
            self.last = parse_tree_head(data.decode())
        except (FormatError, UnicodeDecodeError) as error:
            raise MemoryUnusable(
                f"{self._path} is damaged ({error}); bring back a copy, or write the last "
                "checkpoint that a witness has into it, without its signatures"
            ) from error

    def keep(self, head: TreeHead) -> None:
        """Remember, durably, that `head` is about to be signed."""
        fresh = self._path.with_suffix(".tmp")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(head.text.encode())
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._path)
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        self.last = head
