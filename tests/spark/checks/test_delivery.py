"""Lag and dead letters."""

from typing import Any

import pytest

from spark.checks.delivery import dead_letters, delivery, ends

CURSORS = (
    "owner string, subscription string, topic string, partition int, low bigint,"
    " acked_above bigint, redelivered bigint, expired bigint"
)


@pytest.fixture
def cursors(spark: Any) -> Any:
    return lambda *rows: spark.createDataFrame(list(rows), CURSORS)


def test_lag_counts_what_is_not_acknowledged(log: Any, batches: Any, cursors: Any) -> None:
    log.add("a", [b"x"] * 10)
    log.add("a", [b"x"] * 5, partition=1)
    rows = delivery(
        cursors(
            ("app", "mailer", "a", 0, 4, 2, 7, 1),
            ("app", "mailer", "a", 1, 5, 0, 0, 0),
            ("app", "idle", "gone", 0, 3, 0, 0, 0),
        ),
        batches(),
    ).collect()
    found = {(row.subscription, row.partition): (row.lag, row.redelivered) for row in rows}
    assert found == {("mailer", 0): (4, 7), ("mailer", 1): (0, 0), ("idle", 0): (0, 0)}


def test_planted_dead_letters_are_counted_for_the_topic_they_come_from(
    log: Any, batches: Any
) -> None:
    log.add("orders")
    log.add("orders.dead", [b"x"] * 3, principal="mailer")
    log.add("dead")
    (row,) = dead_letters(batches()).collect()
    assert (row.topic, row.principal, row["count"]) == ("orders", "mailer", 3)


def test_an_end_is_the_offset_that_comes_next(log: Any, batches: Any) -> None:
    log.add("a", [b"x"] * 10)
    assert [tuple(row) for row in ends(batches()).collect()] == [("a", 0, 10)]
