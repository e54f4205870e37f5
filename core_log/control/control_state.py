"""The control state: everything that the core knows besides messages, as a fold over records.

Pure. A record is a fact that was decided before it was written; applying it can't fail and
depends on nothing but the records before it. `snapshot` turns a state into few records whose
fold is that state again. Cursors are not here: they move with every acknowledgement and have a log
of their own (`cursor_log`).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Generic, TypeVar

import orjson

from core_log.control.channels import BadChannel, Channel, channel_record, parse_channel_record
from core_log.control.json_fields import Fields
from core_log.control.revocations import (
    BadRevocation,
    Revocation,
    parse_revocation_record,
    revocation_record,
)
from core_log.control.topic_json import parse_topic_record, topic_record
from core_log.control.topics import BadTopic, Topic
from core_log.subscriptions.subscription_json import parse_subscription_record, subscription_record
from core_log.subscriptions.subscriptions import BadSubscription, Subscription
from log_format.errors import BadField
from log_format.limits import NAME_BYTES_MAX
from log_format.topic import check_any_topic

K = TypeVar("K")
V = TypeVar("V")

_UNREADABLE: Final = (BadTopic, BadRevocation, BadSubscription, BadChannel, BadField)


class BadRecord(Exception):
    """A control record that this program can't read."""


@dataclass(frozen=True, slots=True)
class TopicPut:
    """A topic was created or altered; this is now its whole definition."""

    topic: Topic


@dataclass(frozen=True, slots=True)
class TopicDeleted:
    """A topic is gone, and its subscriptions with it."""

    name: str


@dataclass(frozen=True, slots=True)
class SubscriptionPut:
    """A subscription was created or altered; this is now its whole definition."""

    subscription: Subscription


@dataclass(frozen=True, slots=True)
class SubscriptionDeleted:
    """A subscription is gone."""

    owner: str
    name: str


@dataclass(frozen=True, slots=True)
class ChannelPut:
    """A channel was created or replaced."""

    channel: Channel


@dataclass(frozen=True, slots=True)
class ChannelDeleted:
    """A channel is gone."""

    owner: str
    id: str


@dataclass(frozen=True, slots=True)
class Revoked:
    """Something is to be refused from now on."""

    revocation: Revocation


@dataclass(frozen=True, slots=True)
class Versions:
    """Numbers that must outlive what they were given to; written by snapshots only."""

    version: int
    revocations: int


Fact = (
    TopicPut
    | TopicDeleted
    | Revoked
    | SubscriptionPut
    | SubscriptionDeleted
    | ChannelPut
    | ChannelDeleted
    | Versions
)
RevocationKey = tuple[str, str, str | None]
OwnedKey = tuple[str, str]
"""An owner, and the name of something of its own."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Who asked for a change, and which decision of a gatekeeper allowed it."""

    principal: str | None = None
    decision: str | None = None


NOBODY: Final = Cause()
"""The core itself."""


@dataclass(frozen=True, slots=True)
class Record:
    """One entry of the control log."""

    fact: Fact
    at_us: int
    cause: Cause = NOBODY


@dataclass(frozen=True, slots=True)
class ControlState:
    """What all records together say.

    `version` is that of the last change of any kind; `revocations_version` that of the newest
    revocation, also where that has expired since.
    """

    topics: Mapping[str, Topic] = field(default_factory=lambda: MappingProxyType({}))
    revocations: Mapping[RevocationKey, Revocation] = field(
        default_factory=lambda: MappingProxyType({})
    )
    version: int = 0
    revocations_version: int = 0
    subscriptions: Mapping[OwnedKey, Subscription] = field(
        default_factory=lambda: MappingProxyType({})
    )
    channels: Mapping[OwnedKey, Channel] = field(default_factory=lambda: MappingProxyType({}))


EMPTY: Final = ControlState()


def apply(state: ControlState, facts: Iterable[Fact]) -> ControlState:
    """The state after `facts`; `state` stays as it was. Copies only what changes, and once."""
    topics, revocations = _Copied(state.topics), _Copied(state.revocations)
    subscriptions, channels = _Copied(state.subscriptions), _Copied(state.channels)
    version = state.version
    revocations_version = state.revocations_version
    for fact in facts:
        match fact:
            case TopicPut(topic):
                topics.own()[topic.name] = topic
                version = max(version, topic.version)
            case TopicDeleted(name):
                topics.own().pop(name, None)
                for key in [k for k, each in subscriptions.now.items() if each.topic == name]:
                    del subscriptions.own()[key]
                version += 1
            case SubscriptionPut(subscription):
                subscriptions.own()[subscription.key] = subscription
                version = max(version, subscription.version)
            case SubscriptionDeleted(owner, name):
                subscriptions.own().pop((owner, name), None)
                version += 1
            case ChannelPut(channel):
                channels.own()[channel.key] = channel
                version = max(version, channel.version)
            case ChannelDeleted(owner, name):
                channels.own().pop((owner, name), None)
                version += 1
            case Revoked(revocation):
                revocations.own()[revocation.key] = revocation
                version = max(version, revocation.version)
                revocations_version = max(revocations_version, revocation.version)
            case Versions():
                version = max(version, fact.version)
                revocations_version = max(revocations_version, fact.revocations)
    return ControlState(
        topics.shown(),
        revocations.shown(),
        version,
        revocations_version,
        subscriptions.shown(),
        channels.shown(),
    )


