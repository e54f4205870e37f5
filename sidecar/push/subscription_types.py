"""Subscriptions, channels and subscribers as the HTTP API takes and gives them.

The types check requests and make the OpenAPI pages; the functions turn them into the wire's
documents and back. Pure.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from sidecar.errors import BadMessage, BadQuery, BadRequest
from sidecar.publish.message import event_time_us
from sidecar.push.push_settings import DeadLetter, Push, Retry

Mode = Literal["ordered", "fcfs", "fire_and_forget"]
Place = Annotated[str, Meta(description="earliest, latest, offset:N or time:2026-01-31T12:00:00Z")]
Offset = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Partition = Annotated[int, Meta(ge=0, le=2**31 - 1)]
OFFSET_MAX: Final = 2**63 - 1


class SubscriptionRequest(msgspec.Struct, forbid_unknown_fields=True, rename={"start": "from"}):
    """A subscription to create. Without `push` it is for streams: /subscribe?subscription=NAME."""

    name: str
    topic: str
    start: Place | dict[str, Any] = "latest"
    mode: Annotated[
        Mode | UnsetType,
        Meta(description="Default: what the topic's delivery says. fire_and_forget sends once"),
    ] = UNSET
    lease_ms: Annotated[int, Meta(ge=1_000, le=600_000)] | UnsetType = UNSET
    filter: Annotated[str | None, Meta(description="An expression in CEL")] = None
    push: Push | None = None
    retry: Retry = msgspec.field(default_factory=Retry)
    dead_letter: Annotated[
        DeadLetter | str | UnsetType | None,
        Meta(description="A topic; default: the topic's name and .dead; null: drop them"),
    ] = UNSET
    owner: str | None = None


class SubscriptionChange(msgspec.Struct, forbid_unknown_fields=True):
    """What to change of a subscription. What is given takes the place of what was there."""

    mode: Mode | UnsetType = UNSET
    lease_ms: Annotated[int, Meta(ge=1_000, le=600_000)] | UnsetType = UNSET
    filter: str | UnsetType | None = UNSET
    push: Push | UnsetType | None = UNSET
    retry: Retry | UnsetType = UNSET
    dead_letter: DeadLetter | str | UnsetType | None = UNSET


class SeekRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Where to go on."""

    to: Place | dict[str, Any]
    partition: Annotated[Partition | None, Meta(description="With offset:N; default 0")] = None


class AckRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Messages that are done with, by hand: `offsets`, or `ranges` of first and last."""

    partition: Partition = 0
    offsets: list[Offset] = msgspec.field(default_factory=list)
    ranges: list[tuple[Offset, Offset]] = msgspec.field(default_factory=list)


class NackRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Messages to be delivered once more, by hand."""

    offsets: list[Offset]
    partition: Partition = 0
    delay_ms: Annotated[int, Meta(ge=0, le=3_600_000)] = 0


class RedriveRequest(msgspec.Struct, forbid_unknown_fields=True, rename={"start": "from"}):
    """Dead letters to put back."""

    start: Annotated[
        Literal["new", "earliest"],
        Meta(description="new: those that were not put back before; earliest: all of them"),
    ] = "new"


class ReplayRequest(msgspec.Struct, forbid_unknown_fields=True, rename={"start": "from"}):
    """A range of the topic to deliver again to this subscription alone."""

    start: Place
    to: Annotated[str, Meta(description="As from, and not with it; default: what is there now")] = (
        "latest"
    )
    partition: Annotated[Partition | None, Meta(description="Only this one")] = None


class OwnerQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Whose subscription it is; another's needs the policy's action `share`."""

    owner: str | None = None


class Subscription(msgspec.Struct, rename={"start": "from"}):
    """A subscription."""

    name: str
    owner: str
    topic: str
    mode: Mode
    start: Any
    lease_ms: int
    paused: bool
    filter: str | None
    push: Push | None
    retry: Retry
    dead_letter: DeadLetter | None
    created_us: int
    version: int


class Member(msgspec.Struct):
    """One that shares the work."""

    member: str
    since_us: int
    partitions: list[int]
    in_flight: int


class Cursor(msgspec.Struct):
    """How far a partition is: all below `low` is done, and so are the ranges `acked`."""

    partition: int
    low: int
    acked: list[tuple[int, int]]
    end_offset: int
    lag: int
    in_flight: int


class DeliveryView(msgspec.Struct):
    """What this sidecar does for the subscription just now."""

    state: Annotated[
        Literal[
            "delivering", "retrying", "unreachable", "paused", "starting", "failed", "elsewhere"
        ],
        Meta(description="unreachable: nothing can be sent, and no attempt is counted"),
    ]
    in_flight: int
    held: int
    delivered: int
    failed: int
    dead_lettered: int
    dropped: int
    filtered: int
    last_error: str | None
    last_error_at: str | None
    last_status: int | None
    next_try: str | None
    unreachable_since: str | None


class SubscriptionState(Subscription):
    """A subscription and how it is: where it is stuck, if it is."""

    state: Literal["active", "idle", "paused"] = "idle"
    members: list[Member] = msgspec.field(default_factory=list)
    cursors: list[Cursor] = msgspec.field(default_factory=list)
    lag: int = 0
    in_flight: int = 0
    redelivered: int = 0
    expired: int = 0
    delivery: DeliveryView | None = None


class SubscriptionList(msgspec.Struct):
    """All of the app's own."""

    version: int
    subscriptions: list[Subscription]


