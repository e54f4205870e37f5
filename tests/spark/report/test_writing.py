"""The files of a report."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark.report.result import Result, Table
from spark.report.writing import document, write_report

NAMES = ("findings", "unchecked", "volume", "access", "denials", "bursts", "delivery",
         "dead_letters", "anomalies", "retention")  # fmt: skip


@pytest.fixture
def result() -> Result:
    def empty(name: str) -> Table:
        return Table(name, ("x",), (), 0, pa.table({"x": pa.array([], pa.int64())}))

    moment = datetime(2026, 1, 1, tzinfo=UTC)
    tables = {name: empty(name) for name in NAMES}
    arrow: Any = pa.table({"what": ["w"], "why": ["y"]})
    tables["unchecked"] = Table(
        "unchecked", ("what", "why"), ({"what": "w", "why": "y"},), 1, arrow
    )
    tree = {"size": 3, "root": "ab", "compared": []}
    return Result("log", "00", moment, None, {"messages": 1}, tree, tables, "-a\n+b\n")


def test_page_json_parquet_and_diff_are_written_for_their_owner_only(
    result: Result, tmp_path: Path
) -> None:
    written = write_report(result, tmp_path / "out")
    names = {path.name for path in written}
    assert names >= {"report.html", "report.json", "policy.diff", "findings.parquet"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == names
    assert {path.stat().st_mode & 0o777 for path in written} == {0o600}
    assert json.loads((tmp_path / "out" / "report.json").read_bytes()) == document(result)
    assert pq.read_table(tmp_path / "out" / "unchecked.parquet").to_pylist() == [
        {"what": "w", "why": "y"}
    ]


def test_a_report_without_unused_grants_leaves_no_old_diff(result: Result, tmp_path: Path) -> None:
    write_report(result, tmp_path)
    plain = Result("log", "00", result.made, None, result.numbers, result.tree, result.tables, "")
    write_report(plain, tmp_path)
    assert not (tmp_path / "policy.diff").exists()
