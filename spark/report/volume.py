"""How much there is: totals, and messages over time for the charts."""

from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

POINTS_MAX: Final = 120
"""Points that a chart of the report's width can show apart."""
_STEPS_S: Final = (60, 300, 900, 3600, 4 * 3600, 86_400, 7 * 86_400, 28 * 86_400)
"""A minute to four weeks: steps that a reader can name."""


def totals(batches: DataFrame) -> dict[str, Any]:
    """Counts over all batches."""
    row = (
        batches.filter("leaf is not null")
        .agg(
            f.count("*").alias("batches"),
            f.coalesce(f.sum("count"), f.lit(0)).alias("messages"),
            f.coalesce(f.sum("frame_bytes"), f.lit(0)).alias("bytes"),
            f.countDistinct("topic").alias("topics"),
            f.countDistinct("principal").alias("principals"),
            f.countDistinct("gatekeeper").alias("gatekeepers"),
            f.count(f.when(f.col("body") == "removed", 1)).alias("removed_bodies"),
            f.count(f.when(f.col("body") == "encrypted", 1)).alias("encrypted_bodies"),
            f.min("append_time").alias("first"),
            f.max("append_time").alias("last"),
        )
        .first()
    )
    return {} if row is None else row.asDict()


def step_s(span_s: float) -> int:
    """The shortest step that keeps a span within the points of a chart."""
    for step in _STEPS_S:
        if span_s / step <= POINTS_MAX:
            return step
    return int(span_s / POINTS_MAX) + 1


def volume(batches: DataFrame) -> DataFrame:
    """Columns at, step_s, topic, messages, bytes: what was appended in each step of time."""
    placed = batches.filter("append_time is not null")
    span = placed.agg(
        f.coalesce(
            f.max("append_time").cast("double") - f.min("append_time").cast("double"), f.lit(0.0)
        )
    ).first()
    step = step_s(0.0 if span is None else float(span[0]))
    at = f.timestamp_seconds(f.floor(f.col("append_time").cast("double") / step) * step)
    return (
        placed.groupBy(at.alias("at"), "topic")
        .agg(f.sum("count").alias("messages"), f.sum("frame_bytes").alias("bytes"))
        .select("at", f.lit(step).alias("step_s"), "topic", "messages", "bytes")
    )
