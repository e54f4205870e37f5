"""Contenders take turns, and a ratio below its bar is called short."""

import io
import json
from pathlib import Path

from bench.runner import Bar, Contender, compare, report, take_turns


class Recorded:
    def __init__(self, name: str, figures: list[float], journal: list[str]) -> None:
        self.name, self.figures, self.journal = name, figures, journal

    def __enter__(self) -> Contender:
        self.journal.append(f"start {self.name}")
        return self

    def __exit__(self, *error: object) -> None:
        self.journal.append(f"stop {self.name}")

    def run(self) -> float:
        self.journal.append(self.name)
        return self.figures.pop(0)


def test_contenders_take_turns_and_none_is_always_first() -> None:
    journal: list[str] = []
    contenders = [Recorded("a", [1, 2], journal), Recorded("b", [2, 2], journal)]
    figures = take_turns(contenders, 2, lambda _line: None)
    assert journal == ["start a", "start b", "a", "b", "b", "a", "stop b", "stop a"]
    assert figures == {"a": [1, 2], "b": [2, 2]}


def test_the_ratio_is_the_median_of_the_rounds_and_shows_its_spread(tmp_path: Path) -> None:
    figures = {"a": [8.0, 9.0, 4.0], "b": [10.0, 10.0, 10.0]}
    good = compare(figures, Bar("a", "b", 0.8))
    assert (good.median, good.lowest, good.highest) == (0.8, 0.4, 0.9)
    short = compare(figures, Bar("a", "b", 0.81))
    out = io.StringIO()
    assert not report("some title", "MB/s", figures, [good, short], out, tmp_path)
    assert "SHORT" in out.getvalue()
    written = json.loads((tmp_path / "some-title.json").read_text())
    assert [ratio["reached"] for ratio in written["ratios"]] == [True, False]
