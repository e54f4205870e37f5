"""What an app publishes: the request's type, its checks, and the record that comes out.

`PublishRequest` is the one description of the request body: it validates, and `openapi.py` makes
the schema from it. May import `log_format`; knows neither HTTP nor the ring.
"""

import binascii
from base64 import b64decode
from datetime import UTC, datetime
from typing import Annotated, Final, NamedTuple, TypeVar

import msgspec
import orjson
from msgspec import UNSET, Meta, UnsetType

from log_format.errors import BadField
from log_format.topic import check_topic
from sidecar.errors import BadMessage, TooLarge

KEY_BYTES_MAX: Final = 1024
"""A key is an identifier that is hashed and compared for every message, not a document."""
ID_BYTES_MAX: Final = 256
"""An app's id is remembered for each message of the deduplication window."""
HEADERS_BYTES_MAX: Final = 32 * 1024
"""Headers as JSON: what HTTP servers commonly allow, so that they can travel on as HTTP."""
CONTENT_TYPE_BYTES_MAX: Final = 256
"""Longer than any registered media type with its parameters."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
OCTETS: Final = b"application/octet-stream"
T = TypeVar("T")


class PublishRequest(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """One message to publish: a topic, and either `message` or `data_base64`."""

    topic: Annotated[str, Meta(description="Where it goes, such as orders.created")]
    message: Annotated[
        msgspec.Raw | UnsetType, Meta(description="Any JSON value; kept byte for byte")
    ] = UNSET
    data_base64: Annotated[
        str | UnsetType, Meta(description="In place of message: any bytes, in base64")
    ] = UNSET
    content_type: Annotated[
        str | None, Meta(description="Media type of data_base64; JSON for message")
    ] = None
    key: Annotated[str | None, Meta(description="Messages with the same key keep their order")] = (
        None
    )
    headers: Annotated[
        dict[str, str] | None, Meta(description="Strings that travel beside the message")
    ] = None
    id: Annotated[
        str | None, Meta(description="The app's own id: a repeat within the window is dropped")
    ] = None
    timestamp: Annotated[
        str | None, Meta(description="Event time, ISO 8601 with a time zone; default: now")
    ] = None


class Message(NamedTuple):
    """One record as it will lie in a batch. A tuple: there is one for each message."""

    topic: str
    value: bytes
    event_us: int
    key: bytes | None = None
    id: bytes | None = None
    content_type: bytes | None = None
    headers: bytes | None = None

    @property
    def size(self) -> int:
        """Bytes that the record adds to a batch, without the columns' own overhead."""
        return (
            len(self.value)
            + len(self.key or b"")
            + len(self.id or b"")
            + len(self.content_type or b"")
            + len(self.headers or b"")
        )


_DECODER: Final = msgspec.json.Decoder(PublishRequest)


