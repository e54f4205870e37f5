"""(b) Integrity of the tree: its roots recomputed in parallel from the batches themselves.

Leaves are cut into blocks whose roots tasks compute; the few roots of blocks are folded at the
end (RFC 9162). A root that is stated elsewhere and differs is a finding. Uses no stored tile: what
the log says of itself is not asked.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from log_format.tree import Frontier, fold_peaks
from spark.checks.findings import SCHEMA

CHECK: Final = "integrity"
BLOCK_LEVEL: Final = 12
"""Blocks of 4,096 leaves: a task hashes one in a few milliseconds, and the roots of ten million
leaves are 2,500 rows."""

_BLOCK: Final = 1 << BLOCK_LEVEL
_PEAKS: Final = "block bigint, size int, peaks array<binary>"


@dataclass(frozen=True, slots=True)
class Stated:
    """A root that somebody states for a number of leaves. `source` names who, in words."""

    source: str
    size: int
    root: bytes


def block_peaks(batches: DataFrame, sizes: Iterable[int]) -> DataFrame:
    """For each block its peaks whole, and at every size of `sizes` that lies within it.

    Columns block, size (leaves counted within the block), peaks. A block with a missing or
    repeated leaf has rows only below that leaf.
    """
    cuts: dict[int, set[int]] = {}
    for size in sizes:
        cuts.setdefault(size // _BLOCK, set()).add(size % _BLOCK)

    def peaks(table: Any) -> Any:
        return _peaks_of(table, cuts)

    leaves = batches.filter("leaf_hash is not null").select(
        f.shiftright("leaf", BLOCK_LEVEL).alias("block"), "leaf", "leaf_hash"
    )
    return leaves.groupBy("block").applyInArrow(peaks, _PEAKS)


def _peaks_of(table: Any, cuts: Mapping[int, set[int]]) -> Any:
    table = table.sort_by("leaf")
    block = table.column("block")[0].as_py()
    wanted = cuts.get(block, set()) | {_BLOCK}
    frontier = Frontier()
    rows = []
    leaves, hashes = table.column("leaf").to_pylist(), table.column("leaf_hash").to_pylist()
    for expected, (leaf, digest) in enumerate(zip(leaves, hashes, strict=True), block * _BLOCK):
        if leaf != expected:
            break
        frontier.append(digest)
        if frontier.size in wanted:
            rows.append((block, frontier.size, list(frontier.peaks)))
    blocks, sizes, peaks = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table(
        {
            "block": pa.array(blocks, pa.int64()),
            "size": pa.array(sizes, pa.int32()),
            "peaks": pa.array(peaks, pa.list_(pa.binary())),
        }
    )


def roots_at(
    rows: Iterable[tuple[int, int, Sequence[bytes]]], sizes: Iterable[int]
) -> dict[int, bytes | None]:
    """The root at each size, from what `block_peaks` found; None where leaves are missing."""
    whole: dict[int, bytes] = {}
    partial: dict[tuple[int, int], Sequence[bytes]] = {}
    for block, size, peaks in rows:
        if size == _BLOCK:
            whole[block] = bytes(peaks[0])
        else:
            partial[block, size] = [bytes(peak) for peak in peaks]
    roots: dict[int, bytes | None] = {}
    frontier = Frontier()
    for wanted in sorted(set(sizes)):
        block, rest = divmod(wanted, _BLOCK)
        while frontier.size < block and frontier.size in whole:
            frontier.append(whole[frontier.size])
        tail = partial.get((block, rest)) if rest else ()
        complete = frontier.size == block and tail is not None
        roots[wanted] = fold_peaks([*frontier.peaks, *(tail or ())]) if complete else None
    return roots


def tree_findings(
    session: SparkSession, roots: Mapping[int, bytes | None], stated: Iterable[Stated]
) -> DataFrame:
    """A finding for every stated root that is not the one of the log's leaves."""
    rows = []
    for each in stated:
        root = roots.get(each.size)
        if root is None:
            kind = "root_unknown"
            text = (
                f"{each.source} states a root for {each.size} leaves, and not all of these are in"
                " the log"
            )
        elif root != each.root:
            kind = "root_differs"
            text = (
                f"the first {each.size} leaves have the root {root.hex()}, and {each.source} states"
                f" {each.root.hex()}: what is in the log now is not what it was then"
            )
        else:
            continue
        rows.append((CHECK, kind, None, None, None, None, each.size, None, None, text))
    return session.createDataFrame(rows, SCHEMA)
