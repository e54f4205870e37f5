"""Writes a report's files: the page, the JSON, and one Parquet file per table."""

import json
import os
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from spark.report.page import render
from spark.report.result import Result, Table, plain

PAGE: Final = "report.html"
DOCUMENT: Final = "report.json"
DIFF: Final = "policy.diff"
_PRIVATE: Final = 0o600
"""A report names principals and topics: it is its owner's to show."""


def write_report(result: Result, out: Path) -> list[Path]:
    """Write all forms into the folder `out`; each file replaces an older one whole."""
    out.mkdir(parents=True, exist_ok=True)
    written = [out / PAGE, out / DOCUMENT]
    for name, table in result.tables.items():
        path = out / f"{name}.parquet"
        _write_parquet(table, path)
        written.append(path)
    if result.policy_diff:
        _replace(out / DIFF, result.policy_diff)
        written.append(out / DIFF)
    else:
        (out / DIFF).unlink(missing_ok=True)
    _replace(out / PAGE, render(result))
    # Last: the next report takes this one's word for what the tree was.
    _replace(out / DOCUMENT, json.dumps(document(result), indent=1) + "\n")
    return written


def document(result: Result) -> dict[str, Any]:
    """The report as JSON."""
    return {
        "verdict": "findings" if result.findings else "sound",
        "text": result.verdict,
        "findings": result.findings,
        "made": plain(result.made),
        "log": result.log,
        "log_id": result.log_id,
        "since": result.since,
        "numbers": plain(result.numbers),
        "tree": plain(result.tree),
        "tables": {
            name: {"total": table.total, "rows": [plain(row) for row in table.rows]}
            for name, table in result.tables.items()
        },
        "policy_diff": result.policy_diff,
    }


def _write_parquet(table: Table, path: Path) -> None:
    draft = path.with_suffix(".new")
    pq.write_table(table.arrow, draft, compression="zstd")
    draft.chmod(_PRIVATE)
    draft.replace(path)


def _replace(path: Path, text: str) -> None:
    draft = path.with_name(path.name + ".new")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _PRIVATE), "w") as file:
        file.write(text)
    draft.replace(path)
