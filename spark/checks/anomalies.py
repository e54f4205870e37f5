"""(f) Anomalies: what is unusual. None of it is wrong by itself, all of it is worth a look.

Compares a window, from `since` on, with everything before it. Where there is nothing before, there
is nothing unusual to tell, and no row.
"""

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

SPIKE_FACTOR: Final = 10
"""An hour with ten times a principal's median hour is not chance."""
SPIKE_MESSAGES_MIN: Final = 1_000
"""Below this a spike costs nobody anything."""
SPIKE_HOURS_MIN: Final = 12
"""Active hours before a median means something."""
HOURS_DAYS_MIN: Final = 7
"""Days of history before an hour of the day can be called unusual."""
CERTIFICATES_MAX: Final = 3
"""Certificates of one principal within the window: rotation shows two, a few replicas three."""


def anomalies(batches: DataFrame, since: Column) -> DataFrame:
    """Columns kind, principal, topic, at, value, usual, text."""
    sent = batches.filter("leaf is not null and principal is not null")
    parts = [
        first_seen(sent, since),
        volume_spikes(sent, since),
        off_hours(sent, since),
        many_certificates(sent, since),
    ]
    return reduce(DataFrame.unionByName, parts)


def first_seen(sent: DataFrame, since: Column) -> DataFrame:
    """Pairs of principal and topic that the log did not have before the window."""
    begun = sent.agg(f.min("append_time").alias("begun"))
    pairs = sent.groupBy("principal", "topic").agg(
        f.min("append_time").alias("at"), f.sum("count").alias("value")
    )
    new = pairs.crossJoin(begun).filter((f.col("at") >= since) & (f.col("begun") < since))
    return _rows(
        new,
        "first_seen",
        usual=f.lit(0),
        text=f.format_string("%s published to %s for the first time", "principal", "topic"),
    )


def volume_spikes(sent: DataFrame, since: Column) -> DataFrame:
    """Hours of the window with far more messages of a principal on a topic than its median."""
    hours = sent.groupBy("principal", "topic", f.date_trunc("hour", "append_time").alias("at")).agg(
        f.sum("count").alias("value")
    )
    each = Window.partitionBy("principal", "topic")
    judged = hours.withColumn("usual", f.percentile_approx("value", 0.5).over(each)).withColumn(
        "hours", f.count("*").over(each)
    )
    spikes = judged.filter(
        (f.col("at") >= f.date_trunc("hour", since))
        & (f.col("hours") >= SPIKE_HOURS_MIN)
        & (f.col("value") >= SPIKE_MESSAGES_MIN)
        & (f.col("value") >= f.col("usual") * SPIKE_FACTOR)
    )
    return _rows(
        spikes,
        "volume_spike",
        usual=f.col("usual"),
        text=f.format_string(
            "%d messages of %s to %s in an hour; its median is %d",
            "value", "principal", "topic", "usual",
        ),
    )  # fmt: skip


def off_hours(sent: DataFrame, since: Column) -> DataFrame:
    """Hours of the day (UTC) at which a principal had never been active before the window."""
    hour = f.hour("append_time")
    before = sent.filter(f.col("append_time") < since)
    known = before.groupBy("principal").agg(
        f.collect_set(hour).alias("hours"),
        f.countDistinct(f.to_date("append_time")).alias("days"),
    )
    now = (
        sent.filter(f.col("append_time") >= since)
        .groupBy("principal", hour.alias("hour"))
        .agg(f.min("append_time").alias("at"), f.sum("count").alias("value"))
    )
    odd = now.join(known, "principal").filter(
        (f.col("days") >= HOURS_DAYS_MIN) & ~f.array_contains("hours", f.col("hour"))
    )
    return _rows(
        odd.withColumn("topic", f.lit(None).cast("string")),
        "off_hours",
        usual=f.lit(0),
        text=f.format_string(
            "%s was active at %02d:00 UTC, and not once at that hour in the %d days before",
            "principal", "hour", "days",
        ),
    )  # fmt: skip


def many_certificates(sent: DataFrame, since: Column) -> DataFrame:
    """Principals that used more certificates in the window than rotation explains."""
    used = (
        sent.filter(f.col("append_time") >= since)
        .groupBy("principal")
        .agg(
            f.countDistinct("thumbprint").alias("value"),
            f.max("append_time").alias("at"),
        )
        .filter(f.col("value") > CERTIFICATES_MAX)
        .withColumn("topic", f.lit(None).cast("string"))
    )
    return _rows(
        used,
        "many_certificates",
        usual=f.lit(CERTIFICATES_MAX),
        text=f.format_string("%s used %d certificates", "principal", "value"),
    )


def _rows(frame: DataFrame, kind: str, *, usual: Column, text: Column) -> DataFrame:
    return frame.select(
        f.lit(kind).alias("kind"),
        "principal",
        "topic",
        "at",
        f.col("value").cast("bigint").alias("value"),
        usual.cast("bigint").alias("usual"),
        text.alias("text"),
    )
