"""Signed checkpoints on disk: the newest with its cosignatures, and a series of older ones.

`tree/checkpoint` is the newest. `tree/checkpoints/<size>` are those that are kept: one at every
segment's end for good, and the cosigned ones, fewer the older they are. Imports the file layer and
the format; verifies no signature.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from core_log.log.files import TEMPORARY_SUFFIX, Files, replace_file
from log_format.checkpoint_note import TreeHead, parse_tree_head
from log_format.errors import BadField
from log_format.note import NOTE_BYTES_MAX, Note, parse_note

NEWEST_NAME: Final = "checkpoint"
SERIES_FOLDER: Final = "checkpoints"

THINNING: Final = ((3_600, 60), (86_400, 3_600), (float("inf"), 86_400))
"""Of cosigned checkpoints up to an hour old one a minute is kept, up to a day one an hour, then one
a day: what a witness had seen can be shown for any day, and a year is a few hundred small files."""

_NAME: Final = re.compile(r"[0-9]{20}")


@dataclass(frozen=True, slots=True)
class SignedHead:
    """A checkpoint that was signed: its note, and what the note says."""

    note: Note
    head: TreeHead

    @property
    def size(self) -> int:
        """How many leaves it covers."""
        return self.head.size

    @property
    def cosignatures(self) -> int:
        """Signatures besides the log's own, which stands first."""
        return len(self.note.signatures) - 1


def parse_signed_head(data: bytes, origin: str) -> SignedHead:
    """The checkpoint in `data`, if it is one of this log; else BadField."""
    note = parse_note(data)
    head = parse_tree_head(note.text)
    if head.origin != origin:
        raise BadField("origin", f"the checkpoint is of {head.origin}, and this log is {origin}")
    return SignedHead(note, head)


def thinned(times_s: Iterable[tuple[int, int]], now_s: int) -> set[int]:
    """The sizes to give up, of (size, time of cosigning) pairs: the newest of each span stays."""
    taken: set[tuple[int, int]] = set()
    dropped = set()
    for size, time_s in sorted(times_s, reverse=True):
        age = max(now_s - time_s, 0)
        span = next(every for limit, every in THINNING if age <= limit)
        place = span, time_s // span
        if place in taken:
            dropped.add(size)
        taken.add(place)
    return dropped


class CheckpointNotes:
    """The checkpoints of one log. One thread writes; any thread may read what is returned."""

    def __init__(self, files: Files, folder: Path, origin: str) -> None:
        self._files = files
        self._folder = folder
        self._series = folder / SERIES_FOLDER
        self._origin = origin
        self._made = False
        self.problems: list[str] = []
        """What was wrong with the files at `load_newest`."""

    def load_newest(self) -> SignedHead | None:
        """The greatest checkpoint that was signed, from its own file or from the series."""
        found = [self._load(self._folder / NEWEST_NAME)]
        if found[0] is None and (sizes := self.sizes()):
            found += [self._load(self._path(size)) for size in sizes[-1:]]
        return max((each for each in found if each is not None), key=_size, default=None)

    def load(self, size: int) -> SignedHead | None:
        """A kept checkpoint of exactly this size, with all cosignatures known; None if not kept."""
        newest = self._load(self._folder / NEWEST_NAME)
        if newest is not None and newest.size == size:
            return newest
        return self._load(self._path(size))

    def sizes(self) -> list[int]:
        """The sizes of the kept checkpoints, rising."""
        try:
            names = self._files.names(self._series)
        except FileNotFoundError:
            return []
        return sorted(int(name) for name in names if _NAME.fullmatch(name))

    def save_newest(self, signed: SignedHead) -> None:
        """Put a checkpoint in the newest one's place, durably."""
        self._make()
        replace_file(self._files, self._folder / NEWEST_NAME, [str(signed.note).encode()])

    def keep(self, signed: SignedHead) -> None:
        """Add a checkpoint to the series, durably, or change it there."""
        self._make()
        replace_file(self._files, self._path(signed.size), [str(signed.note).encode()])

    def drop(self, sizes: Iterable[int]) -> None:
        """Take checkpoints out of the series."""
        for size in sizes:
            self._files.remove(self._path(size))

    def remove_temporary(self) -> None:
        """Remove what interrupted writes have left."""
        for folder in (self._folder, self._series):
            try:
                names = self._files.names(folder)
            except FileNotFoundError:
                continue
            for name in names:
                if name.endswith(TEMPORARY_SUFFIX):
                    self._files.remove(folder / name)

    def _make(self) -> None:
        if not self._made:
            self._files.make_directory(self._series)
            self._made = True

    def _path(self, size: int) -> Path:
        return self._series / f"{size:020d}"

    def _load(self, path: Path) -> SignedHead | None:
        try:
            file = self._files.open(path, "read")
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            return parse_signed_head(file.read(0, NOTE_BYTES_MAX + 1), self._origin)
        except BadField as error:
            self.problems.append(f"{path.relative_to(self._folder.parent)} can't be read: {error}")
            return None
        finally:
            file.close()


def _size(signed: SignedHead) -> int:
    return signed.size
