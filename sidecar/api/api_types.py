"""What the HTTP API takes and gives, as types. They check parameters and make the OpenAPI pages.

The body of a publish is in `message.py`. Answers are written by faster means than these types;
a test holds the two together.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from sidecar.errors import BadQuery

AckName = Literal["auto", "core", "sidecar", "none"]


class PublishQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Parameters of a publish."""

    ack: Annotated[AckName, Meta(description="What must have happened before the answer")] = "auto"
    timeout_ms: Annotated[
        Annotated[int, Meta(ge=1)] | None, Meta(description="How long to wait for the outcome")
    ] = None


class SubscribeQuery(msgspec.Struct, forbid_unknown_fields=True, rename={"start": "from"}):
    """Parameters of a subscription."""

    start: Annotated[
        str,
        Meta(
            description="earliest, latest, offset:N or time:2026-01-31T12:00:00Z; of a named "
            "subscription where it begins when it is new"
        ),
    ] = "latest"
    partition: Annotated[
        str | None,
        Meta(description="One partition, or several with commas; default: all. Not with a name"),
    ] = None
    filter: Annotated[
        str | None, Meta(description="A CEL expression such as message.total > 100")
    ] = None
    subscription: Annotated[
        Annotated[str, Meta(pattern="^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")] | None,
        Meta(description="A durable name, shared by all who use it; made where it is missing"),
    ] = None
    owner: Annotated[
        str | None, Meta(description="Whose subscription, where it is another principal's")
    ] = None
    mode: Annotated[
        Literal["ordered", "fcfs"] | None,
        Meta(description="Of a new subscription; default: as the topic delivers"),
    ] = None
    ack: Annotated[
        Literal["auto", "manual"] | None,
        Meta(description="auto: what the connection has taken is acknowledged; manual: you do it"),
    ] = None
    max_in_flight: Annotated[
        Annotated[int, Meta(ge=1, le=100_000)] | None,
        Meta(description="With ack=manual, messages that you may have unsettled; default 1000"),
    ] = None
    echo: Annotated[
        bool,
        Meta(
            description="On a WebSocket: frames are payloads, both ways; what you send is published"
        ),
    ] = False


class MessagesQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Parameters of a page of messages."""

    partition: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0
    offset: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0
    limit: Annotated[int, Meta(ge=1, le=10_000)] = 1_000
    wait_ms: Annotated[
        int,
        Meta(ge=0, le=30_000, description="How long to wait for a message where there is none yet"),
    ] = 0


class RejectQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which rejects are meant."""

    topic: Annotated[str | None, Meta(description="Only those of this topic")] = None


class RetryQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Parameters of a retry."""

    force: Annotated[
        bool,
        Meta(description="Publish also what may be in the log already and cannot be looked up"),
    ] = False


class RetryAllQuery(RetryQuery, forbid_unknown_fields=True):
    """Parameters of a retry of many."""

    topic: Annotated[str | None, Meta(description="Only those of this topic")] = None


class NoQuery(msgspec.Struct, forbid_unknown_fields=True):
    """No parameters."""


class Published(msgspec.Struct):
    """Where the message is now."""

    topic: str
    partition: int
    offset: int
    id: str
    durability: Literal["committed", "interval", "os", "memory"]


class Accepted(msgspec.Struct):
    """The sidecar has the message and goes on by itself."""

    topic: str
    id: str | None
    durability: Literal["spooled", "none"]


class Range(msgspec.Struct):
    """Messages that follow each other in one partition."""

    partition: int
    first_offset: int
    count: int


class PublishedMany(msgspec.Struct):
    """Where many messages are now."""

    count: int
    durability: Literal["committed", "interval", "os", "memory", "spooled", "none"]
    partitions: list[Range]


class Envelope(msgspec.Struct):
    """A message as apps read it; `data_base64` and `content_type` where it is not JSON."""

    topic: str
    partition: int
    offset: int
    timestamp: str
    id: str
    key: str | None
    headers: dict[str, str]
    principal: str | None
    message: Any | UnsetType = UNSET
    data_base64: str | UnsetType = UNSET
    content_type: str | UnsetType = UNSET
    attempt: int | UnsetType = UNSET


class MessageList(msgspec.Struct):
    """A page of messages. Ask again with `next_offset`; past the end the list is empty."""

    messages: list[Envelope]
    next_offset: int


class Retention(msgspec.Struct, forbid_unknown_fields=True):
    """What is kept; null means for ever."""

    age_ms: int | None = None
    bytes: int | None = None


class TopicRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A topic to create."""

    name: str
    partitions: Annotated[int, Meta(ge=1)] | UnsetType = UNSET
    strategy: Literal["key", "round_robin", "sticky"] | UnsetType = UNSET
    retention: Retention | UnsetType = UNSET
    storage: Literal["disk", "memory"] | UnsetType = UNSET
    delivery: Literal["broadcast", "fcfs"] | UnsetType = UNSET


