"""The columns that the issue of the audit promises, with types that Spark takes."""

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from spark.columns import BATCHES, MESSAGES, arrow_schema, columns_of, spark_schema

PROMISED = {
    "topic", "partition", "offset", "event_time", "append_time", "id", "key", "value",
    "content_type", "headers", "size", "principal", "issuer", "client_id", "thumbprint",
    "token_id", "decision_id", "policy_hash", "rule", "gatekeeper", "producer_id", "epoch",
    "sequence", "leaf",
}  # fmt: skip


def test_messages_have_every_promised_column() -> None:
    assert {column.name for column in MESSAGES} >= PROMISED


@pytest.mark.parametrize("rows", ["messages", "batches"])
def test_both_sides_have_exactly_the_same_types(rows: str) -> None:
    columns = columns_of(rows, None)
    theirs = to_arrow_schema(spark_schema(columns), timezone="UTC")
    assert arrow_schema(columns).equals(theirs)
    for column in columns:
        assert not pa.types.is_dictionary(column.arrow)
        assert not pa.types.is_large_string(column.arrow)


def test_columns_come_in_the_order_that_is_asked_for() -> None:
    assert [column.name for column in columns_of("messages", ("size", "topic"))] == [
        "size",
        "topic",
    ]


@pytest.mark.parametrize("names", [("nothing",), ("topic", "topic")])
def test_columns_that_do_not_exist_or_come_twice_are_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="columns:"):
        columns_of("messages", names)


def test_names_are_unique() -> None:
    for table in (MESSAGES, BATCHES):
        assert len({column.name for column in table}) == len(table)
