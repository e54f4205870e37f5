"""The log's Merkle tree: grows with every group, lies in tiles, gives roots and proofs.

Every tile that is read is held against its parent's hash before it is used, up to the edge, which
opening has checked. One that does not fit is made anew from the log's envelopes and reported; where
these do not fit either, nothing is rewritten and nothing is proven. Imports the rungs below.
"""

import logging
from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock, RLock
from typing import Final

from core_log.log.leaves import Leaves
from core_log.log.log_errors import LogError
from core_log.tree.tile_store import TileStore, TreeState
from core_log.tree.tile_tree import TileTree, root_at
from log_format.tiles import TILE_WIDTH, Tile, nodes_in, partial_tiles, split_tile, tiles_between
from log_format.tree import HASH_BYTES, consistency_proof, inclusion_proof, perfect_root

TILES_KEPT: Final = 256
"""Checked tiles kept in memory, 2 MiB: the paths to some ten million neighbouring leaves."""

_log = logging.getLogger("sidegate.core.tree")


class TreeRefused(LogError):
    """The tree is not the one that was signed, or can't be read: nothing is signed or proven.

    The text says what was found; the operator has to look before anything is signed again.
    """

    code = "tree_refused"


class NoSuchLeaf(LogError):
    """A leaf or a size that the tree does not have (yet)."""

    code = "unknown_leaf"


