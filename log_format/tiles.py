"""The tree as files: C2SP tlog-tiles names, coordinates, and nodes read out of tiles.

A tile holds up to 256 neighbouring hashes of one level; a tile's own root is one hash of the
level above. Full tiles never change. Pure: whoever keeps the tiles hands in how to read one.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from log_format.errors import BadField
from log_format.tree import HASH_BYTES, SIZE_MAX, NodeReader, perfect_root

TILE_HEIGHT: Final = 8
TILE_WIDTH: Final = 1 << TILE_HEIGHT
"""Hashes in a full tile: "Full tiles MUST be exactly 256 hashes wide, or 8,192 bytes"."""
TILE_LEVEL_MAX: Final = 63
TILES_KEPT_MAX: Final = 64
"""Tiles that `nodes_in` keeps while one proof is made; a path needs two a level, and eight levels
hold any tree."""

_PATH: Final = re.compile(
    r"tile/(0|[1-9][0-9]?)/((?:x[0-9]{3}/)*[0-9]{3})(?:\.p/([1-9][0-9]{0,2}))?"
)


@dataclass(frozen=True, slots=True, order=True)
class Tile:
    """A tile's coordinates. `width` is below 256 for a partial tile, never 0."""

    level: int
    index: int
    width: int = TILE_WIDTH

    @property
    def full(self) -> bool:
        """True if it will never change."""
        return self.width == TILE_WIDTH

    @property
    def path(self) -> str:
        """`tile/<L>/<N>[.p/<W>]`, relative to the log's prefix."""
        partial = "" if self.full else f".p/{self.width}"
        return f"tile/{self.level}/{_number_path(self.index)}{partial}"


def parse_tile_path(path: str) -> Tile:
    """The tile of a path; only the one spelling that the specification allows is read."""
    match = _PATH.fullmatch(path)
    if match is None:
        raise BadField("tile", f"{path!r} is not of the form tile/<L>/<N>[.p/<W>]")
    tile = Tile(
        int(match[1]),
        int(match[2].replace("/", "").replace("x", "")),
        TILE_WIDTH if match[3] is None else int(match[3]),
    )
    if tile.level > TILE_LEVEL_MAX or tile.index > SIZE_MAX or tile.path != path:
        raise BadField("tile", f"{path!r} is not how a tile's path is written")
    return tile


def tile_in(level: int, index: int, size: int) -> Tile | None:
    """Tile number `index` of a level in the tree of `size` leaves; None if it has no hash yet."""
    width = min((size >> (TILE_HEIGHT * level)) - index * TILE_WIDTH, TILE_WIDTH)
    return Tile(level, index, width) if width > 0 else None


def tiles_of(size: int) -> Iterator[Tile]:
    """Every tile of a tree of `size` leaves, level by level."""
    return tiles_between(0, size)


def tiles_between(old: int, new: int) -> Iterator[Tile]:
    """The tiles of the tree of `new` leaves that the one of `old` leaves does not have."""
    level = 0
    while (hashes := new >> (TILE_HEIGHT * level)) > 0:
        known = old >> (TILE_HEIGHT * level)
        if hashes > known:
            first, last = known // TILE_WIDTH, (hashes - 1) // TILE_WIDTH
            for index in range(first, last + 1):
                yield Tile(level, index, min(hashes - index * TILE_WIDTH, TILE_WIDTH))
        level += 1


def partial_tiles(size: int) -> list[Tile]:
    """The tiles at the right edge of a tree that are not full, from level 0 up."""
    level, found = 0, []
    while (hashes := size >> (TILE_HEIGHT * level)) > 0:
        if width := hashes % TILE_WIDTH:
            found.append(Tile(level, hashes // TILE_WIDTH, width))
        level += 1
    return found


def split_tile(content: bytes) -> list[bytes]:
    """A tile's hashes."""
    if not content or len(content) % HASH_BYTES or len(content) > TILE_WIDTH * HASH_BYTES:
        raise BadField("tile", f"{len(content)} bytes are not 1 to {TILE_WIDTH} hashes")
    return [content[at : at + HASH_BYTES] for at in range(0, len(content), HASH_BYTES)]


def nodes_in(size: int, read: Callable[[Tile], bytes]) -> NodeReader:
    """Reads nodes of the tree of `size` leaves out of its tiles.

    `read` returns the content of the tile that is asked for; one that is longer, because the tile
    has grown since, is fine. A shorter one is refused.
    """
    kept: dict[tuple[int, int], list[bytes]] = {}

    def hashes_of(level: int, index: int) -> list[bytes]:
        held = kept.get((level, index))
        if held is None:
            tile = tile_in(level, index, size)
            if tile is None:
                raise BadField("tile", f"a tree of {size} leaves has no tile {index} at {level}")
            held = split_tile(read(tile))
            if len(held) < tile.width:
                raise BadField("tile", f"{tile.path} holds {len(held)} hashes only")
            if len(kept) >= TILES_KEPT_MAX:
                kept.pop(next(iter(kept)))
            kept[level, index] = held
        return held

    def node(level: int, index: int) -> bytes:
        tile_level, height = divmod(level, TILE_HEIGHT)
        first = index << height
        at = first % TILE_WIDTH
        hashes = hashes_of(tile_level, first // TILE_WIDTH)[at : at + (1 << height)]
        if len(hashes) < 1 << height:
            raise BadField("tile", f"a tree of {size} leaves has no node {index} at level {level}")
        return perfect_root(hashes)

    return node


def _number_path(number: int) -> str:
    """Zero-padded elements of three digits, all but the last behind an `x`."""
    digits = str(number)
    digits = digits.zfill(-(-len(digits) // 3) * 3)
    elements = [digits[at : at + 3] for at in range(0, len(digits), 3)]
    return "/".join([*(f"x{each}" for each in elements[:-1]), elements[-1]])
