"""The leaf hashes that a log's own tree holds, read out of its tiles (C2SP tlog-tiles).

The tiles lie beside the segments. That they agree with them proves little by itself, since one
hand wrote both; a checkpoint from elsewhere proves the rest. Imports the format.
"""

from pathlib import Path
from typing import Final

from log_format.tiles import TILE_WIDTH, Tile
from log_format.tree import HASH_BYTES

TREE_FOLDER: Final = "tree"


class LeafTiles:
    """Reads one tile at a time, as a walk over a log needs them. Not thread-safe."""

    def __init__(self, log: Path) -> None:
        self._folder = log / TREE_FOLDER
        self._number = -1
        self._tile = b""

    def hash_of(self, leaf: int) -> bytes | None:
        """The hash that the tree has for a leaf; None where it reaches not so far."""
        number, place = divmod(leaf, TILE_WIDTH)
        if number != self._number:
            self._number, self._tile = number, self._read(number)
        found = self._tile[place * HASH_BYTES : (place + 1) * HASH_BYTES]
        return found if len(found) == HASH_BYTES else None

    def _read(self, number: int) -> bytes:
        full = self._folder / Tile(0, number).path
        try:
            return full.read_bytes()
        except FileNotFoundError:
            partial = full.with_name(full.name + ".p")
            widths = [path for path in partial.glob("*") if path.name.isdigit()]
            if not widths:
                return b""
            try:
                return max(widths, key=lambda path: int(path.name)).read_bytes()
            except FileNotFoundError:
                # It became a wider one meanwhile; what lies beyond is not compared.
                return b""
