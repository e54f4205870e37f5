"""(c) The access matrix: which principal did what on which topic, how often and how much."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f


def access_matrix(batches: DataFrame, decisions: DataFrame) -> DataFrame:
    """Columns principal, topic, action, count, bytes, first, last.

    `publish` counts messages and the bytes of their bodies as stored. The other actions count
    decisions that allowed them; what was then read is not in the log.
    """
    published = batches.filter("leaf is not null").select(
        f.coalesce("principal", f.lit("(the core itself)")).alias("principal"),
        "topic",
        f.lit("publish").alias("action"),
        f.col("count").cast("bigint").alias("count"),
        f.col("body_bytes").cast("bigint").alias("bytes"),
        f.col("append_time").alias("at"),
    )
    other = decisions.filter("allowed and action is not null and kind = 'decision'").select(
        "principal", "topic", "action", "count", f.lit(0).cast("bigint").alias("bytes"), "at"
    )
    return (
        published.unionByName(other)
        .groupBy("principal", "topic", "action")
        .agg(
            f.sum("count").alias("count"),
            f.sum("bytes").alias("bytes"),
            f.min("at").alias("first"),
            f.max("at").alias("last"),
        )
    )
