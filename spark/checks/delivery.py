"""(e) Delivery: how far subscriptions are behind, what was given again, what was given up."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

DEAD_SUFFIX: Final = ".dead"


def ends(batches: DataFrame) -> DataFrame:
    """Columns topic, partition, end_offset: the offset that the next message will get."""
    return (
        batches.filter("leaf is not null")
        .groupBy("topic", "partition")
        .agg(f.max(f.col("base_offset") + f.col("count")).alias("end_offset"))
    )


def delivery(cursors: DataFrame, batches: DataFrame) -> DataFrame:
    """Columns owner, subscription, topic, partition, low, end_offset, lag, redelivered, expired.

    `cursors` has owner, subscription, topic, partition, low, acked_above (messages acknowledged
    above the low mark), redelivered, expired. The lag counts messages that are not acknowledged.
    """
    joined = cursors.join(ends(batches), ["topic", "partition"], "left")
    end = f.coalesce("end_offset", "low")
    return joined.select(
        "owner",
        "subscription",
        "topic",
        "partition",
        "low",
        end.alias("end_offset"),
        f.greatest(end - f.col("low") - f.col("acked_above"), f.lit(0)).alias("lag"),
        "redelivered",
        "expired",
    )


def dead_letters(batches: DataFrame) -> DataFrame:
    """Columns topic (that they come from), principal, count, first, last."""
    return (
        batches.filter(f.col("topic").endswith(DEAD_SUFFIX) & f.col("leaf").isNotNull())
        .groupBy(
            f.expr(f"substring(topic, 1, length(topic) - {len(DEAD_SUFFIX)})").alias("topic"),
            "principal",
        )
        .agg(
            f.sum("count").alias("count"),
            f.min("append_time").alias("first"),
            f.max("append_time").alias("last"),
        )
    )
