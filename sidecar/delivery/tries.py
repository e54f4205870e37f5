"""The failed tries of a message, which outlive the member that made them.

Pure. A member tells the log of each try that failed, and gets the tries of those before it with
the messages that it is given. Knows the wire's form of a try, and nothing of the message itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

HISTORY_MAX: Final = 100
"""Tries of one message that are remembered, by the log too; max_attempts is at most this."""
FIRST_TRIES_KEPT: Final = 10
"""Of them the first, which show how it began; what is dropped lies behind these."""
ERROR_BYTES_MAX: Final = 200
"""Of each try's error; the wire takes no more."""
NOT_TOLD: Final = "counted while another member held the message; what became of it was not told"
"""The error of a try that nobody told of: its member was killed, or lost its connection."""


@dataclass(frozen=True, slots=True)
class Try:
    """One failed try: when, and what came of it. `status` is None where no answer came."""

    number: int
    at_us: int
    status: int | None
    error: str


def cut_error(text: str) -> str:
    """As much of an error as a try may have."""
    return text.encode("utf-8", "replace")[:ERROR_BYTES_MAX].decode("utf-8", "ignore")


def bounded(tries: Sequence[Try]) -> tuple[Try, ...]:
    """The first few tries and the newest, where they are too many."""
    if len(tries) <= HISTORY_MAX:
        return tuple(tries)
    return (*tries[:FIRST_TRIES_KEPT], *tries[FIRST_TRIES_KEPT - HISTORY_MAX :])


def tries_not_told(known: Sequence[Try], attempts: int, now_us: int) -> tuple[Try, ...]:
    """The tries behind the known ones that were counted, and that nobody told of.

    The log counts one for whatever a lost member had in hand. `now_us` is when that is found out.
    """
    told = known[-1].number if known else 0
    first = max(told + 1, attempts - HISTORY_MAX + 1)
    return tuple(Try(number, now_us, None, NOT_TOLD) for number in range(first, attempts + 1))


def parse_history(control: Mapping[str, Any]) -> dict[int, tuple[Try, ...]]:
    """The tries that a message of the wire tells of, by offset; none where it has no history."""
    if "history" not in control:
        return {}
    return {
        int(offset): bounded([_parse_try(each) for each in tries])
        for offset, tries in control["history"].items()
    }


def _parse_try(row: Mapping[str, Any]) -> Try:
    status = None if row["status"] is None else int(row["status"])
    return Try(int(row["number"]), int(row["at_us"]), status, cut_error(str(row["error"])))
