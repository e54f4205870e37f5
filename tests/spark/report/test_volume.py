"""Totals and steps of time."""

from typing import Any

import pytest

from spark.report.volume import POINTS_MAX, step_s, totals, volume


@pytest.mark.parametrize("days", [0, 0.1, 1, 30, 365, 20_000])
def test_a_step_keeps_every_span_within_the_chart(days: float) -> None:
    assert days * 86_400 / step_s(days * 86_400) <= POINTS_MAX


def test_totals_and_steps_add_up(log: Any, batches: Any) -> None:
    log.add("a", [b"x"] * 3)
    log.add("b", removed=True)
    log.now_us += 90_000_000
    log.add("a")
    frame = batches()
    numbers = totals(frame)
    assert (numbers["messages"], numbers["batches"], numbers["topics"]) == (5, 3, 2)
    assert numbers["removed_bodies"] == 1
    rows = volume(frame).collect()
    assert sum(row.messages for row in rows) == 5
    assert len({row.at for row in rows}) == 2


def test_an_empty_log_has_zeros(log: Any, batches: Any) -> None:
    log.roll()
    assert totals(batches())["messages"] == 0
    assert volume(batches()).collect() == []
