"""Subscriptions: what one is, which definitions are legal, and what create and alter decide.

Pure: values in, values or typed errors out. May import topics and a stream's places to begin; must
never know of members, cursors, HTTP or the control log that keeps what is decided here.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from core_log.api.stream_messages import Start
from core_log.control.topics import Topic

Mode = Literal["ordered", "fcfs"]

SUBSCRIPTIONS_MAX: Final = 10_000
"""Keeps the control state, which every open reads whole, at some megabytes."""
OWNER_SUBSCRIPTIONS_MAX: Final = 1_000
"""One principal can't use up what is there for all."""
LEASE_MS_MIN: Final = 1_000
"""Below this a pause of the collector or a slow disk would look like a dead member."""
LEASE_MS_MAX: Final = 600_000
"""What a dead member holds must not wait for hours."""
LEASE_MS: Final = 30_000
SETTINGS_BYTES_MAX: Final = 32 * 1024
"""Filter, headers, retry and dead letter of a push come to a few hundred bytes."""
OWNER_SETTINGS_BYTES_MAX: Final = 4 * 1024 * 1024
"""Of all subscriptions of one owner together: their list is one answer."""
ALL_SETTINGS_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of all subscriptions together: they are in memory, and in every snapshot."""


class SubscriptionError(Exception):
    """A request about a subscription that can't be granted."""


class BadSubscription(SubscriptionError):
    """A definition, name or place that is not legal; the message lists every problem."""


class UnknownSubscription(SubscriptionError):
    """The owner has no subscription of this name."""

    def __init__(self, owner: str, name: str) -> None:
        super().__init__(
            f"{owner} has no subscription {name!r}; create it with POST /v1/subscriptions"
        )
        self.members = {"subscription": name, "owner": owner}


class SubscriptionExists(SubscriptionError):
    """The owner has a subscription of this name with another definition."""

    def __init__(self, owner: str, name: str, differs: Sequence[str]) -> None:
        super().__init__(
            f"subscription {name!r} of {owner} exists and differs in {', '.join(differs)}; "
            "alter it, delete it first, or choose another name"
        )
        self.members = {"subscription": name, "owner": owner, "differs": list(differs)}


class SubscriptionChanged(SubscriptionError):
    """The caller's version is not the subscription's."""

    def __init__(self, name: str, version: int) -> None:
        super().__init__(
            f"subscription {name!r} is at version {version}; read it again and repeat the change"
        )
        self.members = {"subscription": name, "version": version}


class TopicMismatch(SubscriptionError):
    """A gatekeeper decided about another topic than the subscription's."""

    def __init__(self, name: str, topic: str) -> None:
        super().__init__(
            f"subscription {name!r} is on {topic!r} now; ask again, so that this is decided about"
        )
        self.members = {"subscription": name, "topic": topic}


class NotDurable(SubscriptionError):
    """The topic stores nothing."""

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"{topic!r} is a memory topic, which stores nothing: read it with a plain stream, or "
            "create a topic with storage disk"
        )
        self.members = {"topic": topic}


class TooManySubscriptions(SubscriptionError):
    """A limit on subscriptions is reached."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a caller says about a new subscription. `mode` None is what the topic suggests."""

    name: str
    topic: str
    start: Start = "latest"
    mode: Mode | None = None
    lease_ms: int = LEASE_MS
    push: bool = False
    settings: bytes = b"{}"


