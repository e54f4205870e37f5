"""How far every subscription has come: a fold over the core's log of cursors.

That log lies in one of two folders, which a small file names. A record is a whole cursor, or what
was acknowledged since the one before; an acknowledged range moves the low mark where it touches it.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from spark.control_state import Subscription
from spark.damage import Damage
from spark.small_log import Record, read_records

CURSORS_FOLDER: Final = "cursors"
_CURRENT: Final = "current"
_FOLDERS: Final = ("a", "b")


@dataclass(frozen=True, slots=True)
class Cursor:
    """A subscription's place in one partition; `acked_above` counts what is done above `low`."""

    owner: str
    subscription: str
    topic: str
    partition: int
    low: int
    acked_above: int
    redelivered: int
    expired: int


SCHEMA: Final = (
    "owner string, subscription string, topic string, partition int, low bigint,"
    " acked_above bigint, redelivered bigint, expired bigint"
)


def read_cursors(
    log: Path, subscriptions: Iterable[Subscription], on_damage: Callable[[Damage], None]
) -> list[Cursor]:
    """The cursors of the log in folder `log`."""
    folder = log / CURSORS_FOLDER
    try:
        current = (folder / _CURRENT).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        current = ""
    records = read_records(folder / current, on_damage) if current in _FOLDERS else iter(())
    return fold(records, subscriptions)


def fold(records: Iterable[Record], subscriptions: Iterable[Subscription]) -> list[Cursor]:
    """All records together, and the begin of subscriptions that have acknowledged nothing yet."""
    places: dict[tuple[int, int], _Place] = {}
    for record in records:
        for shown in _moved(record.value):
            key = int(shown["id"]), int(shown["partition"])
            place = places.get(key)
            if "low" in shown:
                place = places[key] = _Place(int(shown["low"]))
            if place is not None:
                place.acknowledge(shown.get("acked") or ())
                place.redelivered = int(shown.get("redelivered", 0))
                place.expired = int(shown.get("expired", 0))
    found = []
    for each in subscriptions:
        known = {
            partition: place for (number, partition), place in places.items() if number == each.id
        }
        for partition, low in enumerate(each.lows):
            known.setdefault(partition, _Place(low))
        found += [
            Cursor(
                each.owner, each.name, each.topic, partition, place.low, place.acked_above,
                place.redelivered, place.expired,
            )
            for partition, place in sorted(known.items())
        ]  # fmt: skip
    return found


class _Place:
    """One cursor while it is folded."""

    def __init__(self, low: int) -> None:
        self.low = low
        self.ranges: list[tuple[int, int]] = []
        self.redelivered = 0
        self.expired = 0

    @property
    def acked_above(self) -> int:
        return sum(last - first + 1 for first, last in self.ranges)

    def acknowledge(self, acked: Iterable[Iterable[int]]) -> None:
        ranges = sorted([*self.ranges, *((int(first), int(last)) for first, last in acked)])
        merged: list[tuple[int, int]] = []
        for first, last in ranges:
            if last < self.low:
                continue
            if first <= self.low:
                self.low = last + 1
            elif merged and first <= merged[-1][1] + 1:
                merged[-1] = merged[-1][0], max(merged[-1][1], last)
            else:
                merged.append((first, last))
        self.ranges = merged


def _moved(data: bytes) -> list[dict[str, Any]]:
    try:
        value = json.loads(data)
    except ValueError:
        return []
    if not isinstance(value, dict) or value.get("record") != "cursors":
        return []
    return [each for each in value.get("cursors") or () if "id" in each and "partition" in each]
