"""Records of the log of cursors: what has changed of many cursors, as JSON and back. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import orjson

from core_log.subscriptions.cursor import Change, Place
from core_log.subscriptions.tries import Tries, history_json, parse_tries

CURSORS_PER_RECORD: Final = 256
"""Keeps one record at some ten kilobytes, where cursors have few ranges."""
HISTORIES_PER_RECORD: Final = 16
"""Of them with tries of messages: 4 MiB at most, far below the format's limit on a body."""

Key = tuple[int, int]
"""A subscription's id and a partition."""


def cursor_records(changes: Iterable[tuple[Key, Change | Place]]) -> Iterator[bytes]:
    """As few records as may be, in order."""
    moved: list[dict[str, object]] = []
    histories = 0
    for key, change in changes:
        moved.append(_shown(key, change))
        if change.history:
            histories += 1
        if len(moved) == CURSORS_PER_RECORD or histories == HISTORIES_PER_RECORD:
            yield orjson.dumps({"record": "cursors", "cursors": moved})
            moved, histories = [], 0
    if moved:
        yield orjson.dumps({"record": "cursors", "cursors": moved})


def _shown(key: Key, change: Change | Place) -> dict[str, object]:
    shown: dict[str, object] = {"id": key[0], "partition": key[1], "acked": change.acked}
    if isinstance(change, Place):
        shown["low"] = change.low
    if change.attempts is not None:
        shown["attempts"] = {str(offset): count for offset, count in change.attempts.items()}
    if change.history:
        shown["history"] = history_json(change.history)
    return shown | {"redelivered": change.redelivered, "expired": change.expired}


def parse_change(shown: Mapping[str, object]) -> Change | Place:
    """Read what one entry says. Raises LookupError, TypeError or ValueError."""
    acked = tuple((int(first), int(last)) for first, last in _listed(shown["acked"]))
    attempts = None
    if "attempts" in shown:
        given = shown["attempts"]
        if not isinstance(given, dict):
            raise TypeError("`attempts` must be an object")
        attempts = {int(offset): int(count) for offset, count in given.items()}
    redelivered, expired = int(str(shown["redelivered"])), int(str(shown["expired"]))
    history = _history(shown["history"]) if "history" in shown else {}
    if "low" in shown:
        low = int(str(shown["low"]))
        return Place(low, acked, attempts or {}, redelivered, expired, history)
    return Change(acked, attempts, redelivered, expired, history)


def _history(value: object) -> dict[int, Tries]:
    if not isinstance(value, dict):
        raise TypeError("`history` must be an object")
    return {int(offset): parse_tries(tries) if tries else () for offset, tries in value.items()}


def _listed(value: object) -> list[list[int]]:
    if not isinstance(value, list):
        raise TypeError("`acked` must be a list")
    return value
