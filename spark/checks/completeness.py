"""(a) Completeness: is every batch there, once, and whole?

Leaves are counted without a gap over the log, offsets over each topic and partition, sequences
over each producer. Bytes that are no sound batch come in as rows with `damage`; one whose envelope
is still sound keeps its place in all three counts, so that a changed body is one finding.
"""

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from log_format.sequence import SEQUENCE_MAX
from spark.checks.findings import as_findings

CHECK: Final = "completeness"
_BEHIND: Final = (SEQUENCE_MAX + 1) // 2
"""Sequences wrap around: a distance of at least half the ring means behind, not ahead."""


def completeness(batches: DataFrame, *, from_start: bool = True) -> DataFrame:
    """Findings about `batches`, rows of the data source with rows=batches.

    `from_start` says that the rows begin with the log's first batch; otherwise what came before is
    not asked about. Whether the end is there is told by `cut_off`.
    """
    placed = batches.filter("leaf is not null")
    parts = [
        _damage(batches),
        _leaves(placed, from_start=from_start),
        _offsets(placed, from_start=from_start),
        _sequences(placed),
        _repeats(placed),
    ]
    return reduce(DataFrame.unionByName, parts)


def _damage(batches: DataFrame) -> DataFrame:
    return as_findings(
        batches.filter("damage is not null"),
        CHECK,
        kind="damage",
        topic="topic",
        partition="partition",
        first_offset="base_offset",
        last_offset=_last(),
        leaf="leaf",
        file="file",
        position="position",
        text="damage_text",
    )


def _leaves(placed: DataFrame, *, from_start: bool) -> DataFrame:
    """Within a file the rows' order is the file's; between files only their ends are compared, so
    that nothing has to sort the whole log."""
    within = Window.partitionBy("file").orderBy("position")
    steps = placed.withColumn("expected", f.lag("leaf").over(within) + 1)
    edges = placed.groupBy("file").agg(
        f.min("leaf").alias("leaf"),
        f.max("leaf").alias("last"),
        f.min("position").alias("position"),
    )
    start = f.lit(0 if from_start else None).cast("bigint")
    between = edges.withColumn(
        "expected", f.coalesce(f.lag(f.col("last") + 1).over(Window.orderBy("leaf")), start)
    )
    columns = ["leaf", "expected", "file", "position"]
    wrong = (
        steps.select(*columns)
        .unionByName(between.select(*columns))
        .filter("expected is not null and leaf != expected")
    )
    missing = f.col("leaf") > f.col("expected")
    return as_findings(
        wrong,
        CHECK,
        kind=f.when(missing, "leaf_gap").otherwise("leaf_again"),
        leaf="leaf",
        file="file",
        position="position",
        text=f.when(
            missing,
            f.format_string("leaves %d to %d are missing", "expected", f.col("leaf") - 1),
        ).otherwise(
            f.format_string("leaf %d comes again where leaf %d belongs", "leaf", "expected")
        ),
    )


def _offsets(placed: DataFrame, *, from_start: bool) -> DataFrame:
    order = Window.partitionBy("topic", "partition").orderBy("leaf", "position")
    start = f.lit(0 if from_start else None).cast("bigint")
    wrong = placed.withColumn(
        "expected", f.coalesce(f.lag(f.col("base_offset") + f.col("count")).over(order), start)
    ).filter("expected is not null and base_offset != expected")
    missing = f.col("base_offset") > f.col("expected")
    return as_findings(
        wrong,
        CHECK,
        kind=f.when(missing, "offset_gap").otherwise("offset_again"),
        topic="topic",
        partition="partition",
        first_offset=f.least("expected", "base_offset"),
        last_offset=f.greatest("expected", "base_offset") - 1,
        leaf="leaf",
        file="file",
        position="position",
        text=f.when(
            missing,
            f.format_string("offsets %d to %d are missing", "expected", f.col("base_offset") - 1),
        ).otherwise(
            f.format_string("offset %d comes again where %d belongs", "base_offset", "expected")
        ),
    )


def _sequences(placed: DataFrame) -> DataFrame:
    """A producer's batch that the offsets do not miss: numbered anew after something was taken."""
    lane = Window.partitionBy("principal", "producer_id", "epoch", "topic", "partition")
    following = (f.col("first_sequence").cast("bigint") + f.col("count")).bitwiseAND(SEQUENCE_MAX)
    ahead = (f.col("first_sequence") - f.col("expected")).bitwiseAND(SEQUENCE_MAX)
    wrong = (
        placed.filter("principal is not null")
        .withColumn("expected", f.lag(following).over(lane.orderBy("leaf", "position")))
        .filter("expected is not null and first_sequence != expected")
        .filter(ahead < _BEHIND)
    )
    return as_findings(
        wrong,
        CHECK,
        kind=f.lit("sequence_gap"),
        topic="topic",
        partition="partition",
        first_offset="base_offset",
        last_offset=_last(),
        leaf="leaf",
        file="file",
        position="position",
        text=f.format_string(
            "producer %x of %s goes on with sequence %d where %d belongs: a batch of it is missing",
            "producer_id",
            "principal",
            "first_sequence",
            "expected",
        ),
    )


def _repeats(placed: DataFrame) -> DataFrame:
    """The same batch of the same producer twice: what exactly-once must never let through."""
    same = Window.partitionBy(
        "principal", "producer_id", "epoch", "topic", "partition", "first_sequence", "body_sha256"
    )
    repeats = (
        placed.filter("principal is not null")
        .withColumn("earlier", f.min("base_offset").over(same))
        .filter("earlier < base_offset")
    )
    return as_findings(
        repeats,
        CHECK,
        kind=f.lit("duplicate"),
        topic="topic",
        partition="partition",
        first_offset="base_offset",
        last_offset=_last(),
        leaf="leaf",
        file="file",
        position="position",
        text=f.format_string("the batch at offset %d is in the log again", "earlier"),
    )


def cut_off(history: DataFrame, synced: int) -> DataFrame:
    """A finding if the log ends before leaf `synced`, with the place at which it ends.

    `history` is all of the log: a window in which nothing was appended is no end.
    """
    end = f.col("position") + f.col("frame_bytes")
    ends = (
        history.filter("leaf is not null")
        .agg(
            f.coalesce(f.max("leaf") + 1, f.lit(0)).alias("leaf"),
            f.max_by("file", "leaf").alias("file"),
            f.max_by(end, "leaf").alias("position"),
        )
        .filter(f.col("leaf") < synced)
    )
    return as_findings(
        ends,
        CHECK,
        kind=f.lit("cut_off"),
        leaf="leaf",
        file="file",
        position="position",
        text=f.format_string(
            "the log ends before leaf %d, and a checkpoint says that %d leaves were synced",
            "leaf",
            f.lit(synced),
        ),
    )


def _last() -> Column:
    return f.col("base_offset") + f.col("count") - 1