class Tree:
    """One log's tree.

    Invariant: the tiles on disk hold the first `saved` leaves; `size` leaves are in memory and on
    disk together. The writer extends; one thread at a time saves; any thread asks. After `refuse`
    it grows no more and changes no file.
    """

    def __init__(
        self,
        log_id: bytes,
        edge: TileTree,
        store: TileStore,
        leaves: Leaves,
        *,
        saved: int = 0,
        signed: int = 0,
    ) -> None:
        self._log_id = log_id
        self._edge = edge
        self._store = store
        self._saving = Lock()
        self._mending = RLock()
        self._kept: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self._keeping = Lock()
        self._saved = saved
        self.leaves = leaves
        self.signed = signed
        self.refusal: str | None = None
        self.mended = 0

    @property
    def size(self) -> int:
        """How many leaves there are."""
        return self._edge.size

    @property
    def saved(self) -> int:
        """How many of them the tiles on disk hold."""
        return self._saved

    # Growing: the writer thread.

    def extend(self, leaves: Sequence[bytes]) -> None:
        """Add leaves' hashes in order."""
        if self.refusal is None:
            self._edge.extend(leaves)

    def refuse(self, why: str) -> None:
        """Stop: what is here is not what was signed. Said once, loudly."""
        if self.refusal is None:
            self.refusal = why
            _log.critical("the tree is refused: nothing is signed", extra={"fields": {"why": why}})

    def check(self) -> None:
        """Raise TreeRefused if the tree was refused."""
        if self.refusal is not None:
            raise TreeRefused(f"the tree can't be used: {self.refusal}")

    # Saving: one thread at a time.

    def save(self, size: int) -> None:
        """Have the tiles of the first `size` leaves on disk, synced. They must be synced leaves."""
        with self._saving:
            if self.refusal is None and size > self._saved:
                try:
                    self._save(size, list(tiles_between(self._saved, size)))
                except TreeRefused as refused:
                    self.refuse(str(refused))

    def save_edge(self) -> None:
        """The same for all leaves, where every full tile is on disk already."""
        with self._saving:
            self._save(self.size, partial_tiles(self.size))

    def _save(self, size: int, tiles: Sequence[Tile]) -> None:
        root = self.root(size)
        self._store.write([(tile, self.tile(tile)) for tile in tiles])
        self._store.save_state(TreeState(self._log_id, size, root, self.signed))
        self._edge.saved([tile for tile in tiles if tile.full])
        self._store.drop_partial(self._saved, size)
        self._saved = size

    # Asking: any thread.

    def root(self, size: int) -> bytes:
        """The root of the first `size` leaves."""
        self._check_size(size)
        return root_at(size, self.tile)

    def inclusion(self, leaf: int, size: int) -> list[bytes]:
        """The proof that `leaf` is in the tree of `size` leaves."""
        self._check_size(size)
        if not 0 <= leaf < size:
            raise NoSuchLeaf(f"leaf {leaf} is not in the tree of {size} leaves")
        return inclusion_proof(leaf, size, nodes_in(size, self.tile))

    def consistency(self, old: int, new: int) -> list[bytes]:
        """The proof that the tree of `new` leaves extends the one of `old` leaves."""
        self._check_size(new)
        if not 0 <= old <= new:
            raise NoSuchLeaf(f"the tree of {new} leaves does not extend one of {old}")
        return consistency_proof(old, new, nodes_in(new, self.tile))

    def leaf_hash(self, leaf: int) -> bytes:
        """The hash of one leaf."""
        index, at = divmod(leaf, TILE_WIDTH)
        return self.tile(Tile(0, index, at + 1))[-HASH_BYTES:]

    def _check_size(self, size: int) -> None:
        self.check()
        if not 0 <= size <= self.size:
            raise NoSuchLeaf(f"the tree has {self.size} leaves; {size} are asked for")

    def tile(self, tile: Tile) -> bytes:
        """A tile's hashes, checked."""
        key = tile.level, tile.index
        length = tile.width * HASH_BYTES
        held = self._edge.tile(tile)
        if held is None:
            with self._keeping:
                held = self._kept.get(key)
                if held is not None:
                    self._kept.move_to_end(key)
        if held is None:
            held = self._checked(Tile(*key))
            with self._keeping:
                self._kept[key] = held
                if len(self._kept) > TILES_KEPT:
                    self._kept.popitem(last=False)
        if len(held) < length:
            raise NoSuchLeaf(f"the tree of {self.size} leaves has no {tile.path}")
        return held[:length]

    def _checked(self, tile: Tile) -> bytes:
        content = self._store.read(tile)
        parent = self._parent_hash(tile)
        if content is not None and perfect_root(split_tile(content)) == parent:
            return content
        with self._mending:
            return self._mend(tile, content, parent)

    def _parent_hash(self, tile: Tile) -> bytes:
        """What the level above says of a full tile."""
        index, at = divmod(tile.index, TILE_WIDTH)
        return self.tile(Tile(tile.level + 1, index, at + 1))[-HASH_BYTES:]

    # Mending.

    def _mend(self, tile: Tile, content: bytes | None, parent: bytes) -> bytes:
        """Make a lost or damaged tile anew, if the log's envelopes still give what was there."""
        what = "is lost" if content is None else "does not fit the tree"
        for deep in (False, True):
            made = self._made_anew(tile, content, deep=deep)
            if made is not None and perfect_root(split_tile(made)) == parent:
                kept = self._store.replace(tile, made)
                self.mended += 1
                _log.error(
                    "a tile of the tree was made anew from the log",
                    extra={"fields": {"tile": tile.path, "why": what, "kept": kept}},
                )
                return made
        first = (tile.index * TILE_WIDTH) << (8 * tile.level)
        raise TreeRefused(
            f"{tile.path} {what}, and the envelopes of the log from leaf {first} on do not give "
            "what was there; run `sidegate log verify`"
        )

    def _made_anew(self, tile: Tile, content: bytes | None, *, deep: bool) -> bytes | None:
        """A tile's content by what lies below it: its leaves' envelopes, or the tiles below.

        `deep` makes these anew too. A leaf whose envelope is lost keeps the hash that it had.
        """
        if tile.level > 0:
            below = range(tile.index * TILE_WIDTH, (tile.index + 1) * TILE_WIDTH)
            tiles = [self._below(Tile(tile.level - 1, index), deep=deep) for index in below]
            if any(each is None for each in tiles):
                return None
            return b"".join(perfect_root(split_tile(each)) for each in tiles if each is not None)
        first = tile.index * TILE_WIDTH
        old = [None] * TILE_WIDTH if content is None else split_tile(content)
        hashes = [
            known if found is None else found
            for found, known in zip(self.leaves.hashes(first, first + TILE_WIDTH), old, strict=True)
        ]
        if any(each is None for each in hashes):
            return None
        return b"".join(each for each in hashes if each is not None)

    def _below(self, tile: Tile, *, deep: bool) -> bytes | None:
        content = self._store.read(tile)
        return self._made_anew(tile, content, deep=deep) if deep else content
