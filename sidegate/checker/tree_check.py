"""The tree, recomputed from the log's own batches, and held against tiles and checkpoints.

Leaves are fed in the log's order, so a log of any length needs little memory. Imports the format
and the checker's own files; must never import `core_log`.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from log_format.tiles import TILE_HEIGHT, TILE_WIDTH, Tile
from log_format.tree import HASH_BYTES, Frontier, perfect_root
from sidegate.checker.findings import Finding
from sidegate.checker.tree_files import Claim, TreeFiles

TILE_FINDINGS_MAX: Final = 100
"""Tiles named one by one; where more differ, the whole tree is another one."""


class TreeCheck:
    """Feed it every leaf in order; `findings` then says what does not fit.

    `differing` are the leaves whose tile has another hash than the log's batch.
    """

    def __init__(self, files: TreeFiles, claims: Iterable[Claim]) -> None:
        self._files = files
        self._claims = deque(sorted(claims, key=lambda claim: claim.head.size))
        self._tiled = 0 if files.state is None else files.state.size
        self._frontier = Frontier()
        self._rows: list[list[bytes]] = [[]]
        self._filled = [0]
        self._good_size = 0
        self._state_checked = files.state is None
        self.findings: list[Finding] = []
        self.differing: list[int] = []
        self.broken_at: int | None = None

    @property
    def size(self) -> int:
        """How many leaves were fed."""
        return self._frontier.size

    def feed(self, first_leaf: int, leaves: Sequence[bytes | None]) -> None:
        """The next leaves. One that is unknown is taken from its tile; where that is gone too, the
        tree can't be recomputed any further."""
        if self.broken_at is not None:
            return
        if first_leaf > self.size:
            self._take([None] * (first_leaf - self.size))
        # A leaf that comes again is a gap's other end; which of the two counts is said elsewhere.
        self._take(leaves[max(0, self.size - first_leaf) :])

    def finish(self, named: str) -> None:
        """The end of the log `named`: what checkpoints and tiles still speak of is missing."""
        self._check_claims()
        if self.broken_at is None:
            self._check_edge()
            for claim in self._claims:
                missing = claim.head.size - self.size
                text = (
                    f"checkpoint of {claim.head.size} leaves: the log {named} holds {self.size};"
                    f" the last {missing} batches are missing"
                )
                self.findings.append(Finding("cut_off", claim.name, None, text))

    def _take(self, leaves: Sequence[bytes | None]) -> None:
        for leaf in leaves:
            known = leaf if leaf is not None else self._files.leaf(self.size)
            if known is None:
                self._break()
                return
            self._check_claims()
            self._check_state()
            self._frontier.append(known)
            self._add(known)

    def _break(self) -> None:
        self.broken_at = self.size
        text = (
            f"leaf {self.size} is not in the log, and in no tile: nothing behind it can be held"
            f" against the {len(self._claims)} checkpoints of greater trees"
        )
        self.findings.append(Finding("tree_broken", self._files.folder.name, None, text))

    def _check_claims(self) -> None:
        while self._claims and self._claims[0].head.size <= self.size:
            claim = self._claims.popleft()
            root = self._frontier.root()
            if claim.head.root == root:
                self._good_size = self.size
                continue
            text = (
                f"checkpoint of {claim.head.size} leaves says that their root is"
                f" {claim.head.root.hex()}, and it is {root.hex()}: batches from leaf"
                f" {self._good_size} to {claim.head.size - 1} are not those that were signed"
            )
            self.findings.append(Finding("tree_root", claim.name, None, text))

    def _check_state(self) -> None:
        state = self._files.state
        if self._state_checked or state is None or state.size > self.size:
            return
        self._state_checked = True
        if state.root != self._frontier.root():
            text = (
                f"the tree's state of {state.size} leaves has another root than the log's batches"
            )
            name = self._files.name(self._files.folder / "state")
            self.findings.append(Finding("tree_root", name, None, text))

    def _add(self, leaf: bytes) -> None:
        """Fill tiles upwards; each full one is held against its file."""
        level, node = 0, leaf
        while True:
            if level == len(self._rows):
                self._rows.append([])
                self._filled.append(0)
            row = self._rows[level]
            row.append(node)
            if len(row) < TILE_WIDTH:
                return
            self._check_tile(level, self._filled[level], row)
            self._filled[level] += 1
            self._rows[level] = []
            level, node = level + 1, perfect_root(row)

    def _check_edge(self) -> None:
        self._check_state()
        for level, row in enumerate(self._rows):
            if row:
                self._check_tile(level, self._filled[level], row)
        state = self._files.state
        if state is not None and state.size > self.size:
            text = f"the tree's state covers {state.size} leaves, the log holds {self.size}"
            name = self._files.name(self._files.folder / "state")
            self.findings.append(Finding("cut_off", name, None, text))

    def _check_tile(self, level: int, index: int, row: Sequence[bytes]) -> None:
        """Hold a tile against its file, as far as the tree's state says that it is filled."""
        width = min(len(row), (self._tiled >> (TILE_HEIGHT * level)) - index * TILE_WIDTH)
        if width <= 0 or len(self.findings) > TILE_FINDINGS_MAX:
            return
        tile = Tile(level, index, width)
        name = self._files.name(self._files.folder / tile.path)
        content = self._files.tile(level, index)
        if content is None or len(content) < width * HASH_BYTES:
            text = f"tile of the leaves from {index << TILE_HEIGHT * (level + 1)} on is missing"
            self.findings.append(Finding("tile", name, None, text))
            return
        if content[: width * HASH_BYTES] == b"".join(row[:width]):
            return
        wrong = [
            place
            for place in range(width)
            if content[place * HASH_BYTES : (place + 1) * HASH_BYTES] != row[place]
        ]
        if level == 0:
            self.differing += (index * TILE_WIDTH + place for place in wrong)
        else:
            text = f"tile has {len(wrong)} other hashes than the batches below it"
            self.findings.append(Finding("tile", name, None, text))


def split_views(claims: Iterable[Claim]) -> Iterator[Finding]:
    """Checkpoints that contradict each other, whatever the log says."""
    by_size = sorted(claims, key=lambda claim: (claim.head.size, claim.name))
    for one, other in pairwise(by_size):
        if one.head.size == other.head.size and one.head.root != other.head.root:
            text = (
                f"checkpoint of {one.head.size} leaves contradicts {other.name}: two trees of one"
                " size were signed; one view was shown here and another there"
            )
            yield Finding("split_view", one.name, None, text)
