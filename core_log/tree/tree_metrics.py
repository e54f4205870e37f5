"""The tree's numbers for Prometheus, read when somebody asks for them."""

from collections.abc import Iterator
from math import isfinite

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from core_log.clock import Clock
from core_log.tree.checkpointing import Checkpointing


class TreeCollector(Collector):
    """Size, what is signed, and whether anything is wrong."""

    def __init__(self, checkpoints: Checkpointing, clock: Clock) -> None:
        self._checkpoints = checkpoints
        self._clock = clock

    def collect(self) -> Iterator[Metric]:
        """One look at the tree."""
        tree, checkpointer = self._checkpoints.tree, self._checkpoints.checkpointer
        newest = None if checkpointer is None else checkpointer.newest
        signed_at = self._checkpoints.signed_at
        audited = 0 if self._checkpoints.audit is None else self._checkpoints.audit.audited
        age_s = self._clock.monotonic() - signed_at if isfinite(signed_at) else float("nan")
        for name, text, value in (
            ("tree_leaves", "Leaves of the Merkle tree.", tree.size),
            ("tree_audited_leaves", "Of those at the start, found to fit the log.", audited),
            ("tree_saved_leaves", "Of these, in tiles on disk.", tree.saved),
            ("tree_signed_leaves", "Of these, under a checkpoint.", newest.size if newest else 0),
            (
                "tree_unsigned_leaves",
                "Leaves that no checkpoint covers.",
                checkpointer.unsigned if checkpointer else tree.size,
            ),
            ("checkpoint_age_seconds", "Since the last checkpoint was signed here.", age_s),
            (
                "checkpoint_cosignatures",
                "Cosignatures on the newest checkpoint.",
                newest.cosignatures if newest else 0,
            ),
            (
                "tree_refused",
                "1 while the log is not what was signed, and nothing is signed.",
                tree.refusal is not None,
            ),
        ):
            yield GaugeMetricFamily(f"sidegate_core_{name}", text, value=value)
        for name, text, value in (
            ("tree_tiles_mended", "Tiles made anew from the log.", tree.mended),
            (
                "checkpoints",
                "Checkpoints signed.",
                checkpointer.signed_count if checkpointer else 0,
            ),
            (
                "cosignatures",
                "Notes with cosignatures that were taken.",
                checkpointer.cosigned_count if checkpointer else 0,
            ),
        ):
            yield CounterMetricFamily(f"sidegate_core_{name}", text, value=value)
