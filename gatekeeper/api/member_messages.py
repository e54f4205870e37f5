"""The text messages of a member of a subscription: read strictly and written anew.

Like `stream_messages`, which has what all streams share. Pure functions over bytes.
"""

import re
from dataclasses import dataclass
from typing import Any, Final

from gatekeeper.api.parameters import INT64_MAX, json_object, topic_name
from gatekeeper.api.stream_messages import (
    CREDIT_BYTES_MAX,
    PARTITIONS_MAX,
    Credit,
    Open,
    Start,
    Token,
    dump,
    number,
    only,
    parse_common,
    parse_open,
    parse_start,
)
from gatekeeper.api.subscriptions import owner_name, subscription_name
from gatekeeper.errors import BadRequest

ITEMS_MAX: Final = 1_000
"""Ranges, offsets or counts of one message: about ten kilobytes."""
DELAY_MS_MAX: Final = 3_600_000
"""A nack's delay: an hour."""
ATTEMPTS_MAX: Final = 1_000_000
"""More than anybody tries."""
TRIES_MAX: Final = 100
"""Tries of one message in a history; the core keeps no more."""
ERROR_BYTES_MAX: Final = 200
"""Of a try's error: one sentence."""
_TRY: Final = frozenset({"number", "at_us", "status", "error"})
_MEMBER: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_CREATE: Final = ("topic", "from", "mode", "lease_ms", "push", "settings")


@dataclass(frozen=True, slots=True)
class MemberOpen:
    """What a member's stream begins with. `owner` None is the caller itself."""

    subscription: str
    owner: str | None
    member: str
    credit_bytes: int
    create: dict[str, Any] | None

    @property
    def start(self) -> Start:
        """Where a subscription that this creates begins."""
        return "latest" if self.create is None else parse_start(self.create.get("from", "latest"))

    def to_core(self, owner: str, topic: str) -> str:
        """The message as the core gets it, with the owner and the topic that were decided about."""
        return dump(
            type="open",
            subscription=self.subscription,
            owner=owner,
            member=self.member,
            credit_bytes=self.credit_bytes,
            create=self.create,
            topic=topic,
        )


@dataclass(frozen=True, slots=True)
class Said:
    """Anything that a member says of its work, as the core gets it."""

    text: str

    def to_core(self) -> str:
        """The message as the core gets it."""
        return self.text


_HEARTBEAT: Final = Said(dump(type="heartbeat"))


def parse_first(text: str) -> Open | MemberOpen:
    """The first message of a stream: an open of a topic, or of a subscription."""
    message = json_object(text.encode())
    if message.get("type") != "open" or "subscription" not in message:
        return parse_open(text)
    only(message, "type", "subscription", "owner", "member", "credit_bytes", "create")
    member = message.get("member")
    if not isinstance(member, str) or _MEMBER.fullmatch(member) is None:
        raise BadRequest(f"member: must be of the form {_MEMBER.pattern}")
    return MemberOpen(
        subscription=subscription_name(message["subscription"]),
        owner=owner_name(message.get("owner")),
        member=member,
        credit_bytes=number(message.get("credit_bytes", 0), "credit_bytes", CREDIT_BYTES_MAX),
        create=_create(message.get("create")),
    )


def parse_said(text: str) -> Said | Credit | Token:
    """Any later message of a member."""
    message = json_object(text.encode())
    common = parse_common(message)
    if common is not None:
        return common
    kind = message.get("type")
    if kind == "heartbeat":
        only(message, "type")
        return _HEARTBEAT
    if kind == "ack":
        return Said(dump(type=kind, **_about(message, "ranges"), ranges=_ranges(message)))
    if kind == "nack":
        delay_ms = number(message.get("delay_ms", 0), "delay_ms", DELAY_MS_MAX)
        about = _about(message, "offsets", "delay_ms")
        return Said(dump(type=kind, **about, offsets=_offsets(message), delay_ms=delay_ms))
    if kind == "attempts":
        about, attempts = _about(message, "attempts", "history"), _attempts(message)
        return Said(dump(type=kind, **about, attempts=attempts, **_history(message, attempts)))
    if kind == "released":
        return Said(dump(type=kind, **_about(message)))
    raise BadRequest(
        "type: must be ack, nack, attempts, released, heartbeat, credit or token once a member's "
        "stream is open"
    )


def _create(value: object) -> dict[str, Any] | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise BadRequest("create: must be null or an object")
    only(value, *_CREATE)
    start = parse_start(value.get("from", "latest"), "create.from")
    return {**value, "topic": topic_name(value.get("topic")), "from": start}


def _about(message: dict[str, Any], *more: str) -> dict[str, int]:
    """The partition, and the generation or the lease."""
    token = "lease" if "lease" in message else "generation"
    only(message, "type", "partition", token, *more)
    return {
        "partition": number(message.get("partition"), "partition", PARTITIONS_MAX),
        token: number(message.get(token), token, 2**53 - 1),
    }


def _listed(message: dict[str, Any], name: str) -> list[Any]:
    value = message.get(name)
    if not isinstance(value, list) or not 1 <= len(value) <= ITEMS_MAX:
        raise BadRequest(f"{name}: must be a list of 1 to {ITEMS_MAX}")
    return value


def _ranges(message: dict[str, Any]) -> list[list[int]]:
    listed = _listed(message, "ranges")
    for each in listed:
        if not isinstance(each, list) or len(each) != 2:
            raise BadRequest("ranges: must hold pairs [first, last] of offsets")
        first = number(each[0], "ranges", INT64_MAX)
        number(each[1], "ranges", INT64_MAX, first)
    return listed


def _offsets(message: dict[str, Any]) -> list[int]:
    return [number(each, "offsets", INT64_MAX) for each in _listed(message, "offsets")]


def _attempts(message: dict[str, Any]) -> dict[str, int]:
    value = message.get("attempts")
    if not isinstance(value, dict) or not 1 <= len(value) <= ITEMS_MAX:
        raise BadRequest(f"attempts: must be an object of 1 to {ITEMS_MAX} offsets and counts")
    for offset, count in value.items():
        if not (offset.isascii() and offset.isdigit() and len(offset) <= 16):
            raise BadRequest("attempts: each name must be an offset")
        number(count, "attempts", ATTEMPTS_MAX, 1)
    return value


def _history(message: dict[str, Any], attempts: dict[str, int]) -> dict[str, Any]:
    """What became of the tries, where the member tells it."""
    value = message.get("history")
    if value is None:
        return {}
    if not isinstance(value, dict) or not value.keys() <= attempts.keys():
        raise BadRequest("history: must be an object of offsets that `attempts` names, and tries")
    for tries in value.values():
        if not isinstance(tries, list) or not 1 <= len(tries) <= TRIES_MAX:
            raise BadRequest(f"history: each offset must have a list of 1 to {TRIES_MAX} tries")
        for each in tries:
            _check_try(each)
    return {"history": value}


def _check_try(value: object) -> None:
    if not isinstance(value, dict) or value.keys() != _TRY:
        raise BadRequest("history: a try has number, at_us, status and error, and nothing else")
    number(value["number"], "history.number", ATTEMPTS_MAX, 1)
    number(value["at_us"], "history.at_us", 2**53 - 1)
    if value["status"] is not None:
        number(value["status"], "history.status", 999)
    error = value["error"]
    if not isinstance(error, str) or len(error.encode()) > ERROR_BYTES_MAX:
        raise BadRequest(f"history.error: must be a string of at most {ERROR_BYTES_MAX} bytes")
