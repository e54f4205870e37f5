"""Records of the log of cursors: what has changed of many cursors, as JSON and back. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import orjson

from core_log.subscriptions.cursor import Change, Place

CURSORS_PER_RECORD: Final = 256
"""Keeps one record at some ten kilobytes, where cursors have few ranges."""

Key = tuple[int, int]
"""A subscription's id and a partition."""


def cursor_records(changes: Iterable[tuple[Key, Change | Place]]) -> Iterator[bytes]:
    """As few records as may be, in order."""
    listed = list(changes)
    for first in range(0, len(listed), CURSORS_PER_RECORD):
        moved = [_shown(*each) for each in listed[first : first + CURSORS_PER_RECORD]]
        yield orjson.dumps({"record": "cursors", "cursors": moved})


def _shown(key: Key, change: Change | Place) -> dict[str, object]:
    shown: dict[str, object] = {"id": key[0], "partition": key[1], "acked": change.acked}
    if isinstance(change, Place):
        shown["low"] = change.low
    if change.attempts is not None:
        shown["attempts"] = {str(offset): count for offset, count in change.attempts.items()}
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
    if "low" in shown:
        return Place(int(str(shown["low"])), acked, attempts or {}, redelivered, expired)
    return Change(acked, attempts, redelivered, expired)


def _listed(value: object) -> list[list[int]]:
    if not isinstance(value, list):
        raise TypeError("`acked` must be a list")
    return value
