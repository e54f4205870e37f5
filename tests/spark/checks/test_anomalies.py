"""What is unusual is found, and what is usual is not."""

from typing import Any

import pytest
from pyspark.sql import functions as f

from spark.checks.anomalies import (
    CERTIFICATES_MAX,
    SPIKE_HOURS_MIN,
    SPIKE_MESSAGES_MIN,
    anomalies,
)

SCHEMA = (
    "leaf bigint, principal string, topic string, append_time timestamp, count int,"
    " thumbprint string"
)


@pytest.fixture
def sent(spark: Any, at: Any) -> Any:
    def make(*rows: tuple[str, str, float, int, str]) -> Any:
        return spark.createDataFrame(
            [
                (leaf, principal, topic, at(hour), count, thumbprint)
                for leaf, (principal, topic, hour, count, thumbprint) in enumerate(rows)
            ],
            SCHEMA,
        )

    return make


def usual(days: int = 8) -> list[tuple[str, str, float, int, str]]:
    return [("p", "t", 24 * day + hour, 10, "c1") for day in range(days) for hour in (9, 10, 11)]


def found(frame: Any, at: Any, since: float) -> list[tuple[str, str, str | None]]:
    rows = anomalies(frame, f.lit(at(since))).collect()
    return sorted((row.kind, row.principal, row.topic) for row in rows)


def test_a_usual_day_has_nothing_to_show(sent: Any, at: Any) -> None:
    assert found(sent(*usual(9)), at, 24 * 8) == []


def test_each_planted_anomaly_is_found_as_itself(sent: Any, at: Any) -> None:
    now = 24 * 8
    assert len(usual()) >= SPIKE_HOURS_MIN
    rows = [
        *usual(),
        ("p", "payroll", now + 9, 1, "c1"),
        ("p", "t", now + 10, SPIKE_MESSAGES_MIN, "c1"),
        ("p", "t", now + 3, 1, "c1"),
        *(("p", "t", now + 11, 1, f"c{n}") for n in range(CERTIFICATES_MAX + 1)),
    ]
    assert found(sent(*rows), at, now) == [
        ("first_seen", "p", "payroll"),
        ("many_certificates", "p", None),
        ("off_hours", "p", None),
        ("volume_spike", "p", "t"),
    ]


def test_a_log_without_history_has_nothing_unusual(sent: Any, at: Any) -> None:
    assert found(sent(("p", "t", 5, 100_000, "c1"), ("q", "u", 6, 1, "c1")), at, 0) == []
