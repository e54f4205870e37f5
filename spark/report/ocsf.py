"""The log as OCSF events, class API Activity (6003), for whatever collects security events.

One event per published batch and one per decision of a gatekeeper. Versions 1.x of the schema
agree on everything that is used here.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

CLASS_UID: Final = 6003
CATEGORY_UID: Final = 6
VERSION: Final = "1.3.0"

_ACTIVITIES: Final = {
    "publish": 1,
    "subscribe": 2,
    "replay": 2,
    "audit": 2,
    "admin": 3,
}
"""1 Create, 2 Read, 3 Update, 4 Delete, 99 Other."""
_OTHER: Final = 99
_NAMES: Final = {1: "Create", 2: "Read", 3: "Update", 4: "Delete", 99: "Other"}


def ocsf_events(batches: DataFrame, decisions: DataFrame, version: str) -> DataFrame:
    """Events with OCSF's names, ready to be written as JSON. `version` is Sidegate's own."""
    published = batches.filter("leaf is not null and principal is not null").select(
        f.lit("publish").alias("action"),
        f.col("received_time").alias("at"),
        f.lit(True).alias("allowed"),
        "principal",
        "topic",
        "rule",
        f.lit("").alias("reason"),
        "decision_id",
        "issuer",
        "client_id",
        "token_id",
        "thumbprint",
        "policy_hash",
        "gatekeeper",
        f.col("count").cast("bigint").alias("count"),
        f.col("leaf").alias("sequence"),
        f.lit("batch").alias("log_name"),
    )
    decided = decisions.select(
        "action", "at", "allowed", "principal", "topic", "rule", "reason", "decision_id", "issuer",
        "client_id", "token_id", "thumbprint", "policy_hash", "gatekeeper", "count",
        f.col("offset").alias("sequence"), f.lit("_audit").alias("log_name"),
    )  # fmt: skip
    return published.unionByName(decided).select(*_fields(version))


def _fields(version: str) -> list[Column]:
    activity = _activity()
    name = f.create_map(*[f.lit(each) for pair in _NAMES.items() for each in pair])[activity]
    failed = ~f.col("allowed")
    return [
        activity.alias("activity_id"),
        name.alias("activity_name"),
        f.lit(CATEGORY_UID).alias("category_uid"),
        f.lit("Application Activity").alias("category_name"),
        f.lit(CLASS_UID).alias("class_uid"),
        f.lit("API Activity").alias("class_name"),
        (f.lit(CLASS_UID * 100) + activity).cast("bigint").alias("type_uid"),
        f.unix_millis("at").alias("time"),
        f.when(failed, 2).otherwise(1).alias("severity_id"),
        f.when(failed, "Low").otherwise("Informational").alias("severity"),
        f.when(failed, 2).otherwise(1).alias("status_id"),
        f.when(failed, "Failure").otherwise("Success").alias("status"),
        _or_null("reason").alias("status_detail"),
        f.col("count").cast("int").alias("count"),
        f.struct(
            f.lit(VERSION).alias("version"),
            f.struct(
                f.lit("Sidegate").alias("name"),
                f.lit("Sidegate").alias("vendor_name"),
                f.lit(version).alias("version"),
            ).alias("product"),
            f.col("log_name"),
            f.col("decision_id").alias("uid"),
            f.col("sequence"),
        ).alias("metadata"),
        f.struct(
            f.struct(
                f.col("principal").alias("name"),
                f.col("principal").alias("uid"),
                f.lit(3).alias("type_id"),
            ).alias("user"),
            f.struct(_or_null("token_id").alias("uid"), _or_null("issuer").alias("issuer")).alias(
                "session"
            ),
        ).alias("actor"),
        f.struct(
            f.coalesce("action", f.lit("unknown")).alias("operation"),
            f.struct(f.lit("sidegate").alias("name")).alias("service"),
            f.struct(f.col("decision_id").alias("uid")).alias("request"),
        ).alias("api"),
        f.struct(
            f.coalesce(_or_null("client_id"), f.col("principal")).alias("name"),
            _or_null("thumbprint").alias("uid"),
        ).alias("src_endpoint"),
        f.array(f.struct(f.col("topic").alias("name"), f.lit("topic").alias("type"))).alias(
            "resources"
        ),
        f.array(
            f.struct(
                f.when(failed, "Denied").otherwise("Allowed").alias("decision"),
                f.struct(
                    _or_null("rule").alias("name"), _or_null("policy_hash").alias("uid")
                ).alias("policy"),
            )
        ).alias("authorizations"),
        f.struct(f.col("gatekeeper")).alias("unmapped"),
    ]


def _activity() -> Column:
    chosen = f.when(f.lit(False), f.lit(_OTHER))
    for action, number in _ACTIVITIES.items():
        chosen = chosen.when(f.col("action") == action, f.lit(number))
    return chosen.otherwise(f.lit(_OTHER))


def _or_null(name: str) -> Column:
    return f.when(f.col(name) != "", f.col(name))
