"""One delivery as an HTTP request: its headers and its body. Pure.

Every delivery says what it is about in `Sidegate-…` headers, carries the message's own trace
context, and is identified as the Standard Webhooks specification asks: the same `webhook-id` for
every try of a message.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Literal
from urllib.parse import quote

import orjson

from sidecar.delivery.record import Record, base64_text, envelope_of, headers_of
from sidecar.delivery.rendering import render_time
from sidecar.push.webhook_signature import sign

BodyForm = Literal["raw", "envelope", "cloudevent"]
CLOUDEVENT: Final = "application/cloudevents+json"
PASSED_BYTES_MAX: Final = 8 * 1024
"""Headers of a message that travel on as headers of a raw delivery; servers take about this."""
_TRACE: Final = ("traceparent", "tracestate")
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
_FIELD_VALUE: Final = re.compile(r"[!-~](?:[\t -~]{0,2046}[!-~])?")
_ATTRIBUTE: Final = re.compile(r"[a-z0-9]{1,20}")
_OWN_ATTRIBUTES: Final = frozenset({"id", "specversion", "data", "datacontenttype"})


@dataclass(frozen=True, slots=True)
class Occasion:
    """Why this delivery is made: of which subscription, and which try it is."""

    subscription: str
    attempt: int
    mark: Mapping[str, str]
    """Further headers, such as those of a redrive."""


def delivery_body(record: Record, form: BodyForm) -> tuple[bytes, str]:
    """The body and its content type."""
    if form == "raw":
        return record.value, record.media_type
    if form == "envelope":
        return envelope_of(record), "application/json"
    return _cloudevent(record), CLOUDEVENT


def delivery_headers(record: Record, form: BodyForm, occasion: Occasion) -> dict[str, str]:
    """What every delivery carries, besides its content type and its signature."""
    own = headers_of(record)
    headers = {
        "Sidegate-Topic": record.topic,
        "Sidegate-Partition": str(record.partition),
        "Sidegate-Offset": str(record.offset),
        "Sidegate-Attempt": str(occasion.attempt),
        "Sidegate-Subscription": occasion.subscription,
        **occasion.mark,
    }
    for name, text in own.items():
        if name.lower() in _TRACE and _FIELD_VALUE.fullmatch(text):
            headers[name.lower()] = text
    if form == "raw":
        headers |= _passed(record, own)
    return headers


def signature_headers(
    record: Record, keys: Sequence[bytes], now_s: int, body: bytes
) -> dict[str, str]:
    """`webhook-id` and `webhook-timestamp`, and the signature where there is a key."""
    ident = webhook_id(record)
    headers = {"webhook-id": ident, "webhook-timestamp": str(now_s)}
    if keys:
        headers["webhook-signature"] = sign(keys, ident, now_s, body)
    return headers


def webhook_id(record: Record) -> str:
    """The same for every try of a message, and no other message's: made from its place."""
    place = f"{record.topic}/{record.partition}/{record.offset}"
    return "msg_" + sha256(place.encode()).hexdigest()[:32]


def _passed(record: Record, own: Mapping[str, str]) -> dict[str, str]:
    """A raw body has no room for the key, the id and the headers: they become headers."""
    passed = {"Sidegate-Id": quote(record.id, safe="!*'();:@&=+$,/?#[] ")}
    if record.key is not None:
        passed["Sidegate-Key"] = quote(record.key, safe="!*'();:@&=+$,/?#[] ")
    size = 0
    for name, text in own.items():
        size += len(name) + len(text)
        if size > PASSED_BYTES_MAX:
            break
        if _TOKEN.fullmatch(name) and _FIELD_VALUE.fullmatch(text):
            passed[f"Sidegate-Header-{name}"] = text
    return passed


def _cloudevent(record: Record) -> bytes:
    """The event in JSON. Attributes that came with the message as `ce-…` are given back."""
    kept = {
        name.lower().removeprefix("ce-"): text
        for name, text in headers_of(record).items()
        if name.lower().startswith("ce-")
    }
    event: dict[str, object] = {
        "specversion": "1.0",
        "id": record.id,
        "source": kept.pop("source", f"/topics/{record.topic}"),
        "type": kept.pop("type", "sidegate.message"),
        "time": kept.pop("time", render_time(record.event_us).decode("ascii")),
    }
    if record.key is not None:
        event["partitionkey"] = record.key.decode("utf-8", "replace")
    event |= {
        name: text
        for name, text in kept.items()
        if _ATTRIBUTE.fullmatch(name) and name not in _OWN_ATTRIBUTES
    }
    event["datacontenttype"] = record.media_type
    if record.is_json:
        event["data"] = orjson.Fragment(record.value)
    else:
        event["data_base64"] = base64_text(record.value)
    return orjson.dumps(event)
