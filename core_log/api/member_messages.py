"""The text messages between a member of a subscription and the core: to values and back. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import orjson

from core_log.api.stream_messages import (
    CREDIT_BYTES_MAX,
    BadMessage,
    Credit,
    Open,
    Token,
    parse_message,
)
from core_log.control.json_fields import INTEGER_MAX, Fields
from core_log.control.names import take_member, take_name
from core_log.control.topics import PARTITIONS_MAX
from core_log.subscriptions.cursor import Range
from core_log.subscriptions.subscription_json import parse_wanted, subscription_json
from core_log.subscriptions.subscriptions import BadSubscription, Subscription, Wanted
from core_log.subscriptions.tries import BadTry, Tries, history_json, parse_tries
from log_format.errors import BadField
from log_format.limits import NAME_BYTES_MAX
from log_format.topic import check_any_topic

RANGES_MAX: Final = 1_000
"""Ranges of one acknowledgement, and offsets of one nack: a message of some ten kilobytes."""
DELAY_MS_MAX: Final = 3_600_000
"""A nack's delay: an hour. Who wants to wait longer keeps the message, or dead-letters it."""
ATTEMPTS_MAX: Final = 1_000_000
"""More than anybody tries."""


@dataclass(frozen=True, slots=True)
class MemberOpen:
    """The first message. `owner` None is whoever asks; `topic` is what a gatekeeper decided on."""

    subscription: str
    owner: str | None
    member: str
    credit_bytes: int
    create: Wanted | None
    topic: str | None


@dataclass(frozen=True, slots=True)
class Ack:
    """Done."""

    partition: int
    token: int
    ranges: tuple[Range, ...]


@dataclass(frozen=True, slots=True)
class Nack:
    """Not done."""

    partition: int
    token: int
    offsets: tuple[int, ...]
    delay_s: float


@dataclass(frozen=True, slots=True)
class Attempts:
    """Failed tries, as totals; `history` has what became of them, where the member tells it."""

    partition: int
    token: int
    totals: Mapping[int, int]
    history: Mapping[int, Tries] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Released:
    """Nothing of this is in hand any more."""

    partition: int
    token: int


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A sign of life."""


Said = Ack | Nack | Attempts | Released | Heartbeat | Credit | Token

_HEARTBEAT: Final = Heartbeat()
_TOKEN: Final = Token()


def _member_open(fields: Fields) -> MemberOpen:
    """The rest of an `open` that names a subscription."""
    name = take_name(fields, "subscription")
    owner = fields.text("owner", bytes_max=NAME_BYTES_MAX)
    member = take_member(fields, "member")
    credit = fields.integer("credit_bytes", 0, least=0, most=CREDIT_BYTES_MAX)
    wanted, topic = fields.raw("create"), fields.raw("topic")
    create = None
    try:
        if wanted is not None:
            create, _ = parse_wanted(wanted, name=name)
        if topic is not None:
            check_any_topic(topic)
    except (BadSubscription, BadField) as error:
        fields.problem("create" if wanted is not None else "topic", str(error))
    fields.finish()
    return MemberOpen(name, owner, member, credit, create, None if topic is None else str(topic))


def parse_first(text: str | bytes) -> Open | MemberOpen | Credit | Token:
    """The first message of a stream, or BadMessage: an `open` of a topic, or of a subscription."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise BadMessage(f"not JSON: {error}") from error
    if isinstance(value, dict) and value.get("type") == "open" and "subscription" in value:
        fields = Fields(value, BadMessage, what="a message")
        fields.raw("type")
        return _member_open(fields)
    return parse_message(text)