class _Copied(Generic[K, V]):
    """A mapping that is copied when it is first written to."""

    __slots__ = ("_mine", "now")

    def __init__(self, given: Mapping[K, V]) -> None:
        self.now = given
        self._mine: dict[K, V] | None = None

    def own(self) -> dict[K, V]:
        if self._mine is None:
            self.now = self._mine = dict(self.now)
        return self._mine

    def shown(self) -> Mapping[K, V]:
        return self.now if self._mine is None else MappingProxyType(self._mine)


def snapshot(state: ControlState, *, now_us: int) -> Iterator[Fact]:
    """Facts whose fold over an empty state is `state`, without what may be forgotten by now."""
    for topic in state.topics.values():
        yield TopicPut(topic)
    for revocation in state.revocations.values():
        if not revocation.forgettable(now_us):
            yield Revoked(revocation)
    for subscription in state.subscriptions.values():
        yield SubscriptionPut(subscription)
    for channel in state.channels.values():
        yield ChannelPut(channel)
    yield Versions(state.version, state.revocations_version)


def encode_record(record: Record) -> bytes:
    """A record as JSON."""
    value: dict[str, object] = {"at_us": record.at_us}
    match record.fact:
        case TopicPut(topic):
            value |= {"record": "topic", "topic": topic_record(topic)}
        case TopicDeleted(name):
            value |= {"record": "topic_deleted", "name": name}
        case SubscriptionPut(subscription):
            shown = subscription_record(subscription)
            value |= {"record": "subscription", "subscription": shown}
        case SubscriptionDeleted(owner, name):
            value |= {"record": "subscription_deleted", "owner": owner, "name": name}
        case ChannelPut(channel):
            value |= {"record": "channel", "channel": channel_record(channel)}
        case ChannelDeleted(owner, name):
            value |= {"record": "channel_deleted", "owner": owner, "name": name}
        case Revoked(revocation):
            value |= {"record": "revoked", "revocation": revocation_record(revocation)}
        case Versions(version, revocations):
            value |= {"record": "versions", "version": version, "revocations": revocations}
    if record.cause.principal is not None:
        value["principal"] = record.cause.principal
    if record.cause.decision is not None:
        value["decision"] = record.cause.decision
    return orjson.dumps(value)


def decode_record(data: bytes) -> Record:
    """Read a record, or raise BadRecord: to skip one would be to forget what it said."""
    try:
        fields = Fields(orjson.loads(data), BadRecord, what="a control record")
        kind = fields.raw("record")
        at_us = fields.integer("at_us", 0, least=0)
        cause = Cause(
            fields.text("principal", bytes_max=NAME_BYTES_MAX),
            fields.text("decision", bytes_max=NAME_BYTES_MAX),
        )
        fact = _fact(kind, fields)
        fields.finish()
    except (orjson.JSONDecodeError, *_UNREADABLE) as error:
        raise BadRecord(f"a control record can't be read: {error}") from error
    return Record(fact, at_us, cause)


def _fact(kind: object, fields: Fields) -> Fact:
    match kind:
        case "topic":
            return TopicPut(parse_topic_record(fields.raw("topic")))
        case "topic_deleted":
            return TopicDeleted(check_any_topic(fields.raw("name")))
        case "revoked":
            return Revoked(parse_revocation_record(fields.raw("revocation")))
        case "subscription":
            return SubscriptionPut(parse_subscription_record(fields.raw("subscription")))
        case "subscription_deleted":
            return SubscriptionDeleted(*_owned(fields))
        case "channel":
            return ChannelPut(parse_channel_record(fields.raw("channel")))
        case "channel_deleted":
            return ChannelDeleted(*_owned(fields))
        case "versions":
            return Versions(
                fields.integer("version", 0, least=0), fields.integer("revocations", 0, least=0)
            )
        case _:
            raise BadRecord(
                f"unknown kind of control record {kind!r}; a newer version of Sidegate wrote it: "
                "run that version"
            )


def _owned(fields: Fields) -> OwnedKey:
    owner, name = (fields.text(key, bytes_max=NAME_BYTES_MAX) for key in ("owner", "name"))
    return owner or "", name or ""
