"""The report as one HTML page that needs nothing else: no script, no font, no network.

The verdict comes first, then the findings, then what was not checked, then the rest. Whatever
comes from the log is escaped: a topic's or principal's name is an outsider's text.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from html import escape
from typing import Any, Final

from spark.report.charts import bars, stacked_bars
from spark.report.result import Result, Table, plain
from spark.report.style import CSS

ROWS_SHOWN_MAX: Final = 200
"""Rows of a table that the page shows; the JSON and the Parquet files have the others."""
SERIES_MAX: Final = 6
BARS_MAX: Final = 12
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
"""The page may load nothing at all, whatever a name in it might try."""


def render(result: Result) -> str:
    """The whole page."""
    return "".join(
        (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>Sidegate audit: {'sound' if not result.findings else 'findings'}</title>",
            f"<style>{CSS}</style></head><body><main>",
            *_sections(result),
            "</main></body></html>\n",
        )
    )


def _sections(result: Result) -> Iterable[str]:
    yield _head(result)
    yield _findings(result)
    yield _section(
        "What was not checked",
        "A report vouches for what it looked at, and for nothing else.",
        _table(result.tables["unchecked"], ("what", "why")),
    )
    yield _integrity(result)
    yield _section("How much, and when", _span(result), _volume(result.tables["volume"]))
    yield _access(result)
    yield _denials(result)
    yield _section(
        "Delivery",
        "How far subscriptions are behind, and what was given up on.",
        _named("Subscriptions", result.tables["delivery"], "No durable subscription."),
        _named("Dead letters", result.tables["dead_letters"], "None."),
    )
    yield _section(
        "What is unusual",
        "Not wrong by itself, and worth a look.",
        _table(result.tables["anomalies"], ("kind", "at", "text")),
    )
    yield _least_privilege(result)
    yield _section(
        "Retention",
        "Bodies that were removed. Their envelopes are still there, and were checked.",
        _table(result.tables["retention"]),
    )
    yield (
        f"<footer>Made {escape(str(plain(result.made)))} from {escape(result.log)}, log"
        f" {escape(result.log_id)}. All times are UTC.</footer>"
    )


def _head(result: Result) -> str:
    numbers = result.numbers
    shown = [
        ("messages", numbers.get("messages", 0)),
        ("batches", numbers.get("batches", 0)),
        ("bytes", numbers.get("bytes", 0)),
        ("topics", numbers.get("topics", 0)),
        ("principals", numbers.get("principals", 0)),
        ("findings", result.findings),
        ("denials", sum(row["count"] for row in result.tables["denials"].rows)),
    ]
    cells = "".join(f"<div><dt>{name}</dt><dd>{value:,}</dd></div>" for name, value in shown)
    kind = "findings" if result.findings else "sound"
    title = "Findings" if result.findings else "Sound"
    since = "" if result.since is None else f" Looked at since {escape(result.since)}."
    return (
        f'<h1>Sidegate audit</h1><div class="verdict {kind}"><b>{title}</b>'
        f'{escape(result.verdict)}{since}</div><dl class="numbers">{cells}</dl>'
    )


def _findings(result: Result) -> str:
    found = result.tables["findings"]
    if not found.total:
        return _section("Findings", "None: completeness and integrity hold.")
    columns = ("kind", "topic", "partition", "first_offset", "last_offset", "leaf", "file",
               "position", "text")  # fmt: skip
    return _section(
        "Findings",
        "Each names its offsets, or the file and the position, as far as they can be told.",
        _table(found, columns),
    )


def _integrity(result: Result) -> str:
    tree = result.tree
    compared = tree.get("compared", ())
    rows = [
        {
            "source": each["source"],
            "leaves": each["size"],
            "agrees": "agrees" if each["agrees"] else "DIFFERS",
        }
        for each in compared
    ]
    held = Table("compared", ("source", "leaves", "agrees"), tuple(rows), len(rows))
    root = tree.get("root") or "unknown: leaves are missing"
    return _section(
        "Integrity",
        f"The tree over the first {tree.get('size', 0):,} leaves was computed anew from the"
        f" batches. Its root is {root}.",
        _table(held) if rows else "",
    )


def _span(result: Result) -> str:
    first, last = result.numbers.get("first"), result.numbers.get("last")
    if first is None:
        return "The log is empty."
    return f"Appended from {_cell(first)} to {_cell(last)}."


def _volume(table: Table) -> str:
    """Messages over time by topic; the smaller topics together."""
    by_topic: dict[str, int] = {}
    for row in table.rows:
        by_topic[row["topic"]] = by_topic.get(row["topic"], 0) + row["messages"]
    ranked = sorted(by_topic, key=lambda topic: (-by_topic[topic], topic))
    named, others = ranked[:SERIES_MAX], set(ranked[SERIES_MAX:])
    moments = _moments(table)
    place = {moment: number for number, moment in enumerate(moments)}
    series = {topic: [0] * len(moments) for topic in named}
    if others:
        series["others"] = [0] * len(moments)
    for row in table.rows:
        values = series["others" if row["topic"] in others else row["topic"]]
        values[place[row["at"]]] += row["messages"]
    labels = [_cell(moment)[:16] for moment in moments]
    top = [(topic, by_topic[topic]) for topic in ranked[:BARS_MAX]]
    return (
        stacked_bars(labels, series, label="Messages over time, by topic")
        + "<h3>Messages by topic</h3>"
        + bars(top, label="Messages by topic")
    )


def _moments(table: Table) -> list[datetime]:
    """Every step from the first to the last: an hour without messages is a gap in the chart."""
    seen = sorted({row["at"] for row in table.rows})
    if not seen:
        return []
    step = table.rows[0]["step_s"]
    count = int((seen[-1] - seen[0]).total_seconds() // step) + 1
    if count > 4 * len(seen) + 100:
        return seen
    every = {seen[0] + timedelta(seconds=step * number) for number in range(count)}
    return sorted(every | set(seen))


def _access(result: Result) -> str:
    table = result.tables["access"]
    published: dict[str, int] = {}
    for row in table.rows:
        if row["action"] == "publish":
            published[row["principal"]] = published.get(row["principal"], 0) + row["count"]
    ranked = sorted(published.items(), key=lambda pair: -pair[1])[:BARS_MAX]
    return _section(
        "Who did what",
        "Messages published, and decisions that allowed anything else.",
        bars(ranked, label="Messages published, by principal", colour=2),
        _table(table),
    )


def _denials(result: Result) -> str:
    table = result.tables["denials"]
    reasons: dict[str, int] = {}
    for row in table.rows:
        name = f"{row['principal']}: {row['reason']}"
        reasons[name] = reasons.get(name, 0) + row["count"]
    ranked = sorted(reasons.items(), key=lambda pair: -pair[1])[:BARS_MAX]
    return _section(
        "Denials",
        "What gatekeepers refused. A denial is no finding: it is what they are for.",
        bars(ranked, label="Denials by principal and reason", colour=1),
        _table(table),
        _named("Bursts", result.tables["bursts"], "None."),
    )


def _least_privilege(result: Result) -> str:
    table = result.tables.get("least_privilege")
    if table is None:
        return ""
    lines = "".join(
        f'<span class="{_diff_class(line)}">{escape(line)}</span>\n'
        for line in result.policy_diff.splitlines()
    )
    diff = (
        f"<h3>A policy without them</h3><p>To apply: <code>patch &lt; policy.diff</code>, then"
        f" <code>sidegate policy check</code>, which also runs its tests.</p><pre>{lines}</pre>"
        if lines
        else ""
    )
    return _section(
        "Least privilege",
        "Grants, and whether anybody used them. One that is younger than the window is not judged.",
        _table(table),
        diff,
    )


def _diff_class(line: str) -> str:
    return {"-": "gone", "+": "new"}.get(line[:1], "")


def _section(title: str, text: str, *content: str) -> str:
    return f"<section><h2>{escape(title)}</h2><p>{escape(text)}</p>{''.join(content)}</section>"


def _named(title: str, table: Table, nothing: str) -> str:
    if not table.total:
        return f"<h3>{escape(title)}</h3><p>{escape(nothing)}</p>"
    return f"<h3>{escape(title)}</h3>{_table(table)}"


def _table(table: Table, columns: Sequence[str] | None = None) -> str:
    if not table.total:
        return '<p class="soft">Nothing.</p>'
    names = columns or table.columns
    rows = table.rows[:ROWS_SHOWN_MAX]
    numeric = {name for name in names if any(isinstance(row[name], int | float) for row in rows)}
    head = "".join(
        f"<th{' class=number' if name in numeric else ''}>{escape(name.replace('_', ' '))}</th>"
        for name in names
    )
    body = "".join(
        "<tr>" + "".join(_td(name, row[name]) for name in names) + "</tr>" for row in rows
    )
    more = table.total - len(rows)
    note = f"<p class=soft>{more:,} more rows are in report.json.</p>" if more else ""
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead>{body}</table></div>{note}'


def _td(name: str, value: Any) -> str:
    kind = ""
    if isinstance(value, int | float) and not isinstance(value, bool):
        kind = " class=number"
    elif isinstance(value, datetime):
        kind = " class=time"
    elif name == "kind":
        kind = " class=kind"
    return f"<td{kind}>{escape(_cell(value))}</td>"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, list | tuple):
        return ", ".join(_cell(each) for each in value)
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(plain(value))
