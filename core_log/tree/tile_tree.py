"""The growing edge of the log's Merkle tree, in memory: the part of it that still changes.

For each level of tiles the hashes of its last, partial tile, and the full tiles that no file holds
yet. That is the whole frontier: the root of this tree, and of every smaller one, follows from it
and from the full tiles below. Imports the format only; knows no file.
"""

from collections.abc import Callable, Sequence
from threading import Lock

from log_format.tiles import TILE_HEIGHT, TILE_WIDTH, Tile, nodes_in
from log_format.tree import HASH_BYTES, fold_peaks, peaks_of, perfect_root

ReadTile = Callable[[Tile], bytes]


class TileTree:
    """A tree that grows at its right edge.

    Invariant: `_rows[level]` are the hashes of tile number `_full[level]`, fewer than 256; every
    full tile is in `_unsaved` until `saved` was called for it. One thread extends; any thread may
    read. The lock is held for moments only: a reader copies at most one tile under it.
    """

    def __init__(self, size: int = 0, rows: Sequence[Sequence[bytes]] = ()) -> None:
        self._lock = Lock()
        self._size = size
        self._rows = [list(row) for row in rows] or [[]]
        self._full = [size >> (TILE_HEIGHT * (level + 1)) for level in range(len(self._rows))]
        self._unsaved: dict[tuple[int, int], bytes] = {}

    @property
    def size(self) -> int:
        """How many leaves there are."""
        return self._size

    def extend(self, leaves: Sequence[bytes]) -> None:
        """Add leaves' hashes in order. Each leaf costs one hash, in runs of 255."""
        with self._lock:
            self._rows[0] += leaves
            level = 0
            while len(self._rows[level]) >= TILE_WIDTH:
                self._close_tiles(level)
                level += 1
            self._size += len(leaves)

    def _close_tiles(self, level: int) -> None:
        row = self._rows[level]
        if level + 1 == len(self._rows):
            self._rows.append([])
            self._full.append(0)
        above = self._rows[level + 1]
        end = len(row) - len(row) % TILE_WIDTH
        for begin in range(0, end, TILE_WIDTH):
            hashes = row[begin : begin + TILE_WIDTH]
            self._unsaved[level, self._full[level]] = b"".join(hashes)
            self._full[level] += 1
            above.append(perfect_root(hashes))
        del row[:end]

    def tile(self, tile: Tile) -> bytes | None:
        """A tile's content, if it is held here; a tile that has grown is cut to its width."""
        with self._lock:
            held = self._unsaved.get((tile.level, tile.index))
            if held is None and tile.level < len(self._rows):
                if self._full[tile.level] != tile.index:
                    return None
                held = b"".join(self._rows[tile.level])
        if held is None:
            return None
        return held[: tile.width * HASH_BYTES]

    def unsaved(self) -> list[tuple[Tile, bytes]]:
        """Full tiles that no file is known to hold."""
        with self._lock:
            return [(Tile(*key), content) for key, content in self._unsaved.items()]

    def saved(self, tiles: Sequence[Tile]) -> None:
        """These full tiles are on disk: let go of them."""
        with self._lock:
            for tile in tiles:
                self._unsaved.pop((tile.level, tile.index), None)


def root_at(size: int, read: ReadTile) -> bytes:
    """The root of the first `size` leaves, out of tiles."""
    return fold_peaks(peaks_of(size, nodes_in(size, read)))