class BatchItem(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """One message of a batch: as PublishRequest; its topic is the path's."""

    topic: str | None = None
    message: msgspec.Raw | UnsetType = UNSET
    data_base64: str | UnsetType = UNSET
    content_type: str | None = None
    key: str | None = None
    headers: dict[str, str] | None = None
    id: str | None = None
    timestamp: str | None = None


_LIST_DECODER: Final = msgspec.json.Decoder(list[msgspec.Raw])
_ITEM_DECODER: Final = msgspec.json.Decoder(BatchItem)


def parse_batch(topic: str, body: bytes, now_us: int, message_bytes_max: int) -> list[Message]:
    """The messages of a JSON array or of NDJSON, or BadMessage that names the one at fault."""
    if body.lstrip()[:1] == b"[":
        try:
            items = [bytes(raw) for raw in _LIST_DECODER.decode(body)]
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise BadMessage(f"body: is not a JSON array: {error}") from error
    else:
        items = [line for line in body.split(b"\n") if line.strip()]
    if not items:
        raise BadMessage("body: holds no message; send a JSON array or one object a line")
    messages = []
    for index, item in enumerate(items):
        try:
            messages.append(_parse_item(topic, item, now_us, message_bytes_max))
        except (BadMessage, TooLarge) as error:
            text = f"message {index}: {str(error).removeprefix('body: ')}"
            raise type(error)(text, members={**error.members, "index": index}) from error
    return messages


def _parse_item(topic: str, body: bytes, now_us: int, message_bytes_max: int) -> Message:
    item = _decoded(_ITEM_DECODER, body)
    if item.topic is not None and item.topic != topic:
        raise BadMessage(f"topic: is not {topic!r}, the topic of the path; leave it out")
    request = PublishRequest(
        topic,
        item.message,
        item.data_base64,
        item.content_type,
        item.key,
        item.headers,
        item.id,
        item.timestamp,
    )
    return message_of(request, now_us, message_bytes_max)


def parse_publish(body: bytes, now_us: int, message_bytes_max: int) -> Message:
    """The message that a body of `POST /publish` asks for, or BadMessage that names the field."""
    return message_of(_decoded(_DECODER, body), now_us, message_bytes_max)


def _decoded(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    try:
        request = decoder.decode(body)
        if not body.isascii():
            # A raw member is not looked into; what is stored as JSON must be UTF-8 all the same.
            body.decode("utf-8")
    except msgspec.ValidationError as error:
        raise BadMessage(f"body: {_explained(str(error))}") from error
    except msgspec.DecodeError as error:
        raise BadMessage(f"body: is not JSON: {error}") from error
    except UnicodeDecodeError as error:
        raise BadMessage(f"body: is not UTF-8 at byte {error.start}; JSON must be") from error
    except RecursionError as error:
        raise BadMessage("body: is nested too deeply; flatten it, or send data_base64") from error
    return request


def message_of(request: PublishRequest, now_us: int, message_bytes_max: int) -> Message:
    """The record of a request whose types are already right."""
    try:
        topic = check_topic(request.topic)
    except BadField as error:
        raise BadMessage(str(error), members={"field": "topic"}) from error
    value, content_type = _payload(request)
    message = Message(
        topic,
        value,
        now_us if request.timestamp is None else event_time_us(request.timestamp),
        bounded("key", request.key),
        bounded("id", request.id) or None,
        content_type,
        encode_headers(request.headers),
    )
    return within(message, message_bytes_max)


def within(message: Message, message_bytes_max: int) -> Message:
    """The same message, or TooLarge."""
    if len(message.value) > message_bytes_max:
        raise TooLarge(
            f"message: has {len(message.value)} bytes; limits.message_bytes_max is "
            f"{message_bytes_max}. Send a reference to it, or raise the limit"
        )
    return message


def _payload(request: PublishRequest) -> tuple[bytes, bytes | None]:
    if request.message is not UNSET:
        if request.data_base64 is not UNSET:
            raise BadMessage("data_base64: stands beside message; give only one of the two")
        return bytes(request.message), _json_type(request.content_type)
    if request.data_base64 is UNSET:
        raise BadMessage("message: is missing; give message (JSON) or data_base64 (bytes)")
    try:
        value = b64decode(request.data_base64, validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadMessage(f"data_base64: is not base64: {error}") from error
    if request.content_type is None:
        return value, OCTETS
    return value, encode_content_type(request.content_type)


def _json_type(content_type: str | None) -> bytes | None:
    if content_type is None:
        return None
    encoded = encode_content_type(content_type)
    if not is_json_type(encoded):
        raise BadMessage(
            "content_type: must be a JSON type beside message; send other data as data_base64"
        )
    return encoded


def is_json_type(content_type: bytes) -> bool:
    """True for application/json and for every type with the suffix +json."""
    essence = content_type.partition(b";")[0].strip().lower()
    return essence in (b"application/json", b"text/json") or essence.endswith(b"+json")


def encode_content_type(content_type: str) -> bytes:
    """The media type as bytes that can stand in an HTTP header, or BadMessage."""
    if not content_type or not content_type.isascii() or not content_type.isprintable():
        raise BadMessage("content_type: must be a media type such as text/plain")
    if len(content_type) > CONTENT_TYPE_BYTES_MAX:
        raise BadMessage(f"content_type: is longer than {CONTENT_TYPE_BYTES_MAX} bytes")
    return content_type.encode("ascii")


def encode_headers(headers: dict[str, str] | None) -> bytes | None:
    """The headers column: a compact JSON object of strings. No headers are null."""
    if not headers:
        return None
    try:
        encoded = orjson.dumps(headers)
    except orjson.JSONEncodeError as error:
        raise BadMessage(f"headers: {error}") from error
    if len(encoded) > HEADERS_BYTES_MAX:
        raise BadMessage(f"headers: have {len(encoded)} bytes; the limit is {HEADERS_BYTES_MAX}")
    return encoded


def bounded(field: str, text: str | None) -> bytes | None:
    """A key or an id as bytes, or BadMessage where it is too long or cannot be encoded."""
    if text is None:
        return None
    try:
        encoded = text.encode("utf-8")
    except UnicodeEncodeError as error:
        # Bytes of an HTTP header that are no UTF-8 come as lone surrogates.
        raise BadMessage(f"{field}: is not UTF-8") from error
    bytes_max = ID_BYTES_MAX if field == "id" else KEY_BYTES_MAX
    if len(encoded) > bytes_max:
        raise BadMessage(f"{field}: has {len(encoded)} bytes; the limit is {bytes_max}")
    return encoded


def event_time_us(text: str, field: str = "timestamp") -> int:
    """Microseconds since 1970 of an ISO 8601 time with a time zone."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise BadMessage(
            f"{field}: {text[:64]!r} is not an ISO 8601 time such as 2026-01-31T12:00:00Z"
        ) from error
    if moment.tzinfo is None:
        raise BadMessage(f"{field}: has no time zone; add Z or an offset such as +02:00")
    span = moment - _EPOCH
    return (span.days * 86_400 + span.seconds) * 1_000_000 + span.microseconds


def _explained(text: str) -> str:
    """msgspec's own words name field and type; the whole body needs a better name, and a misspelt
    field those that there are."""
    if text.startswith("Expected `object`, got") and " - at " not in text:
        return f"must be a JSON object with topic and message. {text}"
    if "unknown field" in text:
        return f"{text}; a message has {', '.join(PublishRequest.__struct_fields__)}"
    return text
