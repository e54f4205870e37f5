"""The log as a stream: `spark.readStream.format("sidegate")`.

The position of a stream is a leaf number: leaves never move, whatever the cleaner does to files,
and one number stands for the whole log. A stream reads what is known to be synced and nothing
above it, so nothing that it has read can vanish with a loss of power.
"""

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from spark.columns import Column
from spark.log_folder import log_folder, plan
from spark.options import Options
from spark.range_reader import LogPartition, read_range
from spark.selection import Leaves
from spark.synced import synced_leaves


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Micro-batches of leaves. The same leaves always give the same rows."""

    def __init__(self, options: Options, columns: tuple[Column, ...]) -> None:
        self.options = options
        self.columns = columns
        self._target: int | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {"leaf": 0}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._target = self._synced()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: ARG002, N802
        """As far as the log is synced; never back, and never further than one batch may reach."""
        end = self._synced() if self._target is None else self._target
        at_most = self.options.leaves_per_trigger
        if at_most is not None:
            end = min(end, start["leaf"] + at_most)
        return {"leaf": max(end, start["leaf"])}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        leaves = Leaves(start["leaf"], end["leaf"])
        if leaves.first == leaves.end:
            return []
        pieces = plan(
            log_folder(self.options.path),
            split_bytes=self.options.split_bytes,
            first_leaf=leaves.first,
            end_leaf=leaves.end,
        )
        return [
            LogPartition(piece, leaves)
            for piece in pieces
            if piece.end_leaf is None or piece.end_leaf > leaves.first
        ]

    def read(self, partition: InputPartition | None) -> Iterator[Any]:
        if isinstance(partition, LogPartition):
            yield from read_range(self.options, self.columns, partition)

    def commit(self, end: dict[str, int]) -> None:
        """Nothing is kept for a stream, so nothing is let go."""

    def _synced(self) -> int:
        return synced_leaves(log_folder(self.options.path))
