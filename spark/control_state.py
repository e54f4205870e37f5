"""What the core's control log says: topics with their retention, and subscriptions.

A fold over its records, or over its newest snapshot and the records after it. Reads the records by
itself (docs/format.md has the batches, the core the JSON): unknown kinds of record are left out,
because an audit that stops at what it does not know would check nothing else either.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from spark.damage import Damage
from spark.small_log import Record, read_records

CONTROL_FOLDER: Final = "control"
_RECORDS: Final = "_control"
_SNAPSHOTS: Final = "_control.snapshots"
_END: Final = b"end"


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as it was defined last. A deleted one keeps its rule: it explains what is gone."""

    name: str
    age_ms: int | None
    retention_bytes: int | None
    deleted: bool


@dataclass(frozen=True, slots=True)
class Subscription:
    """A durable subscription."""

    id: int
    owner: str
    name: str
    topic: str
    lows: tuple[int, ...]


@dataclass(slots=True)
class Control:
    """The state. `found` is False where there is no control log."""

    found: bool = False
    topics: dict[str, Topic] = field(default_factory=dict)
    subscriptions: dict[tuple[str, str], Subscription] = field(default_factory=dict)


def read_control(log: Path, on_damage: Callable[[Damage], None]) -> Control:
    """The control state of the log in folder `log`."""
    return fold(read_records(log / CONTROL_FOLDER, on_damage))


def fold(records: Iterable[Record]) -> Control:
    """All records together."""
    changes: list[tuple[int, Any]] = []
    snapshot: list[Any] = []
    pending: dict[bytes | None, list[Any]] = {}
    after = 0
    control = Control()
    for record in records:
        control.found = True
        value = _object(record.value)
        if record.topic == _RECORDS:
            changes.append((record.offset, value))
        elif record.topic == _SNAPSHOTS and record.id == _END:
            snapshot = pending.pop(record.key, [])
            after = int(value.get("next_offset", 0))
            pending.clear()
        elif record.topic == _SNAPSHOTS:
            pending.setdefault(record.key, []).append(value)
    # Records below the snapshot are history: they still tell of topics that were deleted since.
    for _offset, value in changes:
        if _offset < after:
            _apply(control, value)
    for value in snapshot:
        _apply(control, value)
    for offset, value in changes:
        if offset >= after:
            _apply(control, value)
    return control


def _object(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _apply(control: Control, value: dict[str, Any]) -> None:
    match value.get("record"):
        case "topic":
            topic = value.get("topic") or {}
            retention = topic.get("retention") or {}
            name = str(topic.get("name", ""))
            control.topics[name] = Topic(
                name, retention.get("age_ms"), retention.get("bytes"), deleted=False
            )
        case "topic_deleted":
            name = str(value.get("name", ""))
            known = control.topics.get(name, Topic(name, None, None, deleted=True))
            control.topics[name] = Topic(name, known.age_ms, known.retention_bytes, deleted=True)
        case "subscription":
            given = value.get("subscription") or {}
            made = Subscription(
                int(given.get("id", 0)),
                str(given.get("owner", "")),
                str(given.get("name", "")),
                str(given.get("topic", "")),
                tuple(int(low) for low in given.get("lows") or ()),
            )
            control.subscriptions[made.owner, made.name] = made
        case "subscription_deleted":
            key = str(value.get("owner", "")), str(value.get("name", ""))
            control.subscriptions.pop(key, None)
