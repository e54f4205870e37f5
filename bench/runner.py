"""Runs contenders in turn, again and again, and says how they compare.

Machines are shared and disks burst, so an absolute figure means little. Contenders take turns
within one run, each round gives one ratio, and the median of the rounds with its spread is what
counts.
"""

import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol, TextIO

RESULTS = Path(__file__).parent / "results"


class Contender(Protocol):
    """Something that can be measured. Entering starts what it needs, leaving stops it."""

    name: str

    def __enter__(self) -> "Contender": ...

    def __exit__(self, *error: object) -> None: ...

    def run(self) -> float:
        """One round; the figure, where more is better."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A ratio that must be reached: subject over peer, at least this."""

    subject: str
    peer: str
    at_least: float


@dataclass(frozen=True, slots=True)
class Ratio:
    """How the subject compares with the peer over all rounds."""

    subject: str
    peer: str
    median: float
    lowest: float
    highest: float
    at_least: float

    @property
    def reached(self) -> bool:
        """Whether the median reaches the bar."""
        return self.median >= self.at_least

    def __str__(self) -> str:
        verdict = "reached" if self.reached else "SHORT"
        return (
            f"{self.subject} / {self.peer}: {self.median:.2f}"
            f" ({self.lowest:.2f} to {self.highest:.2f}), bar {self.at_least:.2f}: {verdict}"
        )


def take_turns(
    contenders: Sequence[Contender], rounds: int, tell: Callable[[str], None]
) -> dict[str, list[float]]:
    """Run each contender once a round; the order turns round, so that none is always first."""
    figures: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    with ExitStack() as stack:
        for contender in contenders:
            stack.enter_context(contender)
        for number in range(rounds):
            turn = number % len(contenders)
            for contender in [*contenders[turn:], *contenders[:turn]]:
                figure = contender.run()
                figures[contender.name].append(figure)
                tell(f"round {number + 1}/{rounds} {contender.name}: {figure:,.1f}")
    return figures


def compare(figures: Mapping[str, Sequence[float]], bar: Bar) -> Ratio:
    """The ratio of each round, and their median and spread."""
    ratios = [a / b for a, b in zip(figures[bar.subject], figures[bar.peer], strict=True)]
    return Ratio(
        bar.subject,
        bar.peer,
        statistics.median(ratios),
        min(ratios),
        max(ratios),
        bar.at_least,
    )


def report(
    title: str,
    unit: str,
    figures: Mapping[str, Sequence[float]],
    ratios: Sequence[Ratio],
    out: TextIO = sys.stdout,
    folder: Path = RESULTS,
) -> bool:
    """Print the figures and ratios, write them as JSON; True if every bar was reached."""
    out.write(f"\n{title} ({unit})\n")
    for name, samples in figures.items():
        spread = f"{min(samples):,.1f} to {max(samples):,.1f}"
        out.write(f"  {name}: {statistics.median(samples):,.1f} ({spread})\n")
    out.writelines(f"  {ratio}\n" for ratio in ratios)
    folder.mkdir(parents=True, exist_ok=True)
    document = {
        "title": title,
        "unit": unit,
        "taken": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": {
            "cores": os.cpu_count(),
            "system": platform.system(),
            "python": platform.python_version(),
        },
        "figures": {name: list(samples) for name, samples in figures.items()},
        "ratios": [asdict(ratio) | {"reached": ratio.reached} for ratio in ratios],
    }
    (folder / f"{title.replace(' ', '-')}.json").write_text(json.dumps(document, indent=2) + "\n")
    return all(ratio.reached for ratio in ratios)
