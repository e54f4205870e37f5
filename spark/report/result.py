"""What a report says, as plain values: the verdict, numbers, and tables of rows.

The page, the JSON and the Parquet files are made from this and from nothing else, so they can't
contradict each other.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

SOUND: Final = 0
FINDINGS: Final = 1
COULD_NOT_RUN: Final = 2
ROWS_MAX: Final = 100_000
"""Rows that a table keeps: more findings than this say no more, and fit into memory no more."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of one section. `total` counts also the rows that were left out."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[dict[str, Any], ...]
    total: int
    arrow: Any = field(default=None, compare=False, repr=False)

    @property
    def left_out(self) -> int:
        return self.total - len(self.rows)


@dataclass(frozen=True, slots=True)
class Result:
    """A whole report."""

    log: str
    log_id: str
    made: datetime
    since: str | None
    numbers: dict[str, Any]
    tree: dict[str, Any]
    tables: dict[str, Table]
    policy_diff: str = ""

    @property
    def findings(self) -> int:
        return self.tables["findings"].total

    @property
    def exit_code(self) -> int:
        """A denial, an anomaly or an unused grant is content; only findings count."""
        return FINDINGS if self.findings else SOUND

    @property
    def verdict(self) -> str:
        """One sentence."""
        if not self.findings:
            what = "The log is sound" if self.since is None else "What was appended since is sound"
            return f"{what}: nothing is missing, and nothing was changed, as far as was checked."
        if self.findings == 1:
            return "There is 1 finding: something is missing or was changed."
        return f"There are {self.findings} findings: something is missing or was changed."


def table(name: str, frame: Any, *, order: list[Any] | None = None) -> Table:
    """Collect a DataFrame; rows beyond the limit are only counted."""
    ordered = frame.orderBy(*order) if order else frame
    arrow = ordered.limit(ROWS_MAX + 1).toArrow()
    total = len(arrow)
    if total > ROWS_MAX:
        total = frame.count()
        arrow = arrow.slice(0, ROWS_MAX)
    return Table(name, tuple(frame.columns), tuple(arrow.to_pylist()), total, arrow)


def plain(value: Any) -> Any:
    """A value as JSON can hold it."""
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return value
