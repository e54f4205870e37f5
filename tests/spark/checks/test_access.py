"""The access matrix."""

from typing import Any

from spark.checks.access import access_matrix


def test_publishing_is_counted_from_batches_and_the_rest_from_decisions(
    log: Any, batches: Any, decided: Any
) -> None:
    log.add("a", [b"x"] * 3)
    log.add("a", [b"x"] * 2)
    log.add("b", principal="other")
    rows = access_matrix(
        batches(),
        decided(
            {"principal": "reader", "topic": "a"},
            {"principal": "reader", "topic": "a"},
            {"principal": "reader", "topic": "b", "allowed": False},
        ),
    ).collect()
    counts = {(row.principal, row.topic, row.action): row["count"] for row in rows}
    assert counts == {
        ("billing", "a", "publish"): 5,
        ("other", "b", "publish"): 1,
        ("reader", "a", "subscribe"): 2,
    }
    assert all(row.bytes > 0 for row in rows if row.action == "publish")


def test_a_planted_sender_shows_up(log: Any, batches: Any, decided: Any) -> None:
    log.add("payroll", principal="mallory")
    (row,) = access_matrix(batches(), decided()).collect()
    assert (row.principal, row.topic) == ("mallory", "payroll")
