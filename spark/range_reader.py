"""Reads one range of the log: what a task does, in a batch or in a stream."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import InputPartition

from spark.batch_rows import batch_rows
from spark.columns import Column
from spark.damage import Damage, DamagedLog
from spark.frame_walk import Range, walk
from spark.leaf_tiles import LeafTiles
from spark.message_rows import message_rows
from spark.options import Options
from spark.selection import Leaves, check_tree, select


@dataclass(frozen=True)
class LogPartition(InputPartition):  # type: ignore[misc,unused-ignore]
    """What one task reads."""

    piece: Range
    leaves: Leaves


def read_range(
    options: Options, columns: tuple[Column, ...], partition: LogPartition
) -> Iterator[Any]:
    """The rows of one range, as Arrow record batches."""
    piece = partition.piece
    found = select(walk(piece), options.bounds, partition.leaves)
    if options.verify == "tree":
        found = check_tree(found, piece.file, LeafTiles(Path(piece.path).parent))
    verify = options.verify != "off"
    if options.rows == "batches":
        yield from batch_rows(found, piece.file, columns, verify=verify)
        return
    on_damage = _fail if options.damage == "fail" else _skip
    yield from message_rows(found, piece.file, columns, verify=verify, on_damage=on_damage)


def _fail(damage: Damage) -> None:
    raise DamagedLog(damage)


def _skip(_damage: Damage) -> None:
    """Left out, as was asked for."""