def parse_said(text: str | bytes) -> Said:
    """Any later message of a member, or BadMessage with every problem in it."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise BadMessage(f"not JSON: {error}") from error
    fields = Fields(value, BadMessage, what="a message")
    said: Said
    match fields.raw("type"):
        case "ack":
            said = Ack(*_about(fields), take_ranges(fields))
        case "nack":
            offsets = take_offsets(fields)
            delay_ms = fields.integer("delay_ms", 0, least=0, most=DELAY_MS_MAX)
            said = Nack(*_about(fields), offsets, delay_ms / 1000)
        case "attempts":
            totals = _totals(fields)
            said = Attempts(*_about(fields), totals, _history(fields, totals))
        case "released":
            said = Released(*_about(fields))
        case "heartbeat":
            said = _HEARTBEAT
        case "credit":
            said = Credit(_integer(fields, "bytes", least=1, most=CREDIT_BYTES_MAX))
        case "token":
            fields.raw("token")
            said = _TOKEN
        case _:
            raise BadMessage(
                "type: must be one of ack, nack, attempts, released, heartbeat, credit, token"
            )
    fields.finish()
    return said


def _about(fields: Fields) -> tuple[int, int]:
    """The partition, and the generation or lease, of which exactly one must be named."""
    if ("generation" in fields) == ("lease" in fields):
        fields.problem("generation", "name it, or `lease` where the mode is fcfs")
    key = "generation" if "generation" in fields else "lease"
    return (
        _integer(fields, "partition", least=0, most=PARTITIONS_MAX - 1),
        _integer(fields, key, least=0, most=INTEGER_MAX),
    )


def _integer(fields: Fields, key: str, *, least: int, most: int) -> int:
    value = fields.optional_integer(key, least=least, most=most)
    if value is None and fields.raw(key) is None:
        fields.problem(key, "is missing")
    return value or 0


def take_partition(fields: Fields) -> int:
    """The number of a partition."""
    return _integer(fields, "partition", least=0, most=PARTITIONS_MAX - 1)


def take_ranges(fields: Fields) -> tuple[Range, ...]:
    """Acknowledged ranges: pairs of a first and a last offset."""
    value = fields.raw("ranges")
    if isinstance(value, list) and 1 <= len(value) <= RANGES_MAX:
        ranges = tuple(tuple(each) for each in value if _is_range(each))
        if len(ranges) == len(value):
            return ranges
    fields.problem("ranges", f"must be 1 to {RANGES_MAX} pairs [first, last] of offsets")
    return ()


def take_offsets(fields: Fields) -> tuple[int, ...]:
    """Offsets that were not done."""
    value = fields.raw("offsets")
    if isinstance(value, list) and 1 <= len(value) <= RANGES_MAX and all(map(_is_offset, value)):
        return tuple(value)
    fields.problem("offsets", f"must be 1 to {RANGES_MAX} offsets")
    return ()


def _totals(fields: Fields) -> dict[int, int]:
    value = fields.raw("attempts")
    if isinstance(value, Mapping) and 1 <= len(value) <= RANGES_MAX:
        totals = {
            int(offset): count
            for offset, count in value.items()
            if offset.isascii() and offset.isdigit() and len(offset) <= 16 and _is_count(count)
        }
        if len(totals) == len(value):
            return totals
    fields.problem("attempts", f'must map 1 to {RANGES_MAX} offsets to counts, as in {{"17": 3}}')
    return {}


def _history(fields: Fields, totals: Mapping[int, int]) -> dict[int, Tries]:
    value = fields.raw("history")
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not value.keys() <= {str(offset) for offset in totals}:
        fields.problem("history", "must map offsets that `attempts` names to lists of tries")
        return {}
    try:
        return {int(offset): parse_tries(tries) for offset, tries in value.items()}
    except BadTry as error:
        fields.problem("history", str(error))
        return {}


def _is_offset(value: object) -> bool:
    return type(value) is int and 0 <= value <= INTEGER_MAX


def _is_count(value: object) -> bool:
    return type(value) is int and 1 <= value <= ATTEMPTS_MAX


def _is_range(value: object) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(map(_is_offset, value))
        and bool(value[0] <= value[1])
    )


# From the core.


def opened(subscription: Subscription) -> bytes:
    """The answer to `open`."""
    shown = subscription_json(subscription)
    return orjson.dumps({"type": "opened", "topic": subscription.topic, "subscription": shown})


def changed(subscription: Subscription) -> bytes:
    """The definition was altered."""
    return orjson.dumps({"type": "changed", "subscription": subscription_json(subscription)})


def assign(
    partition: int,
    generation: int,
    low: int,
    acked: Sequence[Range],
    attempts: Mapping[int, int],
    end_offset: int,
    history: Mapping[int, Tries],
) -> bytes:
    """The partition is the member's."""
    return orjson.dumps(
        {
            "type": "assign",
            "partition": partition,
            "generation": generation,
            "low": low,
            "acked": acked,
            "attempts": attempts_json(attempts),
            "end_offset": end_offset,
            **_with_history(history),
        }
    )


def lease(
    partition: int,
    number: int,
    first: int,
    end: int,
    not_meant: Iterable[Range],
    attempts: Mapping[int, int],
    history: Mapping[int, Tries],
) -> bytes:
    """About the frame that follows."""
    return orjson.dumps(
        {
            "type": "lease",
            "partition": partition,
            "lease": number,
            "first_offset": first,
            "count": end - first,
            "acked": list(not_meant),
            "attempts": attempts_json(attempts),
            **_with_history(history),
        }
    )


def redeliver(
    partition: int,
    generation: int,
    first: int,
    end: int,
    offsets: Sequence[int],
    attempts: Mapping[int, int],
    history: Mapping[int, Tries],
) -> bytes:
    """About the frame that follows, of which only `offsets` are meant."""
    return orjson.dumps(
        {
            "type": "redeliver",
            "partition": partition,
            "generation": generation,
            "first_offset": first,
            "count": end - first,
            "offsets": list(offsets),
            "attempts": attempts_json(attempts),
            **_with_history(history),
        }
    )


def about_token(kind: str, partition: int, name: str, token: int) -> bytes:
    """`revoke` and `fenced`; `name` is `generation` or `lease`."""
    return orjson.dumps({"type": kind, "partition": partition, name: token})


def acked(partition: int, low: int, ranges: Sequence[Range]) -> bytes:
    """These acknowledgements are durable."""
    return orjson.dumps({"type": "acked", "partition": partition, "low": low, "ranges": ranges})


def paused(*, now: bool) -> bytes:
    """The subscription gives nothing out, or does again."""
    return b'{"type":"paused"}' if now else b'{"type":"resumed"}'


def attempts_json(attempts: Mapping[int, int]) -> dict[str, int]:
    """Attempts as JSON, whose members have names."""
    return {str(offset): count for offset, count in attempts.items()}


def _with_history(history: Mapping[int, Tries]) -> dict[str, object]:
    """A member of a message that is there only where it says something."""
    return {"history": history_json(history)} if history else {}
