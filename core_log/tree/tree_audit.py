"""Holds every batch that was on disk at the start against the tree, slowly, in the background.

Opening reads little of a large log. Somebody who changed an old batch and made its checksums right
would go unnoticed until its proof is asked for; this finds it within minutes or hours. Imports the
tree; has no thread of its own.
"""

import logging
from typing import Final

from core_log.tree.tree import Tree, TreeRefused
from log_format.tiles import TILE_WIDTH, Tile, split_tile

SHARE: Final = 0.1
"""Of one core's time that the audit may use: ten million batches then take about an hour."""
PAUSE_S_MIN: Final = 0.01

_log = logging.getLogger("sidegate.core.tree")


class TreeAudit:
    """One pass over the leaves that there were at the start, a tile at a time.

    Ends early when the tree is refused, by itself or by somebody else.
    """

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._size = tree.size
        self.audited = 0

    @property
    def done(self) -> bool:
        """True once there is nothing left to look at."""
        return self._tree.refusal is not None or self.audited >= self._size

    def step(self) -> None:
        """Compare the leaves of the next tile. A batch that is not the tree's refuses the tree.

        One whose envelope was lost is no finding here: the log itself reports it.
        """
        index = self.audited // TILE_WIDTH
        begin = index * TILE_WIDTH
        end = min(begin + TILE_WIDTH, self._size)
        try:
            expected = split_tile(self._tree.tile(Tile(0, index, end - begin)))
        except TreeRefused as refused:
            self._tree.refuse(str(refused))
            return
        found = self._tree.leaves.hashes(begin, end)
        for leaf, (own, known) in enumerate(zip(found, expected, strict=True), begin):
            if own is not None and own != known:
                self._tree.refuse(f"{self._named(leaf)} is not the batch that was appended there")
                return
        self.audited = end
        if self.audited == self._size:
            _log.info("every batch fits the tree", extra={"fields": {"leaves": self._size}})

    def _named(self, leaf: int) -> str:
        envelope = self._tree.leaves.envelope(leaf)
        if envelope is None or envelope.stamp is None:
            return f"leaf {leaf}"
        part = envelope.producer
        return f"leaf {leaf} ({part.topic}/{part.partition} from {envelope.stamp.base_offset} on)"


def pause_s(step_s: float) -> float:
    """How long to rest after a step of this length, so that the audit keeps to its share."""
    return max(step_s * (1 - SHARE) / SHARE, PAUSE_S_MIN)
