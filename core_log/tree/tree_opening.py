"""From a folder to a tree that can go on: loads the edge, catches up with the log, checks.

The tiles count as far as `state` says, if their root is the one that it names; what the log has
beyond is hashed from its envelopes. Anything else is built from the log's first leaf on. Then the
tree is held against the last checkpoint that was signed: one that is not its extension is refused.
Imports the rungs below the journal.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from core_log.clock import Clock
from core_log.log.files import Files
from core_log.log.leaves import Leaves, lost_leaf_hash
from core_log.log.segments import Segments
from core_log.tree.checkpoint_notes import NEWEST_NAME, CheckpointNotes, SignedHead
from core_log.tree.tile_store import TREE_FOLDER, TileStore, TreeState
from core_log.tree.tile_tree import TileTree
from core_log.tree.tree import Tree, TreeRefused
from log_format.checkpoint_note import log_origin
from log_format.tiles import TILE_HEIGHT, TILE_WIDTH, Tile, split_tile

STEP_LEAVES: Final = 256 * TILE_WIDTH
"""Leaves hashed at a time while a tree is built: 2 MiB of tiles held in memory."""

PROGRESS_S: Final = 5.0
"""How often a long building says how far it is."""

NAMED_MAX: Final = 10
"""Tiles named one by one in a report; the rest is counted."""

_log = logging.getLogger("sidegate.core.tree")


@dataclass(slots=True)
class OpenedTree:
    """A tree and what opening it has come upon."""

    tree: Tree
    notes: list[str] = field(default_factory=list)


def open_tree(
    files: Files,
    directory: Path,
    log_id: bytes,
    segments: Segments,
    leaves: int,
    clock: Clock,
    *,
    accept_lost: int = 0,
) -> OpenedTree:
    """The tree of the log in `directory`, which has this many leaves.

    Where more than `accept_lost` of those that were signed are lost, it is refused.
    """
    opening = _Opening(files, directory, log_id, segments, leaves, clock)
    opened = opening.open()
    opening.refuse_losses(opened.tree, accept_lost)
    return opened


class _Opening:
    """One opening. Used once, by one thread."""

    def __init__(
        self,
        files: Files,
        directory: Path,
        log_id: bytes,
        segments: Segments,
        size: int,
        clock: Clock,
    ) -> None:
        self._log_id = log_id
        self._size = size
        self._clock = clock
        self._store = TileStore(files, directory / TREE_FOLDER)
        self._checkpoints = CheckpointNotes(files, directory / TREE_FOLDER, log_origin(log_id))
        self._segments = segments
        self._leaves = Leaves(segments)
        self._notes: list[str] = []
        self._differing: list[tuple[Tile, bytes]] = []

    def open(self) -> OpenedTree:
        self._checkpoints.remove_temporary()
        state = self._load_state()
        newest = self._checkpoints.load_newest()
        self._notes += self._checkpoints.problems
        signed = 0 if newest is None else newest.size
        if state is not None and state.signed > signed:
            self._notes.append(
                f"{TREE_FOLDER}/{NEWEST_NAME} is lost: a tree of {state.signed} leaves was signed "
                f"and the greatest checkpoint here has {signed}; ask a witness for it"
            )
        tree = None if state is None else self._continued(state)
        if signed <= self._size and (tree is None or not self._fits(tree, newest)):
            tree = self._built()
            if self._fits(tree, newest):
                tree.signed = signed
                self._put_right(tree)
        if tree is None:
            tree = Tree(self._log_id, TileTree(), self._store, self._leaves)
        tree.signed = max(signed, 0 if state is None else state.signed)
        if newest is not None and not self._fits(tree, newest):
            tree.refuse(self._why_not(newest))
        return OpenedTree(tree, self._notes)

    def refuse_losses(self, tree: Tree, accepted: int) -> None:
        """Refuse the tree if more leaves are gone that were signed than an operator knows of.

        Those that were lost before anything was signed say so by their hash, and count for nothing.
        """
        if tree.refusal is not None or tree.signed == 0:
            return
        lost = [leaf for leaf in self._lost_leaves(tree.signed) if self._was_there(tree, leaf)]
        if len(lost) > accepted:
            tree.refuse(
                f"{len(lost)} batches that were signed are gone from the log, the first of them "
                f"leaf {lost[0]}, the last leaf {lost[-1]}; bring back their segments from a copy, "
                f"or set log.accept_lost_leaves to {len(lost)} if their loss is accepted"
            )

    def _lost_leaves(self, end: int) -> Iterator[int]:
        """Leaves below `end` whose envelopes are lost, by the indexes of damaged segments."""
        order = self._segments.from_leaf(0)
        yield from range(min(order[0], end) if order else end)
        lost = {each.first_leaf: each.lost for each in self._segments.sealed}
        for number, first_leaf in enumerate(order):
            known = lost.get(first_leaf)
            if known is None:
                index = self._segments.get(first_leaf).index
                known = index.lost + index.missing
            if known:
                stop = min(order[number + 1] if number + 1 < len(order) else self._size, end)
                hashes = self._leaves.hashes(first_leaf, stop)
                yield from (at for at, found in enumerate(hashes, first_leaf) if found is None)

    @staticmethod
    def _was_there(tree: Tree, leaf: int) -> bool:
        try:
            return tree.leaf_hash(leaf) != lost_leaf_hash(leaf)
        except TreeRefused:
            return True

    def _load_state(self) -> TreeState | None:
        state = self._store.load_state()
        if state is None:
            if self._store.exists:
                self._notes.append(f"{TREE_FOLDER}/state is damaged; the tree is built anew")
        elif state.log_id != self._log_id:
            self._notes.append(f"{TREE_FOLDER} is of another log; the tree is built anew")
            return None
        return state

    @staticmethod
    def _fits(tree: Tree, newest: SignedHead | None) -> bool:
        """True if the tree is an extension of what was signed last."""
        if newest is None:
            return True
        try:
            return newest.size <= tree.size and tree.root(newest.size) == newest.head.root
        except TreeRefused:
            return False

    def _why_not(self, newest: SignedHead) -> str:
        if newest.size > self._size:
            return (
                f"the log has {self._size} leaves, but a checkpoint of {newest.size} was signed: "
                f"leaves {self._size} to {newest.size - 1} are gone; bring back their segment from "
                "a copy, and see docs/decisions/0018-the-tree-and-its-checkpoints.md"
            )
        return (
            f"the first {newest.size} leaves of the log are not those of the checkpoint that was "
            "signed: the log was changed; run `sidegate log verify` to learn where"
        )

    # Going on from the tiles.

    def _continued(self, state: TreeState) -> Tree | None:
        """The tree of the saved tiles with what the log has beyond; None if they can't be used."""
        rows = self._rows(state.size, state.size)
        if rows is None:
            self._notes.append(
                f"tiles at the edge of the tree of {state.size} leaves are lost; it is built anew"
            )
            return None
        tree = Tree(
            self._log_id,
            TileTree(state.size, rows),
            self._store,
            self._leaves,
            saved=state.size,
            signed=state.signed,
        )
        try:
            if tree.root(state.size) != state.root or not self._last_tile_fits(tree):
                self._notes.append("tiles at the edge of the tree do not fit; it is built anew")
                return None
            if state.size > self._size:
                return self._cut_back(state)
            self._mend_lost(tree)
        except TreeRefused as refused:
            self._notes.append(f"{refused}; the tree is built anew")
            return None
        for hashes in self._hashed(state.size, on_disk=False):
            tree.extend(hashes)
        return tree

    def _last_tile_fits(self, tree: Tree) -> bool:
        """True if the last leaves that tree and log share are the same in both."""
        end = min(tree.size, self._size)
        begin = max(end - 1, 0) // TILE_WIDTH * TILE_WIDTH
        found = self._leaves.hashes(begin, end)
        return all(
            each is None or each == tree.leaf_hash(begin + at) for at, each in enumerate(found)
        )

    def _rows(self, size: int, of: int) -> list[list[bytes]] | None:
        """The edge of the tree of `size` leaves, out of the files of the one of `of` leaves."""
        rows: list[list[bytes]] = []
        level = 0
        while (hashes := size >> (TILE_HEIGHT * level)) > 0:
            index, width = divmod(hashes, TILE_WIDTH)
            row: list[bytes] = []
            if width:
                held = (of >> (TILE_HEIGHT * level)) - index * TILE_WIDTH
                content = self._store.read(Tile(level, index, min(held, TILE_WIDTH)))
                if content is None:
                    return None
                row = split_tile(content)[:width]
            rows.append(row)
            level += 1
        return rows

    def _cut_back(self, state: TreeState) -> Tree | None:
        """The log is shorter than its tree: the tree of the log alone, out of the same tiles."""
        self._notes.append(
            f"the tree had {state.size} leaves and the log has {self._size}: "
            "the last leaves are gone"
        )
        rows = self._rows(self._size, state.size)
        if rows is None:
            return None
        edge = TileTree(self._size, rows)
        tree = Tree(self._log_id, edge, self._store, self._leaves, signed=state.signed)
        if state.signed <= self._size:
            # From now on the old tiles beyond count for nothing, before any is written over.
            tree.save_edge()
        return tree

    def _mend_lost(self, tree: Tree) -> None:
        """Have lost tiles made anew, and name them."""
        lost = list(self._store.missing(tree.size))
        for tile in lost:
            tree.tile(tile)
        if lost:
            self._notes.append(f"lost tiles were made anew from the log: {_named(lost)}")

    # Building from the log.

    def _built(self) -> Tree:
        """The tree of all envelopes. Tiles that are there and differ are not touched yet."""
        edge = TileTree()
        self._differing = []
        began = said = self._clock.monotonic()
        for hashes in self._hashed(0, on_disk=True):
            edge.extend(hashes)
            self._write_new(edge)
            now = self._clock.monotonic()
            if now - said >= PROGRESS_S or (edge.size == self._size and now - began >= PROGRESS_S):
                said = now
                fields = {"leaves": edge.size, "of": self._size}
                _log.info("building the tree from the log", extra={"fields": fields})
        if self._size:
            self._notes.append(f"the tree of {self._size} leaves was built from the log")
        return Tree(self._log_id, edge, self._store, self._leaves)

    def _write_new(self, edge: TileTree) -> None:
        """Write full tiles that have no file, so that a long building holds little in memory."""
        fresh = []
        for tile, content in edge.unsaved():
            old = self._store.read(tile)
            if old is None:
                fresh.append((tile, content))
            elif old != content and (tile, content) not in self._differing:
                self._differing.append((tile, content))
        self._store.write(fresh)
        differing = {tile for tile, _ in self._differing}
        edge.saved([tile for tile, _ in edge.unsaved() if tile not in differing])

    def _put_right(self, tree: Tree) -> None:
        """The tree of the log is what was signed: replace the tiles that are not of it."""
        for tile, content in self._differing:
            self._store.replace(tile, content)
            tree.mended += 1
        if self._differing:
            named = _named([tile for tile, _ in self._differing])
            self._notes.append(f"damaged tiles were made anew from the log: {named}")
        if tree.size:
            tree.save_edge()

    def _hashed(self, begin: int, *, on_disk: bool) -> Iterator[list[bytes]]:
        """The leaves' hashes from `begin` to the log's end, in steps.

        A leaf whose envelope is lost keeps the hash that a tile has for it, where tiles count.
        """
        hashes: list[bytes] = []
        for leaf, found in enumerate(self._leaves.hashes(begin, self._size), begin):
            known = self._store.read_hash(leaf) if found is None and on_disk else found
            hashes.append(lost_leaf_hash(leaf) if known is None else known)
            if len(hashes) == STEP_LEAVES:
                yield hashes
                hashes = []
        if hashes:
            yield hashes


def _named(tiles: Sequence[Tile]) -> str:
    more = f" and {len(tiles) - NAMED_MAX} more" if len(tiles) > NAMED_MAX else ""
    return ", ".join(tile.path for tile in tiles[:NAMED_MAX]) + more
