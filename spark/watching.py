"""The streaming audit: completeness of every micro-batch and of what lies between two of them.

Each micro-batch is one folder under its number, written whole, so that doing it twice leaves it
there once. Between batches only a tail is kept: the last row of each topic, partition and producer,
which is all that the next batch must follow on from. No watermark is used: a watermark drops late
rows silently, and a row that is dropped silently is what an audit exists to find.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from spark.checks.completeness import completeness
from spark.checks.signatures import signature_findings, signatures

BATCHES: Final = "batches"
FINDINGS: Final = "findings"
TAILS: Final = "tails"
STATE: Final = "state"
FINDINGS_TOLD_MAX: Final = 1_000
"""Findings of one micro-batch that are published; Parquet has all of them."""

Tell = Callable[[str, dict[str, Any]], None]
"""Publishes one finding under an id that is the same when it is told again."""


def batch_findings(tail: DataFrame | None, new: DataFrame) -> DataFrame:
    """The findings of the batches in `new`, which follow on from `tail`; None begins the log."""
    joined = new if tail is None else tail.unionByName(new)
    found = completeness(joined, from_start=tail is None)
    if tail is None:
        return found
    # The tail's own rows leave gaps between each other; they were judged when they came.
    begins = new.agg(f.min("leaf").alias("begins"))
    judged = found.crossJoin(f.broadcast(begins))
    return judged.filter("leaf is null or begins is null or leaf >= begins").drop("begins")


def next_tail(tail: DataFrame | None, new: DataFrame) -> DataFrame:
    """The rows that the next micro-batch must follow on from: few, whatever came so far."""
    joined = (new if tail is None else tail.unionByName(new)).filter("leaf is not null")
    lane = Window.partitionBy("topic", "partition", "principal", "producer_id", "epoch")
    last = joined.withColumn("rank", f.row_number().over(lane.orderBy(f.desc("leaf"))))
    return last.filter("rank = 1").drop("rank").withColumn("damage", f.lit(None).cast("string"))


def finding_id(log: Path, finding: dict[str, Any]) -> str:
    """The same for the same finding, however the log was cut into micro-batches."""
    text = json.dumps([log.name, finding], sort_keys=True)
    return f"audit-{sha256(text.encode()).hexdigest()[:32]}"


@dataclass(frozen=True, slots=True)
class Watch:
    """One streaming audit. `keys` maps gatekeepers' ids to their public keys."""

    session: SparkSession
    log: Path
    out: Path
    keys: dict[str, bytes]
    tell: Tell

    def run(self, *, once: bool, interval_s: float, leaves_per_trigger: int) -> None:
        """Follow the log until it is stopped, or to its present end with `once`."""
        stream = (
            self.session.readStream.format("sidegate")
            .option("rows", "batches")
            .option("verify", "tree")
            .option("leaves_per_trigger", str(leaves_per_trigger))
            .load(str(self.log))
        )
        writer = stream.writeStream.foreachBatch(self.take).option(
            "checkpointLocation", str(self.out / STATE)
        )
        if once:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{interval_s} seconds")
        writer.start().awaitTermination()

    def take(self, new: DataFrame, number: int) -> None:
        """One micro-batch: keep its rows, its findings and the new tail, then tell the findings."""
        rows = self._keep(new, BATCHES, number)
        before = self.out / TAILS / str(number - 1)
        tail = self.session.read.parquet(str(before)) if before.exists() else None
        found = batch_findings(tail, rows)
        if self.keys:
            found = found.unionByName(signature_findings(signatures(rows, self.keys)))
        kept = self._keep(found, FINDINGS, number)
        self._keep(next_tail(tail, rows), TAILS, number)
        told = kept.orderBy("leaf", "kind", "text").limit(FINDINGS_TOLD_MAX).collect()
        for row in told:
            finding = row.asDict()
            self.tell(finding_id(self.log, finding), finding)

    def _keep(self, frame: DataFrame, kind: str, number: int) -> DataFrame:
        """Written under the micro-batch's number, in the place of an attempt that was cut short."""
        path = str(self.out / kind / str(number))
        frame.write.mode("overwrite").option("compression", "zstd").parquet(path)
        return self.session.read.parquet(path)
