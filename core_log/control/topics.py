"""Topics: what one is, which definitions are legal, and what create, alter and delete decide.

Pure: values in, values or typed errors out. May import `log_format`; must never know of files,
HTTP or the control log that keeps what is decided here.

Invariant: an offset of a name is never used twice. A topic that is created again under the name
of a deleted one begins where that one ended (`first_offsets`), so that a reader's old position
can't meet a message that it was never meant for.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from log_format.topic import is_system_topic

Strategy = Literal["key", "round_robin", "sticky"]
Storage = Literal["disk", "memory"]
Delivery = Literal["broadcast", "fcfs"]

AUDIT_TOPIC: Final = "_audit"
"""The gatekeepers' decision log. It always exists and can't be deleted."""

TOPICS_MAX: Final = 10_000
"""Keeps the control state, which every open reads whole, at a few megabytes."""
PARTITIONS_MAX: Final = 1024
"""Each partition costs an index entry and a cursor per subscription; order is per key anyway."""


class TopicError(Exception):
    """A request about a topic that can't be granted."""


class BadTopic(TopicError):
    """A definition or name that is not legal; the message lists every problem."""


class UnknownTopic(TopicError):
    """No topic has this name."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"there is no topic {name!r}; create it first: sidegate topics create {name}"
        )
        self.members = {"topic": name}


class TopicExists(TopicError):
    """A topic of this name exists with another definition."""

    def __init__(self, name: str, differs: Sequence[str]) -> None:
        super().__init__(
            f"topic {name!r} exists and differs in {', '.join(differs)}; "
            f"alter it (sidegate topics alter {name}), or choose another name"
        )
        self.members = {"topic": name, "differs": list(differs)}


class TopicChanged(TopicError):
    """The caller's version is not the topic's."""

    def __init__(self, name: str, version: int) -> None:
        super().__init__(
            f"topic {name!r} is at version {version}; read it again and repeat the change"
        )
        self.members = {"topic": name, "version": version}


class TooManyTopics(TopicError):
    """The limit on topics is reached."""


@dataclass(frozen=True, slots=True)
class Retention:
    """How long bodies are kept: by age since their append, by bytes, or for ever (None)."""

    age_ms: int | None = None
    bytes: int | None = None


RETENTION_FIELDS: Final = ("age_ms", "bytes")


@dataclass(frozen=True, slots=True)
class Definition:
    """What a caller says about a topic."""

    name: str
    partitions: int = 1
    strategy: Strategy = "key"
    retention: Retention = Retention()
    storage: Storage = "disk"
    delivery: Delivery = "broadcast"


@dataclass(frozen=True, slots=True)
class Change:
    """What a caller wants to alter; None leaves a field as it is.

    `retention` has the limits to change, where None lifts one; a limit that is absent stays.
    """

    partitions: int | None = None
    strategy: Strategy | None = None
    retention: Mapping[str, int | None] = field(default_factory=dict)
    delivery: Delivery | None = None


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as the control log keeps it.

    `version` rises with every change of any topic and is never used twice. `first_offsets` has
    one entry per partition: no message below it belongs to this topic.
    """

    definition: Definition
    created_us: int
    version: int
    first_offsets: tuple[int, ...]

    @property
    def name(self) -> str:
        """The topic's name."""
        return self.definition.name

    @property
    def partitions(self) -> int:
        """How many partitions it has."""
        return self.definition.partitions


Ends = Callable[[int], int]
"""The offset that the next message of a partition of this name will get."""


def create(
    existing: Topic | None,
    wanted: Definition,
    *,
    topics: int,
    now_us: int,
    version: int,
    ends: Ends,
) -> Topic | None:
    """The topic to record, or None where exactly this one exists. Raises TopicExists."""
    if existing is not None:
        if differs := _differences(existing.definition, wanted):
            raise TopicExists(wanted.name, differs)
        return None
    if topics >= TOPICS_MAX:
        raise TooManyTopics(f"{topics} topics exist and the limit is {TOPICS_MAX}; delete some")
    return Topic(wanted, now_us, version, tuple(ends(index) for index in range(wanted.partitions)))


def alter(
    existing: Topic, change: Change, *, if_version: int | None, version: int, ends: Ends
) -> Topic | None:
    """The topic to record, or None where nothing changes."""
    if if_version is not None and if_version != existing.version:
        raise TopicChanged(existing.name, existing.version)
    old = existing.definition
    partitions = old.partitions if change.partitions is None else change.partitions
    if partitions < old.partitions:
        raise BadTopic(
            f"partitions: topic {old.name!r} has {old.partitions} and they can only grow, "
            f"since {partitions} would lose messages and the order of keys"
        )
    if is_system_topic(old.name) and partitions != old.partitions:
        raise BadTopic(f"partitions: those of the system's topic {old.name!r} are fixed")
    retention = replace(old.retention, **change.retention)
    if old.storage == "memory" and retention != Retention():
        raise BadTopic(f"retention: {old.name!r} is a memory topic, which stores nothing")
    new = replace(
        old,
        partitions=partitions,
        strategy=change.strategy or old.strategy,
        retention=retention,
        delivery=change.delivery or old.delivery,
    )
    if new == old:
        return None
    grown = tuple(ends(index) for index in range(old.partitions, partitions))
    return replace(
        existing, definition=new, version=version, first_offsets=existing.first_offsets + grown
    )


def check_delete(existing: Topic, *, if_version: int | None) -> None:
    """Raise unless this topic may be deleted."""
    if is_system_topic(existing.name):
        raise BadTopic(f"name: {existing.name!r} is the system's and can't be deleted")
    if if_version is not None and if_version != existing.version:
        raise TopicChanged(existing.name, existing.version)


def _differences(have: Definition, wanted: Definition) -> list[str]:
    names = ("partitions", "strategy", "retention", "storage", "delivery")
    return [name for name in names if getattr(have, name) != getattr(wanted, name)]
