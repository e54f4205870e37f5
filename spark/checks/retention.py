"""(h) Retention: which bodies were removed, and by which rule. Their envelopes are still there."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f


def retention(batches: DataFrame, topics: DataFrame) -> DataFrame:
    """Columns topic, partition, batches, messages, bytes, first_offset, last_offset, oldest,
    newest, rule.

    `topics` has topic, age_ms, retention_bytes, deleted: each topic as it was defined last.
    """
    removed = (
        batches.filter("body = 'removed'")
        .groupBy("topic", "partition")
        .agg(
            f.count("*").alias("batches"),
            f.sum("count").alias("messages"),
            f.sum("body_bytes").alias("bytes"),
            f.min("base_offset").alias("first_offset"),
            f.max(f.col("base_offset") + f.col("count") - 1).alias("last_offset"),
            f.min("append_time").alias("oldest"),
            f.max("append_time").alias("newest"),
        )
    )
    rule = f.coalesce(
        f.when(f.col("deleted"), f.lit("the topic was deleted")),
        f.when(_given("age_ms") & _given("retention_bytes"), f.concat_ws(", ", _age(), _bytes())),
        f.when(_given("age_ms"), _age()),
        f.when(_given("retention_bytes"), _bytes()),
        f.lit("no rule of the topic explains it"),
    )
    return (
        removed.join(topics, "topic", "left")
        .withColumn("rule", rule)
        .drop("age_ms", "retention_bytes", "deleted")
    )


def _given(name: str) -> Column:
    return f.col(name).isNotNull()


def _age() -> Column:
    return f.format_string("older than %.1f hours", f.col("age_ms") / 3_600_000)


def _bytes() -> Column:
    return f.format_string("above %d bytes a topic", f.col("retention_bytes"))
