"""The gatekeepers' decisions, out of the topic `_audit`, as columns.

Publishing that was allowed is not among them: its provenance, in the batch itself, is its record.
A principal with too many denials has them counted in summaries, which are rows with a `count`.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

AUDIT_TOPIC: Final = "_audit"

_RECORD: Final = (
    "kind string, decision_id string, at_us bigint, allowed boolean, action string, topic string,"
    " principal string, rule string, reason string, spiffe_id string, claimed_spiffe_id string,"
    " thumbprint string, issuer string, client_id string, token_id string, policy_hash string,"
    " gatekeeper string, count bigint, first_us bigint, last_us bigint, topics array<string>"
)


def decisions(messages: DataFrame) -> DataFrame:
    """One row per record of `_audit`, of `messages` with the columns offset, append_time, value.

    What is no JSON object is left out; the log's checks are about bytes, this is about meaning.
    `at` is the decision's own time, `count` how many decisions the row stands for.
    """
    record = f.from_json(f.col("value").cast("string"), _RECORD)
    parsed = messages.filter("value is not null").select("offset", "append_time", record.alias("r"))
    at_us = f.coalesce(f.col("r.at_us"), f.col("r.last_us"))
    return parsed.filter("r.kind is not null").select(
        "offset",
        f.col("r.kind").alias("kind"),
        f.col("r.decision_id").alias("decision_id"),
        f.coalesce(f.timestamp_micros(at_us), f.col("append_time")).alias("at"),
        f.coalesce(f.col("r.allowed"), f.lit(True)).alias("allowed"),
        f.col("r.action").alias("action"),
        f.coalesce(f.col("r.topic"), f.element_at("r.topics", 1), f.lit("")).alias("topic"),
        f.coalesce(
            f.when(f.col("r.principal") != "", f.col("r.principal")),
            f.when(f.col("r.claimed_spiffe_id") != "", f.col("r.claimed_spiffe_id")),
            f.lit("(unknown)"),
        ).alias("principal"),
        f.coalesce(f.col("r.rule"), f.lit("")).alias("rule"),
        f.coalesce(f.col("r.reason"), f.lit("")).alias("reason"),
        f.col("r.spiffe_id").alias("spiffe_id"),
        f.col("r.thumbprint").alias("thumbprint"),
        f.col("r.issuer").alias("issuer"),
        f.col("r.client_id").alias("client_id"),
        f.col("r.token_id").alias("token_id"),
        f.col("r.policy_hash").alias("policy_hash"),
        f.col("r.gatekeeper").alias("gatekeeper"),
        f.coalesce(f.col("r.count"), f.lit(1)).cast("bigint").alias("count"),
    )
