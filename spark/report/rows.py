"""The log's batches, read and verified once and kept in Parquet while the checks run over them.

Every check asks for the same rows; hashing gigabytes for each of them would be the whole cost of
a report. Also says how far the log is synced, which bounds what a report vouches for.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from spark.decisions import AUDIT_TOPIC, decisions
from spark.synced import synced_leaves

FOLDER: Final = "batches"
HISTORY_COLUMNS: Final = (
    "topic", "partition", "base_offset", "count", "leaf", "append_time", "principal", "thumbprint",
    "policy_hash", "leaf_hash", "file", "position", "frame_bytes",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rows:
    """What the checks read. `batches` are synced and in the window.

    `history` has all synced ones from the log's first on, with fewer columns: the tree, the log's
    end and what is usual are not those of a window. `unsynced` counts the batches that are not
    vouched for yet.
    """

    batches: DataFrame
    history: DataFrame
    decisions: DataFrame
    synced: int
    unsynced: int


def read_rows(session: SparkSession, log: Path, since: str | None, scratch: Path) -> Rows:
    """Read the log once, verify it, and keep its batches below `scratch`."""
    known = synced_leaves(log)
    kept = _kept(session, log, since, scratch)
    top = kept.agg(
        f.max("durable_leaf").alias("durable"),
        f.count("leaf").alias("count"),
    ).first()
    durable = 0 if top is None or top["durable"] is None else int(top["durable"])
    synced = max(known, durable)
    batches = _synced(kept, synced)
    unsynced = kept.filter(f.col("leaf") >= synced).count()
    history = batches if since is None else _history(session, log, scratch, synced)
    return Rows(batches, history, _decisions(session, log, since, scratch), synced, unsynced)


def _kept(session: SparkSession, log: Path, since: str | None, scratch: Path) -> DataFrame:
    path = str(scratch / FOLDER)
    reader = session.read.format("sidegate").option("rows", "batches").option("verify", "tree")
    if since is not None:
        reader = reader.option("from", since)
    reader.load(str(log)).write.mode("overwrite").parquet(path)
    return session.read.parquet(path)


def _history(session: SparkSession, log: Path, scratch: Path, synced: int) -> DataFrame:
    """The whole log; envelopes only, no body is opened."""
    path = str(scratch / "history")
    reader = session.read.format("sidegate").option("rows", "batches").option("verify", "off")
    reader = reader.option("columns", ",".join(HISTORY_COLUMNS))
    reader.load(str(log)).write.mode("overwrite").parquet(path)
    return session.read.parquet(path).filter(f.col("leaf") < synced)


def _synced(kept: DataFrame, synced: int) -> DataFrame:
    """Without what a loss of power may still undo, and without damage above it: a torn tail."""
    last = (
        kept.filter(f.col("leaf") < synced)
        .groupBy()
        .agg(
            f.max_by("file", "leaf").alias("last_file"),
            f.max_by("position", "leaf").alias("last_at"),
            f.max("leaf").alias("last_leaf"),
        )
    )
    # Only above the last synced batch: where that one is missing, the damage is what is left of it.
    above = (
        f.col("leaf").isNull()
        & (f.col("last_leaf") == synced - 1)
        & (f.col("file") == f.col("last_file"))
        & (f.col("position") > f.col("last_at"))
    )
    unsynced = f.coalesce(f.col("leaf") >= synced, f.lit(False))
    joined = kept.crossJoin(f.broadcast(last))
    return joined.filter(~unsynced & ~f.coalesce(above, f.lit(False))).drop(
        "last_file", "last_at", "last_leaf"
    )


def _decisions(session: SparkSession, log: Path, since: str | None, scratch: Path) -> DataFrame:
    path = str(scratch / "decisions")
    reader = (
        session.read.format("sidegate")
        .option("topics", AUDIT_TOPIC)
        .option("columns", "offset,append_time,value")
        .option("damage", "skip")
    )
    if since is not None:
        reader = reader.option("from", since)
    decisions(reader.load(str(log))).write.mode("overwrite").parquet(path)
    return session.read.parquet(path)
