"""(g) Least privilege: grants that nobody used within a window.

A grant is judged only if it is older than the window: a young one had no chance to be used. What
is unused can be taken away without anybody's noticing, as far as this log can tell.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

USED: Final = "used"
UNUSED: Final = "unused"
TOO_YOUNG: Final = "too young to judge"


def uses(batches: DataFrame, decisions: DataFrame) -> DataFrame:
    """Columns rule, principal, uses, last: which rules allowed something, for whom."""
    published = batches.filter("rule is not null").select(
        "rule", "principal", f.col("count").alias("uses"), f.col("append_time").alias("at")
    )
    other = decisions.filter("allowed and rule != ''").select(
        "rule", "principal", f.col("count").alias("uses"), "at"
    )
    return (
        published.unionByName(other)
        .groupBy("rule", "principal")
        .agg(f.sum("uses").alias("uses"), f.max("at").alias("last"))
    )


def least_privilege(grants: DataFrame, used: DataFrame) -> DataFrame:
    """Columns rule, subject, uses, last, verdict.

    `grants` has rule, subject (as the who-list names it), principals (whom it means by name; null
    for a claim or scope, which may mean anyone) and judged (older than the window). A claim or a
    scope counts as used when its rule was used by somebody whom no name in the list means.
    """
    named = (
        grants.filter("principals is not null")
        .select("rule", f.explode_outer("principals").alias("principal"))
        .filter("principal is not null")
        .distinct()
        .withColumn("named", f.lit(True))
    )
    by_name = (
        grants.filter("principals is not null")
        .select("rule", "subject", "judged", f.explode_outer("principals").alias("principal"))
        .join(used, ["rule", "principal"], "left")
    )
    by_claim = (
        grants.filter("principals is null")
        .select("rule", "subject", "judged")
        .join(used.join(named, ["rule", "principal"], "left_anti"), "rule", "left")
    )
    columns = ["rule", "subject", "judged", "uses", "last"]
    return (
        by_name.select(*columns)
        .unionByName(by_claim.select(*columns))
        .groupBy("rule", "subject", "judged")
        .agg(f.coalesce(f.sum("uses"), f.lit(0)).alias("uses"), f.max("last").alias("last"))
        .withColumn(
            "verdict",
            f.when(f.col("uses") > 0, USED).when(f.col("judged"), UNUSED).otherwise(TOO_YOUNG),
        )
        .drop("judged")
    )