@dataclass(frozen=True, slots=True)
class Alteration:
    """What a caller wants to alter; None leaves a field as it is."""

    mode: Mode | None = None
    lease_ms: int | None = None
    push: bool | None = None
    settings: bytes | None = None
    paused: bool | None = None


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscription as the control log keeps it.

    `id` is its version when it was created: never used twice, so that a cursor can't be taken for
    that of another one of the same name. `lows` is where each partition began; one that the topic
    gained later begins with its first message. `settings` is JSON that only sidecars read.
    """

    id: int
    owner: str
    name: str
    topic: str
    mode: Mode
    start: Start
    lease_ms: int
    push: bool
    settings: bytes
    lows: tuple[int, ...]
    created_us: int
    version: int
    paused: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """Owner and name."""
        return self.owner, self.name

    @property
    def lease_s(self) -> float:
        """The lease in seconds."""
        return self.lease_ms / 1000

    def low(self, partition: int, topic: Topic) -> int:
        """Where a partition of the topic begins for this subscription."""
        if partition < len(self.lows):
            return self.lows[partition]
        return topic.first_offsets[partition]


def mode_of(wanted: Wanted, topic: Topic) -> Mode:
    """What was asked for, or what the topic suggests. Raises NotDurable."""
    if topic.definition.storage == "memory":
        raise NotDurable(topic.name)
    if wanted.mode is not None:
        return wanted.mode
    return "fcfs" if topic.definition.delivery == "fcfs" else "ordered"


def compare(existing: Subscription, wanted: Wanted, topic: Topic) -> None:
    """Raise SubscriptionExists unless the existing one is the one that is wanted."""
    have: dict[str, object] = {
        "topic": existing.topic,
        "mode": existing.mode,
        "from": existing.start,
        "lease_ms": existing.lease_ms,
        "push": existing.push,
        "settings": existing.settings,
    }
    want: dict[str, object] = {
        "topic": wanted.topic,
        "mode": mode_of(wanted, topic),
        "from": wanted.start,
        "lease_ms": wanted.lease_ms,
        "push": wanted.push,
        "settings": wanted.settings,
    }
    if differs := [name for name in have if have[name] != want[name]]:
        raise SubscriptionExists(existing.owner, existing.name, differs)


def create(
    wanted: Wanted,
    owner: str,
    topic: Topic,
    *,
    lows: Sequence[int],
    now_us: int,
    version: int,
) -> Subscription:
    """The subscription to record. Raises NotDurable."""
    return Subscription(
        id=version,
        owner=owner,
        name=wanted.name,
        topic=topic.name,
        mode=mode_of(wanted, topic),
        start=wanted.start,
        lease_ms=wanted.lease_ms,
        push=wanted.push,
        settings=wanted.settings,
        lows=tuple(lows),
        created_us=now_us,
        version=version,
    )


def alter(
    existing: Subscription, change: Alteration, *, if_version: int | None, version: int
) -> Subscription | None:
    """The subscription to record, or None where nothing changes."""
    check_version(existing, if_version)
    new = replace(
        existing,
        mode=change.mode or existing.mode,
        lease_ms=existing.lease_ms if change.lease_ms is None else change.lease_ms,
        push=existing.push if change.push is None else change.push,
        settings=existing.settings if change.settings is None else change.settings,
        paused=existing.paused if change.paused is None else change.paused,
    )
    return None if new == existing else replace(new, version=version)


def check_room(others: Collection[Subscription], new: Subscription) -> None:
    """Raise TooManySubscriptions unless there is room for one more, or for its new settings."""
    mine = [each for each in others if each.owner == new.owner and each.name != new.name]
    rest = [each for each in others if each.key != new.key]
    for kept, whose, count_max, bytes_max in (
        (mine, new.owner, OWNER_SUBSCRIPTIONS_MAX, OWNER_SETTINGS_BYTES_MAX),
        (rest, "this core", SUBSCRIPTIONS_MAX, ALL_SETTINGS_BYTES_MAX),
    ):
        if len(kept) >= count_max:
            raise TooManySubscriptions(
                f"{whose} has {len(kept)} subscriptions and the limit is {count_max}; delete some"
            )
        if sum(len(each.settings) for each in kept) + len(new.settings) > bytes_max:
            raise TooManySubscriptions(
                f"the settings of all subscriptions of {whose} would come to more than "
                f"{bytes_max} bytes; delete some, or make their settings smaller"
            )


def check_version(existing: Subscription, if_version: int | None) -> None:
    """Raise SubscriptionChanged unless this is the version that is meant."""
    if if_version is not None and if_version != existing.version:
        raise SubscriptionChanged(existing.name, existing.version)
