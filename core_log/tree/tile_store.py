"""Tiles in files: `tree/tile/<level>/<n>` as C2SP tlog-tiles names them, and how far they reach.

Full tiles are written once. The partial ones at the edge belong to the size that the file `state`
names, with that tree's root; they are synced before it is replaced, and removed after. Imports the
file layer and the format.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from crc32c import crc32c

from core_log.log.files import Files, replace_file, write_whole
from log_format.tiles import TILE_HEIGHT, TILE_WIDTH, Tile, partial_tiles
from log_format.tree import HASH_BYTES, SIZE_MAX

TREE_FOLDER: Final = "tree"
STATE_NAME: Final = "state"
DAMAGED_SUFFIX: Final = ".damaged"
"""Of a tile that did not fit the tree and was set aside, for a look at it."""

_TITLE: Final = "sidegate tree 1"
_STATE_BYTES_MAX: Final = 4096


@dataclass(frozen=True, slots=True)
class TreeState:
    """How far the tiles on disk reach, and what their root is.

    `signed` is the size of the greatest checkpoint that had been signed when this was written.
    """

    log_id: bytes
    size: int
    root: bytes
    signed: int = 0

    def encoded(self) -> bytes:
        """Lines of text, the last one a CRC-32C of the others."""
        lines = f"{_TITLE}\n{self.log_id.hex()}\n{self.size}\n{self.root.hex()}\n{self.signed}\n"
        return f"{lines}{crc32c(lines.encode()):08x}\n".encode()


def decode_state(data: bytes) -> TreeState | None:
    """The state that was written, or None if these are not exactly its bytes."""
    try:
        title, log_id, size, root, signed, _crc, _end = data.decode("ascii").split("\n")
        state = TreeState(bytes.fromhex(log_id), int(size), bytes.fromhex(root), int(signed))
    except (UnicodeDecodeError, ValueError):
        return None
    if title != _TITLE or state.encoded() != data or not 0 <= state.size <= SIZE_MAX:
        return None
    return state


class TileStore:
    """The folder `tree/` of a log. One thread writes at a time; any thread may read."""

    def __init__(self, files: Files, folder: Path) -> None:
        self._files = files
        self.folder = folder
        self._made: set[Path] = set()

    def path(self, tile: Tile) -> Path:
        """Where a tile lies."""
        return self.folder / tile.path

    def load_state(self) -> TreeState | None:
        """How far the tiles reach; None if nothing that can be believed says so."""
        data = self._read(self.folder / STATE_NAME, _STATE_BYTES_MAX)
        return None if data is None else decode_state(data)

    @property
    def exists(self) -> bool:
        """True if there is a tree, sound or not."""
        return self._files.exists(self.folder / STATE_NAME)

    def save_state(self, state: TreeState) -> None:
        """The tiles of `state.size` are all synced: from now on they count."""
        self._make(self.folder)
        replace_file(self._files, self.folder / STATE_NAME, [state.encoded()])

    def read(self, tile: Tile) -> bytes | None:
        """A tile's hashes, from its own file or from that of a later, wider one; None if lost.

        What is returned has the right length and is otherwise not checked.
        """
        length = tile.width * HASH_BYTES
        paths = [self.path(tile)]
        if not tile.full:
            paths.append(self.path(Tile(tile.level, tile.index)))
        for path in paths:
            data = self._read(path, TILE_WIDTH * HASH_BYTES)
            if data is not None and len(data) >= length:
                return data[:length]
        return None

    def read_hash(self, leaf: int) -> bytes | None:
        """The hash of one leaf by any tile that is there, the widest first; not checked."""
        index, at = divmod(leaf, TILE_WIDTH)
        partial = self.path(Tile(0, index, 1)).parent
        widths = sorted(
            (int(name) for name in self._names(partial) if name.isdigit()), reverse=True
        )
        for width in (TILE_WIDTH, *widths):
            if at < width <= TILE_WIDTH:
                content = self.read(Tile(0, index, width))
                if content is not None:
                    return content[at * HASH_BYTES : (at + 1) * HASH_BYTES]
        return None

    def write(self, tiles: Iterable[tuple[Tile, bytes]]) -> None:
        """Write tiles, synced with their names when this returns.

        A torn one is none: nothing relies on it before the state does.
        """
        folders: dict[Path, None] = {}
        for tile, content in tiles:
            path = self.path(tile)
            self._make(path.parent)
            file = self._files.open(path, "create")
            try:
                write_whole(file, 0, [content])
                file.sync()
            finally:
                file.close()
            folders[path.parent] = None
        for folder in folders:
            self._files.sync_directory(folder)

    def replace(self, tile: Tile, content: bytes) -> str | None:
        """Put a tile in the place of a damaged or lost one; returns where the old one went."""
        path = self.path(tile)
        self._make(path.parent)
        kept = None
        if self._files.exists(path):
            aside = path.with_name(path.name + DAMAGED_SUFFIX)
            self._files.rename(path, aside)
            kept = aside.relative_to(self.folder).as_posix()
        replace_file(self._files, path, [content])
        return kept

    def drop_partial(self, old: int, new: int) -> None:
        """Remove the partial tiles of the tree of `old` leaves that the one of `new` does not use.

        Only names go that nothing on disk needs any more; a crash may bring them back, unharmful.
        """
        for tile in set(partial_tiles(old)) - set(partial_tiles(new)):
            self._files.remove(self.path(tile))

    def missing(self, size: int) -> Iterator[Tile]:
        """Full tiles of the tree of `size` leaves that have no file."""
        level = 0
        while (count := size >> (TILE_HEIGHT * (level + 1))) > 0:
            names: dict[Path, frozenset[str]] = {}
            for index in range(count):
                tile = Tile(level, index)
                path = self.path(tile)
                if path.parent not in names:
                    names[path.parent] = self._names(path.parent)
                if path.name not in names[path.parent]:
                    yield tile
            level += 1

    def _names(self, folder: Path) -> frozenset[str]:
        try:
            return frozenset(self._files.names(folder))
        except FileNotFoundError:
            return frozenset()

    def _make(self, folder: Path) -> None:
        if folder not in self._made:
            self._files.make_directory(folder)
            self._made.add(folder)

    def _read(self, path: Path, length: int) -> bytes | None:
        try:
            file = self._files.open(path, "read")
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            return file.read(0, length + 1)
        finally:
            file.close()
