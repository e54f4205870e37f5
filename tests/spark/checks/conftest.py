"""Small frames by hand."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def at() -> Any:
    """A time so many hours after the start of 2026."""
    return lambda hours: START + timedelta(hours=hours)


@pytest.fixture
def decided(spark: Any) -> Any:
    """Decisions as `spark.decisions` gives them, from dicts that name what matters."""
    schema = (
        "kind string, at timestamp, allowed boolean, action string, topic string,"
        " principal string, rule string, reason string, count bigint"
    )
    defaults = {
        "kind": "decision", "at": START, "allowed": True, "action": "subscribe", "topic": "t",
        "principal": "p", "rule": "", "reason": "", "count": 1,
    }  # fmt: skip

    def make(*rows: dict[str, Any]) -> Any:
        return spark.createDataFrame([tuple({**defaults, **row}.values()) for row in rows], schema)

    return make
