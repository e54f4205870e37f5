"""What is wrong with a policy file: each problem with its line, all of them in one error.

Standard library only.
"""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

SUGGESTIONS_MAX: Final = 20
"""Names for which a near spelling is looked up in one file: a look-up over 10,000 names costs tens
of milliseconds, and whoever has that many misspelt names has another trouble."""
SHOWN_CHARS_MAX: Final = 80
"""How much of a wrong value is repeated in a problem, so that a message stays readable."""


@dataclass(frozen=True, slots=True, order=True)
class PolicyProblem:
    """One thing to put right: where it stands, and what to write instead."""

    line: int
    where: str
    text: str

    def __str__(self) -> str:
        return (
            f"{self.line}: {self.where}: {self.text}" if self.where else f"{self.line}: {self.text}"
        )


class PolicyError(Exception):
    """A policy file that can't take effect. `problems` are all that was found, in file order;
    `lines` are the same as texts, each with the file's name and its line."""

    def __init__(self, file: str, problems: Iterable[PolicyProblem]) -> None:
        self.file = file
        self.problems = tuple(sorted(set(problems)))
        self.lines = tuple(f"{file}:{problem}" for problem in self.problems)
        super().__init__("\n".join(self.lines))


@dataclass(slots=True)
class Problems:
    """Collects what is wrong while a file is read, so that one reading tells it all."""

    found: list[PolicyProblem] = field(default_factory=list)
    _suggestions_left: int = SUGGESTIONS_MAX

    def add(self, line: int, where: str, text: str) -> None:
        """Note one problem."""
        self.found.append(PolicyProblem(line, _printable(where), _printable(text)))

    def hint(self, name: str, known: Iterable[str]) -> str:
        """`; did you mean "x"?` where a known name is near, else nothing."""
        if self._suggestions_left <= 0:
            return ""
        self._suggestions_left -= 1
        close = difflib.get_close_matches(name[:SHOWN_CHARS_MAX], sorted(known), n=1)
        return f'; did you mean "{close[0]}"?' if close else ""


def shown(value: str) -> str:
    """A value as a message repeats it: quoted, and cut where it is long."""
    return f'"{value}"' if len(value) <= SHOWN_CHARS_MAX else f'"{value[:SHOWN_CHARS_MAX]}…"'


def _printable(text: str) -> str:
    """Nothing that ends a line or moves a terminal's cursor, whatever stood in the file."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
