"""The text messages of a stream: what callers may say, read strictly and written anew.

A message that passes is rebuilt from its fields for the core, so that a duplicate member or an odd
number can't mean one thing here and another there. Pure functions over bytes; knows no sockets.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import orjson

from gatekeeper.api.parameters import INT64_MAX, json_object, topic_name
from gatekeeper.errors import BadRequest

PARTITIONS_MAX: Final = 10_000
"""Partitions of one topic that a caller may name; more than any topic has."""
CREDIT_BYTES_MAX: Final = 1 << 40
"""Credit in one message: a TiB is as good as no bound, and sums stay small integers."""
TOKEN_CHARS_MAX: Final = 16 * 1024
"""A token in a message; the authenticator has its own, smaller limit and words for it."""

Start = Literal["earliest", "latest"] | dict[str, Any]


@dataclass(frozen=True, slots=True)
class Open:
    """What a stream begins with."""

    topic: str
    partitions: tuple[int, ...] | None
    start: Start
    credit_bytes: int

    @property
    def from_latest(self) -> bool:
        """True where nothing of the past is asked for."""
        return self.start == "latest"

    def to_core(self) -> str:
        """The message as the core gets it."""
        partitions = None if self.partitions is None else list(self.partitions)
        return dump(
            type="open",
            topic=self.topic,
            partitions=partitions,
            credit_bytes=self.credit_bytes,
            **{"from": self.start},
        )


@dataclass(frozen=True, slots=True)
class Credit:
    """More bytes that the caller is ready to take."""

    bytes: int

    def to_core(self) -> str:
        """The message as the core gets it."""
        return dump(type="credit", bytes=self.bytes)


@dataclass(frozen=True, slots=True)
class Token:
    """A fresh token. It ends here: the core never sees one."""

    token: str

    def __repr__(self) -> str:
        return "Token(…)"


def parse_open(text: str) -> Open:
    """The first message of a stream."""
    message = json_object(text.encode())
    if message.get("type") != "open":
        raise BadRequest("the first message must be of type open")
    only(message, "type", "topic", "partitions", "from", "credit_bytes")
    return Open(
        topic=topic_name(message.get("topic")),
        partitions=_partitions(message.get("partitions")),
        start=parse_start(message.get("from", "latest")),
        credit_bytes=number(message.get("credit_bytes", 0), "credit_bytes", CREDIT_BYTES_MAX),
    )


def parse_next(text: str) -> Credit | Token:
    """Any later message."""
    message = json_object(text.encode())
    said = parse_common(message)
    if said is None:
        raise BadRequest("type: must be credit or token once the stream is open")
    return said


def parse_common(message: dict[str, Any]) -> Credit | Token | None:
    """A message that every open stream may get; None for any other."""
    kind = message.get("type")
    if kind == "credit":
        only(message, "type", "bytes")
        return Credit(number(message.get("bytes"), "bytes", CREDIT_BYTES_MAX, at_least=1))
    if kind == "token":
        only(message, "type", "token")
        token = message.get("token")
        if not isinstance(token, str) or not 0 < len(token) <= TOKEN_CHARS_MAX:
            raise BadRequest(f"token: must be a string of 1 to {TOKEN_CHARS_MAX} characters")
        return Token(token)
    return None


def end_message(code: str, detail: str, members: Mapping[str, Any] | None = None) -> str:
    """The last message that a caller gets."""
    return dump(type="end", code=code, detail=detail, **(members or {}))


def _partitions(value: object) -> tuple[int, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not 1 <= len(value) <= PARTITIONS_MAX:
        raise BadRequest(f"partitions: must be null or a list of 1 to {PARTITIONS_MAX} numbers")
    numbers = tuple(number(item, "partitions", 2**31 - 1) for item in value)
    if len(set(numbers)) != len(numbers):
        raise BadRequest("partitions: one stands twice")
    return numbers


def parse_start(value: object, name: str = "from") -> Start:
    """A place to begin."""
    if value in ("earliest", "latest"):
        return "latest" if value == "latest" else "earliest"
    if isinstance(value, dict) and len(value) == 1:
        if "time_us" in value:
            return {"time_us": number(value["time_us"], f"{name}.time_us", INT64_MAX)}
        offsets = value.get("offsets")
        if isinstance(offsets, dict) and 1 <= len(offsets) <= PARTITIONS_MAX:
            return {"offsets": {_key(key, name): _offset(offsets[key], name) for key in offsets}}
    places = '"earliest", "latest", {"offsets": {…}} or {"time_us": N}'
    raise BadRequest(f"{name}: must be {places}")


def _key(key: str, name: str) -> str:
    if not (key.isascii() and key.isdigit() and len(key) <= 10 and str(int(key)) == key):
        raise BadRequest(f"{name}.offsets: each name must be a partition's number")
    return key


def _offset(value: object, name: str) -> int:
    return number(value, f"{name}.offsets", INT64_MAX)


def number(value: object, name: str, at_most: int, at_least: int = 0) -> int:
    """A whole number within bounds."""
    if isinstance(value, bool) or not isinstance(value, int) or not at_least <= value <= at_most:
        raise BadRequest(f"{name}: must be a whole number from {at_least} to {at_most}")
    return value


def only(message: Mapping[str, Any], *known: str) -> None:
    """Refuse members that nobody knows."""
    for name in message:
        if name not in known:
            raise BadRequest(f"{name[:40]!r} is unknown here; known are: {', '.join(known)}")


def dump(**members: Any) -> str:
    """A message as text."""
    return orjson.dumps(members).decode()