class TopicChange(msgspec.Struct, forbid_unknown_fields=True):
    """What to change of a topic."""

    partitions: Annotated[int, Meta(ge=1)] | UnsetType = UNSET
    strategy: Literal["key", "round_robin", "sticky"] | UnsetType = UNSET
    retention: Retention | UnsetType = UNSET
    delivery: Literal["broadcast", "fcfs"] | UnsetType = UNSET


class PartitionOffsets(msgspec.Struct):
    """What a partition holds: offsets from `start_offset` up to, not with, `end_offset`."""

    partition: int
    start_offset: int
    end_offset: int


class Topic(msgspec.Struct):
    """A topic as the log describes it."""

    name: str
    partitions: int
    strategy: Literal["key", "round_robin", "sticky"]
    retention: Retention
    storage: Literal["disk", "memory"]
    delivery: Literal["broadcast", "fcfs"]
    created_us: int
    version: int
    offsets: list[PartitionOffsets]


class TopicList(msgspec.Struct):
    """The topics that this app may see."""

    topics: list[Topic]


class Granted(msgspec.Struct):
    """A rule that allows; `max_age_s` is how far back it lets one read, null for no bound."""

    action: Literal["publish", "subscribe", "replay", "admin", "audit"]
    on: str
    rule: str
    max_age_s: float | None


class Refused(msgspec.Struct):
    """A rule that denies, whatever others allow."""

    actions: list[Literal["publish", "subscribe", "replay", "admin", "audit"]]
    on: str
    rule: str
    reason: str


class WhoAmI(msgspec.Struct):
    """Who the gatekeeper takes this app for, by its certificate and token, and its rules."""

    principal: str
    spiffe_id: str
    thumbprint: str
    issuer: str
    client_id: str
    subject: str
    token_id: str
    scopes: list[str]
    expires_at: float
    gatekeeper: str
    policy_hash: str
    allowed: list[Granted]
    denied: list[Refused]
    complete: bool


class RegisterRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A publisher that wants to be known."""

    topic: str
    name: Annotated[str, Meta(description="For people who look at the list")]


class DeregisterRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A publisher that goes."""

    publisher_id: str


class Registered(msgspec.Struct):
    """A registered publisher; `publisher_id` is what it sends as Sidegate-Publisher."""

    publisher_id: str
    topic: str
    name: str


class RegisteredSubscriber(msgspec.Struct):
    """A registered webhook."""

    subscriber_id: str
    topic: str
    url: str
    method: str


class RegisteredList(msgspec.Struct):
    """Everybody who is registered."""

    publishers: list[Registered]
    subscribers: list[RegisteredSubscriber]
    complete: Annotated[
        bool | UnsetType,
        Meta(description="False where no gatekeeper answers: webhooks may be missing"),
    ] = UNSET


class RejectSummary(msgspec.Struct):
    """A batch that was refused after its apps had a 202."""

    id: int
    at_us: int
    topic: str
    partition: int
    messages: int
    code: str
    detail: str
    decision_id: str | None
    reason: str | None
    doubtful: bool
    bytes: int


class RejectList(msgspec.Struct):
    """All of them, oldest first."""

    rejects: list[RejectSummary]


class Retried(msgspec.Struct):
    """How many messages were published again."""

    retried: int


class RefusedAgain(msgspec.Struct):
    """A reject that a retry could not publish, and why."""

    id: int
    topic: str
    code: str
    detail: str


class RetriedAll(msgspec.Struct):
    """How many messages were published again, and the rejects that stay."""

    retried: int
    refused: list[RefusedAgain]


class Dropped(msgspec.Struct):
    """How many batches, and how many messages in them, are gone."""

    dropped: int
    messages: int


class Problem(msgspec.Struct):
    """RFC 9457: what went wrong. `code` is stable; `detail` says what to do."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    request_id: str | UnsetType = UNSET


Q = TypeVar("Q", bound=msgspec.Struct)


def parse_query(query: Mapping[str, str], kind: type[Q]) -> Q:
    """The parameters as `kind`, or BadQuery that names the one at fault."""
    if len(query) != len(set(query)):
        raise BadQuery("query", "gives a parameter twice")
    try:
        return msgspec.convert(dict(query), kind, strict=False)
    except msgspec.ValidationError as error:
        raise BadQuery("query", str(error)) from error