class Rerunning(msgspec.Struct):
    """A range that is delivered again: by a subscription of its own, which then goes away."""

    subscription: Annotated[str | None, Meta(description="null where there is nothing to do")]
    topic: str
    messages_max: int


class ChannelRequest(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A named destination."""

    id: str
    destination_host: str
    destination_port: Annotated[int, Meta(ge=1, le=65_535)]
    name: str | None = None
    path: str = "/"
    tls: bool = False


class ChannelChange(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What a channel shall be from now on."""

    destination_host: str
    destination_port: Annotated[int, Meta(ge=1, le=65_535)]
    id: str | None = None
    name: str | None = None
    path: str = "/"
    tls: bool = False


class Channel(msgspec.Struct):
    """A channel."""

    id: str
    name: str
    destination_host: str
    destination_port: int
    path: str
    tls: bool
    version: int


class ChannelList(msgspec.Struct):
    """All of the app's own."""

    channels: list[Channel]


class SubscriberRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A webhook that wants a topic's messages from now on, each sent once and never again."""

    topic: str
    url: str
    method: Literal["POST", "PUT", "PATCH"] = "POST"


class SubscriberGone(msgspec.Struct, forbid_unknown_fields=True):
    """A webhook that goes: by its id, or by what it was registered with."""

    subscriber_id: str | None = None
    topic: str | None = None
    url: str | None = None
    method: Literal["POST", "PUT", "PATCH"] = "POST"


T = TypeVar("T", bound=msgspec.Struct)


def decode_request(body: bytes, kind: type[T]) -> T:
    """A request's body, or BadRequest that names the field. An empty body is an empty object."""
    try:
        return msgspec.json.decode(body or b"{}", type=kind)
    except msgspec.ValidationError as error:
        text, _, path = str(error).partition(" - at ")
        field = path.strip("`").removeprefix("$").removeprefix(".") or "body"
        raise BadRequest(field, text) from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest("body", f"is not JSON: {error}") from error


def wire_place(text: str | Mapping[str, Any], field: str, partition: int | None = None) -> Any:
    """A place as the wire names it."""
    if not isinstance(text, str):
        return _wire_object(text, field)
    if text in ("earliest", "latest"):
        return text
    kind, _, value = text.partition(":")
    if kind == "offset" or text.isdigit():
        digits = value if kind == "offset" else text
        if not digits.isascii() or not digits.isdigit() or int(digits[:20]) > OFFSET_MAX:
            raise BadRequest(field, f"{text[:40]!r} is not an offset such as offset:17")
        return {"offsets": {str(partition or 0): int(digits)}}
    if kind == "time":
        try:
            return {"time_us": event_time_us(value, field)}
        except (BadMessage, BadQuery) as error:
            raise BadRequest(field, str(error).removeprefix(f"{field}: ")) from error
    raise BadRequest(
        field,
        f"{text[:40]!r} is none of earliest, latest, offset:N and time:2026-01-31T12:00:00Z",
    )


def _wire_object(place: Mapping[str, Any], field: str) -> Any:
    if set(place) == {"time_us"} and isinstance(place["time_us"], int):
        return dict(place)
    offsets = place.get("offsets")
    if set(place) == {"offsets"} and isinstance(offsets, dict):
        numbers = all(
            isinstance(at, int) and not isinstance(at, bool) and 0 <= at <= OFFSET_MAX
            for at in offsets.values()
        )
        if numbers and all(each.isascii() and each.isdigit() for each in offsets):
            return {"offsets": offsets}
    raise BadRequest(field, 'must be {"offsets": {"0": 17}} or {"time_us": N}')


def rendered(definition: Mapping[str, Any], *, state: bool = False) -> dict[str, Any]:
    """A wire document as the API shows it: what is in `settings` becomes members of its own."""
    settings: Mapping[str, Any] = definition.get("settings") or {}
    shown: dict[str, Any] = {
        "name": definition["name"],
        "owner": definition["owner"],
        "topic": definition["topic"],
        "mode": "fire_and_forget" if settings.get("fire_and_forget") else definition["mode"],
        "from": definition.get("from"),
        "lease_ms": definition.get("lease_ms"),
        "paused": definition.get("paused", False),
        "filter": settings.get("filter"),
        "push": settings.get("push") if definition.get("push") else None,
        "retry": settings.get("retry") or {},
        "dead_letter": settings.get("dead_letter"),
        "created_us": definition.get("created_us"),
        "version": definition.get("version"),
    }
    if settings.get("rerun"):
        shown["rerun"] = settings["rerun"]
    if state:
        cursors = definition.get("cursors") or []
        shown |= {
            "state": definition.get("state"),
            "members": definition.get("members") or [],
            "cursors": cursors,
            "lag": sum(int(each.get("lag", 0)) for each in cursors),
            "in_flight": sum(int(each.get("in_flight", 0)) for each in cursors),
            "redelivered": definition.get("redelivered", 0),
            "expired": definition.get("expired", 0),
        }
    return shown
