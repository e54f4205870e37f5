"""The text messages of a stream: from JSON to values and back. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

import orjson

from core_log.control.json_fields import INTEGER_MAX, Fields
from core_log.control.topic_log import Extent
from core_log.control.topics import PARTITIONS_MAX
from log_format.errors import BadField
from log_format.topic import check_any_topic

CREDIT_BYTES_MAX: Final = INTEGER_MAX
"""What one message may grant: as much as JSON says exactly, which is as good as no limit."""


class BadMessage(Exception):
    """A text message that is not part of the protocol; the stream ends with `bad_message`."""


@dataclass(frozen=True, slots=True)
class FromOffsets:
    """Begin at these offsets; a partition that is not named begins at its earliest."""

    offsets: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class FromTime:
    """Begin with the first message appended at or after this time."""

    time_us: int


Start = Literal["earliest", "latest"] | FromOffsets | FromTime


@dataclass(frozen=True, slots=True)
class Open:
    """The first message: what to read and where to begin. `partitions` None means all."""

    topic: str
    partitions: tuple[int, ...] | None
    start: Start
    credit_bytes: int


@dataclass(frozen=True, slots=True)
class Credit:
    """The reader can take that many bytes more."""

    bytes: int


@dataclass(frozen=True, slots=True)
class Token:
    """A gatekeeper's business. One that reaches the core is ignored and never looked at."""


def parse_message(text: str | bytes) -> Open | Credit | Token:
    """A message from the reader, or BadMessage with every problem in it."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise BadMessage(f"not JSON: {error}") from error
    fields = Fields(value, BadMessage, what="a message")
    kind = fields.raw("type")
    message: Open | Credit | Token
    if kind == "open":
        message = _open(fields)
    elif kind == "credit":
        message = Credit(fields.integer("bytes", 0, least=1, most=CREDIT_BYTES_MAX))
        if "bytes" not in fields:
            fields.problem("bytes", "is missing")
    elif kind == "token":
        fields.raw("token")
        message = Token()
    else:
        raise BadMessage("type: must be one of open, credit, token")
    fields.finish()
    return message


def _open(fields: Fields) -> Open:
    topic = ""
    try:
        topic = check_any_topic(fields.raw("topic"))
    except BadField as error:
        fields.problem("topic", str(error).removeprefix("topic: "))
    return Open(
        topic,
        _partitions(fields),
        take_start(fields, "from"),
        fields.integer("credit_bytes", 0, least=0, most=CREDIT_BYTES_MAX),
    )


def _partitions(fields: Fields) -> tuple[int, ...] | None:
    value = fields.raw("partitions")
    if value is None:
        return None
    if (
        not isinstance(value, list)
        or not 1 <= len(value) <= PARTITIONS_MAX
        or not all(_is_index(each) for each in value)
    ):
        fields.problem("partitions", "must be null for all, or a list of partition numbers")
        return None
    return tuple(dict.fromkeys(value))


def take_start(fields: Fields, key: str) -> Start:
    """A place to begin; absent and null are the latest."""
    value = fields.raw(key)
    if value == "earliest":
        return "earliest"
    if value is None or value == "latest":
        return "latest"
    if isinstance(value, Mapping) and len(value) == 1:
        inner = fields.nested(key)
        if inner is not None and "offsets" in inner:
            return FromOffsets(_offsets(inner))
        if inner is not None and "time_us" in inner:
            return FromTime(inner.integer("time_us", 0, least=0))
    fields.problem(key, 'must be "earliest", "latest", {"offsets": {…}} or {"time_us": N}')
    return "latest"


def _offsets(fields: Fields) -> dict[int, int]:
    value = fields.raw("offsets")
    offsets: dict[int, int] = {}
    if isinstance(value, Mapping) and len(value) <= PARTITIONS_MAX:
        for key, offset in value.items():
            if not (key.isascii() and key.isdigit() and len(key) <= 10 and _is_offset(offset)):
                break
            offsets[int(key)] = offset
        else:
            return offsets
    fields.problem("offsets", 'must map partition numbers to offsets, as in {"0": 17}')
    return {}


def _is_index(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < PARTITIONS_MAX


def _is_offset(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= INTEGER_MAX


def opened(topic: str, begins: Iterable[tuple[int, Extent]]) -> bytes:
    """The answer to `open`: where each partition begins for this reader, and where it ends."""
    return _partition_list("opened", topic, begins)


def partitions_added(topic: str, begins: Iterable[tuple[int, Extent]]) -> bytes:
    """The topic has grown: these partitions are followed from now on, too."""
    return _partition_list("partitions", topic, begins)


def _partition_list(kind: str, topic: str, begins: Iterable[tuple[int, Extent]]) -> bytes:
    partitions = [
        {"partition": extent.partition, "offset": offset, "end_offset": extent.end}
        for offset, extent in begins
    ]
    return orjson.dumps({"type": kind, "topic": topic, "partitions": partitions})


def heartbeat(ends: Mapping[int, int]) -> bytes:
    """Nothing new; the log ends here."""
    end_offsets = {str(partition): end for partition, end in ends.items()}
    return orjson.dumps({"type": "heartbeat", "end_offsets": end_offsets})


def gap(partition: int, first_offset: int, next_offset: int, code: str, detail: str) -> bytes:
    """Offsets that this reader will not get, and why."""
    return orjson.dumps(
        {
            "type": "gap",
            "partition": partition,
            "first_offset": first_offset,
            "next_offset": next_offset,
            "code": code,
            "detail": detail,
        }
    )


def end(code: str, detail: str) -> bytes:
    """The last message of a stream."""
    return orjson.dumps({"type": "end", "code": code, "detail": detail})
