"""The page: verdict first, everything escaped, nothing loaded."""

import re
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any

import pytest

from spark.report.page import ROWS_SHOWN_MAX, render
from spark.report.result import Result, Table

NOW = datetime(2026, 1, 1, tzinfo=UTC)
EVIL = "<img src=x onerror=alert(1)>\"'&</td></script>"
FINDING = {
    "check": "completeness", "kind": "body_hash", "topic": EVIL, "partition": 0,
    "first_offset": 77, "last_offset": 78, "leaf": 5, "file": "0.seg", "position": 64, "text": EVIL,
}  # fmt: skip


def held(name: str, *rows: dict[str, Any], columns: tuple[str, ...] = ("x",)) -> Table:
    return Table(name, tuple(rows[0]) if rows else columns, rows, len(rows))


@pytest.fixture
def report() -> Any:
    def make(*findings: dict[str, Any]) -> Result:
        access = {"principal": EVIL, "topic": EVIL, "action": "publish", "count": 3, "bytes": 1}
        volume = {"at": NOW, "step_s": 60, "topic": EVIL, "messages": 3, "bytes": 9}
        denial = {"principal": EVIL, "reason": EVIL, "topics": [EVIL], "count": 2}
        privilege = {"rule": EVIL, "subject": EVIL, "uses": 0, "verdict": "unused"}
        tables = {
            "findings": held("findings", *findings),
            "unchecked": held("unchecked", {"what": EVIL, "why": EVIL}),
            "volume": held("volume", volume),
            "access": held("access", access),
            "denials": held("denials", denial),
            "least_privilege": held("least_privilege", privilege),
            **{
                name: held(name)
                for name in ("bursts", "delivery", "dead_letters", "anomalies", "retention")
            },
        }
        tree = {
            "size": 5,
            "root": "ab",
            "compared": [{"source": EVIL, "size": 5, "agrees": False}],
        }
        numbers = {"messages": 3, "batches": 1, "first": NOW, "last": NOW}
        return Result(EVIL, "00", NOW, None, numbers, tree, tables, f"-{EVIL}\n+[]\n")

    return make


class Tags(HTMLParser):
    """Which elements and attributes a page has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}


def test_the_verdict_comes_first_then_the_findings_with_offsets(report: Any) -> None:
    page = render(report(FINDING))
    assert page.index("There is 1 finding") < page.index("body_hash") < page.index("Who did what")
    assert ">77<" in page
    assert ">78<" in page


def test_a_sound_log_says_so(report: Any) -> None:
    page = render(report())
    assert 'class="verdict sound"' in page
    assert "The log is sound" in page


def test_whatever_comes_from_the_log_is_escaped(report: Any) -> None:
    page = render(report(FINDING))
    tags = Tags(page)
    assert not tags.names & {"script", "img", "iframe", "object", "a"}
    assert not {name for name in tags.attributes if name.startswith("on")}
    assert "<img" not in page


def test_the_page_loads_nothing(report: Any) -> None:
    page = render(report(FINDING))
    assert not Tags(page).attributes & {"src", "href", "srcset", "action"}
    assert "default-src 'none'" in page
    assert not re.search(r"https?://", page)


def test_long_tables_are_cut_and_say_so(report: Any) -> None:
    page = render(report(*([FINDING] * (ROWS_SHOWN_MAX + 5))))
    assert page.count("body_hash") == ROWS_SHOWN_MAX
    assert "5 more rows are in report.json" in page
