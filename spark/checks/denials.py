"""(d) Denials: who was refused what, by which rule and for which reason, and when they came thick.

A denial is content, not a finding: the gatekeeper did what it is for.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

BURST_PER_MINUTE: Final = 20
"""Denials of one principal within a minute that make a burst: more than a person causes by hand,
and what a misconfigured client causes in seconds."""
TOPICS_SHOWN_MAX: Final = 5


def denials(decisions: DataFrame) -> DataFrame:
    """Columns principal, action, rule, reason, topics (some), count, first, last."""
    return (
        decisions.filter("not allowed")
        .groupBy("principal", "action", "rule", "reason")
        .agg(
            f.slice(f.sort_array(f.collect_set("topic")), 1, TOPICS_SHOWN_MAX).alias("topics"),
            f.sum("count").alias("count"),
            f.min("at").alias("first"),
            f.max("at").alias("last"),
        )
    )


def denial_bursts(decisions: DataFrame, per_minute: int = BURST_PER_MINUTE) -> DataFrame:
    """Columns principal, minute, count: minutes in which a principal was denied too often."""
    return (
        decisions.filter("not allowed")
        .groupBy("principal", f.date_trunc("minute", "at").alias("minute"))
        .agg(f.sum("count").alias("count"))
        .filter(f.col("count") >= per_minute)
    )
