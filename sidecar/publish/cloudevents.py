"""CloudEvents 1.0 over HTTP, in binary and in structured mode, as messages. Pure.

An event's attributes become headers `ce-…` of the message, so that whoever reads it can make the
event again. `id` becomes the message's id, `time` its event time, and the extension
`partitionkey` its key.
"""

from base64 import b64decode
from binascii import Error as BadBase64
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote

import msgspec

from sidecar.errors import BadMessage
from sidecar.publish.message import (
    Message,
    bounded,
    encode_content_type,
    encode_headers,
    event_time_us,
)

STRUCTURED: Final = "application/cloudevents+json"
_PREFIX: Final = "ce-"
_REQUIRED: Final = ("id", "source", "specversion", "type")
_VERSION: Final = "1.0"
_RAW_FIELDS: Final = frozenset({"data", "data_base64"})
_JSON: Final = "application/json"


def is_binary(headers: Mapping[str, str]) -> bool:
    """True for a request whose headers carry an event's attributes."""
    return "ce-specversion" in headers


def from_binary(topic: str, headers: Mapping[str, str], body: bytes, now_us: int) -> Message:
    """The event whose attributes are headers and whose data is the body."""
    attributes = {
        name.lower().removeprefix(_PREFIX): unquote(value)
        for name, value in headers.items()
        if name.lower().startswith(_PREFIX)
    }
    return _message(topic, attributes, body, headers.get("Content-Type"), now_us)


def from_structured(topic: str, body: bytes, now_us: int) -> Message:
    """The event that the body is, as a JSON object."""
    try:
        event = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        attributes = {
            name: _attribute(name, raw) for name, raw in event.items() if name not in _RAW_FIELDS
        }
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadMessage(f"body: is not a CloudEvent in JSON: {error}") from error
    content_type = attributes.pop("datacontenttype", None)
    kept = {name: value for name, value in attributes.items() if value is not None}
    if "data_base64" in event:
        if "data" in event:
            raise BadMessage("data_base64: stands beside data; give only one of the two")
        return _message(topic, kept, _base64(event["data_base64"]), content_type, now_us)
    data = bytes(event["data"]) if "data" in event else b"null"
    if content_type is not None and not _is_json(content_type):
        # CloudEvents JSON format, 3.1: a string is the data itself where it is not JSON.
        data = _text(data)
    return _message(topic, kept, data, content_type or _JSON, now_us)


def _message(
    topic: str, attributes: dict[str, str], data: bytes, content_type: str | None, now_us: int
) -> Message:
    for name in _REQUIRED:
        if not attributes.get(name):
            raise BadMessage(f"{name}: is missing; a CloudEvent has id, source, specversion, type")
    if attributes["specversion"] != _VERSION:
        raise BadMessage(f"specversion: must be {_VERSION}, not {attributes['specversion'][:16]!r}")
    headers = {_PREFIX + name: value for name, value in attributes.items() if name != "id"}
    return Message(
        topic,
        data,
        event_time_us(attributes["time"], "time") if "time" in attributes else now_us,
        bounded("partitionkey", attributes.get("partitionkey")),
        bounded("id", attributes["id"]),
        None if content_type is None else encode_content_type(content_type),
        encode_headers(headers),
    )


def _attribute(name: str, raw: msgspec.Raw) -> str | None:
    value = msgspec.json.decode(raw)
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    raise BadMessage(f"{name}: must be a string, a number or a boolean")


def _base64(raw: msgspec.Raw) -> bytes:
    try:
        return b64decode(msgspec.json.decode(raw, type=str), validate=True)
    except (msgspec.MsgspecError, BadBase64, ValueError) as error:
        raise BadMessage(f"data_base64: is not base64: {error}") from error


def _text(data: bytes) -> bytes:
    try:
        return msgspec.json.decode(data, type=str).encode("utf-8")
    except msgspec.MsgspecError:
        return data


def _is_json(content_type: str) -> bool:
    essence = content_type.partition(";")[0].strip().lower()
    return essence.endswith(("/json", "+json"))
