"""What was removed, and by which rule."""

from typing import Any

import pytest

from spark.checks.retention import retention

TOPICS = "topic string, age_ms bigint, retention_bytes bigint, deleted boolean"


@pytest.fixture
def topics(spark: Any) -> Any:
    return lambda *rows: spark.createDataFrame(list(rows), TOPICS)


def test_removed_bodies_are_told_with_offsets_and_rule(log: Any, batches: Any, topics: Any) -> None:
    log.add("aged", [b"x"] * 3, removed=True)
    log.add("aged", [b"x"] * 2, removed=True)
    log.add("aged")
    log.add("sized", removed=True)
    log.add("gone", removed=True)
    log.add("kept")
    rows = retention(
        batches(),
        topics(
            ("aged", 3_600_000, None, False), ("sized", None, 4096, False),
            ("gone", None, None, True), ("kept", None, None, False),
        ),
    ).collect()  # fmt: skip
    found = {row.topic: (row.messages, row.first_offset, row.last_offset, row.rule) for row in rows}
    assert found == {
        "aged": (5, 0, 4, "older than 1.0 hours"),
        "sized": (1, 0, 0, "above 4096 bytes a topic"),
        "gone": (1, 0, 0, "the topic was deleted"),
    }


def test_a_body_that_was_taken_without_a_rule_says_so(log: Any, batches: Any, topics: Any) -> None:
    log.add("forever", removed=True)
    (row,) = retention(batches(), topics(("forever", None, None, False))).collect()
    assert row.rule == "no rule of the topic explains it"
