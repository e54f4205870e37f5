"""A report as values."""

from datetime import UTC, datetime
from typing import Any

from spark.report import result
from spark.report.result import Result, Table, plain, table


def made(findings: int, since: str | None = None) -> Result:
    tables = {"findings": Table("findings", ("kind",), (), findings)}
    return Result("log", "00", datetime(2026, 1, 1, tzinfo=UTC), since, {}, {}, tables)


def test_only_findings_change_the_exit_code_and_the_verdict() -> None:
    assert (made(0).exit_code, made(1).exit_code, made(2).exit_code) == (0, 1, 1)
    assert made(0).verdict.startswith("The log is sound")
    assert made(0, "2026-01-01").verdict.startswith("What was appended since is sound")
    assert made(1).verdict.startswith("There is 1 finding:")


def test_rows_beyond_the_limit_are_counted(spark: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(result, "ROWS_MAX", 3)
    kept = table("t", spark.range(5), order=["id"])
    assert ([row["id"] for row in kept.rows], kept.total, kept.left_out) == ([0, 1, 2], 5, 2)


def test_values_become_json() -> None:
    value = {"at": datetime(2026, 1, 1), "raw": b"\x01", "list": [b"\x02"]}  # noqa: DTZ001
    assert plain(value) == {"at": "2026-01-01T00:00:00.000Z", "raw": "01", "list": ["02"]}
