"""docs/gatekeeper.md says what the code does: routes, limits, codes, records and metrics."""

import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from gatekeeper.api.problems import PROBLEMS
from gatekeeper.api.routes import ROUTES
from gatekeeper.audit.decisions import Ruling, record_of
from gatekeeper.config import LimitsConfig
from gatekeeper.identity.identity import Identity
from hosting.units import parse_bytes, parse_duration

PAGE = (Path(__file__).parents[2] / "docs" / "gatekeeper.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    """The text below a heading, up to the next."""
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def rows(title: str) -> list[list[str]]:
    lines = [line for line in section(title).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_every_route_stands_in_the_table_with_what_it_needs() -> None:
    assert rows("Routes") == [
        [f"`{route.method} {route.path}`", route.needs.value] for route in ROUTES
    ]


def test_every_limit_stands_in_the_table_with_its_default() -> None:
    told = {row[0].strip("`"): row[1] for row in rows("Limits")}
    limits = LimitsConfig()
    assert list(told) == [field.name for field in fields(limits)]
    for name, text in told.items():
        value = getattr(limits, name)
        read: Callable[[str], float] = parse_bytes if name.endswith("bytes_max") else parse_duration
        assert read(text) == value, name


@pytest.mark.parametrize("code", sorted({problem.code for _, problem in PROBLEMS}))
def test_every_code_of_a_problem_is_explained_with_its_status(code: str) -> None:
    lines = [line for line in rows("Answers that are not results") if f"`{code}`" in str(line)]
    statuses = {str(problem.status) for _, problem in PROBLEMS if problem.code == code}
    assert {line[0] for line in lines} >= statuses


def test_every_field_of_a_decision_is_explained() -> None:
    who = Identity("spiffe://e/a", bytes(32), "i", "u", "c", "s", "t", frozenset(), 1.0)
    ruling = Ruling(bytes(16), 1, True, "replay", "t", "p", "r", "allowed", "", bytes(32), who)
    told = re.findall(r"`(\w+)`", " ".join(row[0] for row in rows("The decision log")))
    assert set(told) == set(record_of(ruling, "g"))


async def test_every_metric_that_is_told_of_exists(mesh: Any) -> None:
    exported = {
        name
        for metric in mesh.gatekeeper.registry.collect()
        for name in (metric.name, f"{metric.name}_total", f"{metric.name}_info")
    }
    told = re.findall(r"`(sidegate_\w+)`", section("Readiness and metrics"))
    assert set(told) <= exported
    own = {
        metric.name
        for metric in mesh.gatekeeper.registry.collect()
        if metric.name.startswith("sidegate_gatekeeper_")
    }
    for name in own:
        assert name in PAGE or name.startswith("sidegate_gatekeeper_policy_"), name
