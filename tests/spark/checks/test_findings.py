"""Findings have one form."""

from typing import Any

from pyspark.sql import functions as f

from spark.checks.findings import COLUMNS, as_findings


def test_what_is_not_given_is_null_and_types_are_the_forms_own(spark: Any) -> None:
    rows = spark.createDataFrame([("t", 1)], "topic string, leaf int")
    found = as_findings(rows, "a check", kind=f.lit("k"), topic="topic", leaf="leaf")
    assert [(each.name, each.dataType.simpleString()) for each in found.schema] == list(COLUMNS)
    (row,) = found.collect()
    assert (row.check, row.kind, row.topic, row.leaf, row.text) == ("a check", "k", "t", 1, None)
