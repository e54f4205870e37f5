"""The files of a log's tree: its state, its tiles, and the checkpoints that are kept beside them.

Reads what `docs/format.md` describes, by itself; judges nothing but whether a file can be read.
Checkpoints may also come from elsewhere, from a witness's disk for instance.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from crc32c import crc32c

from log_format.checkpoint_note import (
    BadSignature,
    TreeHead,
    parse_tree_head,
    verified_signatures,
)
from log_format.errors import FormatError
from log_format.note import NOTE_BYTES_MAX, Note, VerifierKey, parse_note
from log_format.tiles import TILE_WIDTH, Tile, partial_tiles
from log_format.tree import HASH_BYTES, SIZE_MAX
from sidegate.checker.findings import Finding
from sidegate.checker.signatures import verify

TREE_FOLDER: Final = "tree"
STATE_NAME: Final = "state"
NEWEST_NAME: Final = "checkpoint"
SERIES_FOLDER: Final = "checkpoints"
LOOKS_MAX: Final = 5
"""How often the edge of a tree is read again while a running core moves it on."""
_SERIES_NAME: Final = re.compile(r"[0-9]{20}")
_STATE_TITLE: Final = "sidegate tree 1"
_SMALL_FILE_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class TreeState:
    """How far the tiles reach, and the size of the greatest checkpoint signed at that time."""

    log_id: bytes
    size: int
    root: bytes
    signed: int


@dataclass(frozen=True, slots=True)
class Claim:
    """A checkpoint: that the tree of this size has this root. `name` is where it was found."""

    name: str
    note: Note
    head: TreeHead

    def cosigners(self, witnesses: Iterable[VerifierKey]) -> tuple[VerifierKey, ...]:
        """The witnesses among these who cosigned; a signature that is not theirs counts as none."""
        found: list[VerifierKey] = []
        for key in witnesses:
            try:
                found += (each.key for each in verified_signatures(self.note, [key], verify))
            except BadSignature:
                continue
        return tuple(found)


def read_claim(path: Path, name: str) -> Claim:
    """The checkpoint in a file, or FormatError."""
    with path.open("rb") as file:
        note = parse_note(file.read(NOTE_BYTES_MAX + 1))
    return Claim(name, note, parse_tree_head(note.text))


def signature_findings(
    claim: Claim, cores: Collection[VerifierKey], witnesses: Iterable[VerifierKey]
) -> Iterator[Finding]:
    """What is wrong with a checkpoint's signatures, by the keys that are known. `cores` are the
    keys that the core has had, one after the other: one of them must have signed."""
    found: set[VerifierKey] = set()
    for key in (*cores, *witnesses):
        try:
            found.update(each.key for each in verified_signatures(claim.note, [key], verify))
        except BadSignature as error:
            text = f"checkpoint of {claim.head.size} leaves: {error}"
            yield Finding("checkpoint_signature", claim.name, None, text)
            found.add(key)
    if cores and found.isdisjoint(cores):
        text = f"checkpoint of {claim.head.size} leaves: no given key of the core has signed it"
        yield Finding("checkpoint_signature", claim.name, None, text)


class TreeFiles:
    """The folder `tree` of one log, as it is when this is made."""

    def __init__(self, log: Path, root: Path) -> None:
        self.folder = log / TREE_FOLDER
        self._root = root
        self.exists = self.folder.is_dir()
        self.findings: list[Finding] = []
        self.claims: list[Claim] = []
        self.state: TreeState | None = None
        self._edge: dict[tuple[int, int], bytes] = {}
        if self.exists:
            # In this order: the state tells which checkpoint there must be, and a running core may
            # sign more between the two looks.
            self._read_edge()
            self._read_checkpoints()

    def name(self, path: Path) -> str:
        """A file as reports call it."""
        return str(path.relative_to(self._root))

    def tile(self, level: int, index: int) -> bytes | None:
        """A tile's hashes, full or at the edge; None where there is no file."""
        kept = self._edge.get((level, index))
        if kept is not None:
            return kept
        return _small_file(self.folder / Tile(level, index).path, TILE_WIDTH * HASH_BYTES)

    def leaf(self, number: int) -> bytes | None:
        """A leaf's hash out of its tile."""
        index, place = divmod(number, TILE_WIDTH)
        content = self.tile(0, index) or b""
        found = content[place * HASH_BYTES : (place + 1) * HASH_BYTES]
        return found if len(found) == HASH_BYTES else None

    def _read_checkpoints(self) -> None:
        series = self.folder / SERIES_FOLDER
        paths = [self.folder / NEWEST_NAME]
        if series.is_dir():
            paths += sorted(path for path in series.iterdir() if _SERIES_NAME.fullmatch(path.name))
        for path in paths:
            name = self.name(path)
            try:
                claim = read_claim(path, name)
            except FileNotFoundError:
                continue
            except FormatError as error:
                self.findings.append(Finding("checkpoint", name, None, f"checkpoint: {error}"))
                continue
            if path.parent == series and int(path.name) != claim.head.size:
                text = f"checkpoint of {claim.head.size} leaves has another one's name"
                self.findings.append(Finding("checkpoint", name, None, text))
            self.claims.append(claim)

    def _read_edge(self) -> None:
        """The state and the tiles that are not full; a running core replaces both together."""
        for _ in range(LOOKS_MAX):
            data = _small_file(self.folder / STATE_NAME, _SMALL_FILE_BYTES)
            self.state = None if data is None else decode_state(data)
            if self.state is None:
                break
            tiles = {
                (tile.level, tile.index): self._partial(tile)
                for tile in partial_tiles(self.state.size)
            }
            self._edge = {place: content for place, content in tiles.items() if content}
            if len(self._edge) == len(tiles):
                return
        if self.state is None:
            name = self.name(self.folder / STATE_NAME)
            text = "the tree's state is missing or can't be read; the core writes it anew"
            self.findings.append(Finding("tree_state", name, None, text))

    def _partial(self, tile: Tile) -> bytes | None:
        content = _small_file(self.folder / tile.path, TILE_WIDTH * HASH_BYTES)
        if content is None:
            full = Tile(tile.level, tile.index)
            content = _small_file(self.folder / full.path, TILE_WIDTH * HASH_BYTES)
        return None if content is None else content[: tile.width * HASH_BYTES]


def decode_state(data: bytes) -> TreeState | None:
    """The tree's state: lines of text under a CRC-32C; None if these are not exactly that."""
    try:
        title, log_id, size, root, signed, crc, end = data.decode("ascii").split("\n")
        state = TreeState(bytes.fromhex(log_id), int(size), bytes.fromhex(root), int(signed))
    except (UnicodeDecodeError, ValueError):
        return None
    covered = data[: -len(crc) - 1]
    if title != _STATE_TITLE or end or f"{crc32c(covered):08x}" != crc:
        return None
    return state if 0 <= state.signed <= SIZE_MAX and 0 <= state.size <= SIZE_MAX else None


def _small_file(path: Path, length: int) -> bytes | None:
    try:
        with path.open("rb") as file:
            return file.read(length + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
