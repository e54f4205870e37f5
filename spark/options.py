"""The data source's options, as text from the user, checked all at once.

Pure. Offsets and times bound what is read; Spark filters nothing by itself here, so a reader that
honours these is what makes a narrow question cheap.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal

from log_format.errors import BadField
from log_format.topic import check_any_topic

Rows = Literal["messages", "batches"]
Verify = Literal["off", "hash", "tree"]
OnDamage = Literal["fail", "skip"]

_ROWS: Final = ("messages", "batches")
_VERIFY: Final = ("off", "hash", "tree")
_DAMAGE: Final = ("fail", "skip")
_UNTIL: Final = ("end", "synced")
_KNOWN: Final = frozenset(
    {"path", "topics", "from", "to", "columns", "verify", "rows", "damage", "until", "archive",
     "split_bytes", "leaves_per_trigger"}
)  # fmt: skip

SPLIT_BYTES_MIN: Final = 4096


class BadOptions(ValueError):
    """Options that can't be meant. The message lists every problem."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Which batches are wanted. Offsets are of each topic and partition; times are append times.

    The first bound is inclusive, the second exclusive; None is no bound.
    """

    topics: frozenset[str] | None = None
    first_offset: int | None = None
    end_offset: int | None = None
    since_us: int | None = None
    until_us: int | None = None


@dataclass(frozen=True, slots=True)
class Options:
    """What one read is asked for."""

    path: str
    bounds: Bounds = Bounds()
    columns: tuple[str, ...] | None = None
    verify: Verify = "hash"
    rows: Rows = "messages"
    damage: OnDamage = "fail"
    synced_only: bool = False
    archive: str | None = None
    split_bytes: int | None = None
    leaves_per_trigger: int | None = None


def parse_options(given: Mapping[str, str]) -> Options:
    """Read the options, or raise BadOptions."""
    problems: list[str] = []
    options = {name.lower(): value.strip() for name, value in given.items()}
    problems.extend(
        f"{name}: there is no such option; there are {', '.join(sorted(_KNOWN))}"
        for name in sorted(options.keys() - _KNOWN)
    )
    if not options.get("path"):
        problems.append("path: name the log's folder, as in .load('.sidegate/data/core')")
    first_offset, since_us = _bound("from", options.get("from"), "earliest", problems)
    end_offset, until_us = _bound("to", options.get("to"), "latest", problems)
    chosen = {
        name: _choice(name, options.get(name), choices, problems)
        for name, choices in (
            ("verify", ("hash", *_VERIFY)),
            ("rows", _ROWS),
            ("damage", _DAMAGE),
            ("until", _UNTIL),
        )
    }
    result = Options(
        path=options.get("path", ""),
        bounds=Bounds(
            _topics(options.get("topics"), problems), first_offset, end_offset, since_us, until_us
        ),
        columns=_names(options.get("columns")),
        verify=chosen["verify"],  # type: ignore[arg-type]
        rows=chosen["rows"],  # type: ignore[arg-type]
        damage=chosen["damage"],  # type: ignore[arg-type]
        synced_only=chosen["until"] == "synced",
        archive=options.get("archive") or None,
        split_bytes=_number("split_bytes", options, SPLIT_BYTES_MIN, problems),
        leaves_per_trigger=_number("leaves_per_trigger", options, 1, problems),
    )
    if problems:
        raise BadOptions("; ".join(problems))
    return result


def parse_time(text: str) -> int:
    """Microseconds of an ISO 8601 time; one without a zone is UTC. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def _bound(
    name: str, text: str | None, unbounded: str, problems: list[str]
) -> tuple[int | None, int | None]:
    if not text or text == unbounded:
        return None, None
    if text.isascii() and text.isdigit():
        return int(text), None
    try:
        return None, parse_time(text)
    except ValueError:
        problems.append(
            f"{name}: {text!r} is neither {unbounded!r}, an offset such as 1000, nor a time such as"
            " 2026-01-31T12:00:00Z"
        )
        return None, None


def _choice(name: str, text: str | None, choices: tuple[str, ...], problems: list[str]) -> str:
    if not text:
        return choices[0]
    if text not in choices:
        problems.append(f"{name}: {text!r} is none of {', '.join(sorted(set(choices)))}")
    return text


def _names(text: str | None) -> tuple[str, ...] | None:
    names = tuple(name.strip() for name in (text or "").split(",") if name.strip())
    return names or None


def _topics(text: str | None, problems: list[str]) -> frozenset[str] | None:
    names = _names(text)
    for name in names or ():
        try:
            check_any_topic(name)
        except BadField as error:
            problems.append(f"topics: {name!r} {error.args[0].removeprefix('topic: ')}")
    return frozenset(names) if names else None


def _number(name: str, options: Mapping[str, str], least: int, problems: list[str]) -> int | None:
    text = options.get(name)
    if not text:
        return None
    if not (text.isascii() and text.isdigit()) or int(text) < least:
        problems.append(f"{name}: {text!r} is not a whole number of at least {least}")
        return None
    return int(text)
