"""From frames to what apps read: one JSON envelope for each message, as bytes.

Pure. A payload is put into the envelope as it is, but only after it was checked to be JSON:
whoever wrote it could otherwise forge the members around it, the principal among them.
"""

from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import orjson

from log_format.body import Columns
from log_format.frame import Frame
from log_format.sequence import SEQUENCE_MAX
from sidecar.json_text import is_json
from sidecar.message import OCTETS, is_json_type
from sidecar.record_id import id_prefix

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_US: Final = -62_135_596_800_000_000
_LAST_US: Final = 253_402_300_799_999_999
"""The years 1 to 9999, which RFC 3339 can write. Times beyond them are shown as these."""
_LINE_ENDS: Final = b"\r\n"


class Rendered(NamedTuple):
    """One message for an app."""

    offset: int
    envelope: bytes


def render_frame(frame: Frame, first_offset: int = 0) -> Iterator[Rendered]:
    """The messages of a stamped frame from `first_offset` on, each as one line of JSON.

    The frame's hash is checked first: what reaches an app is what its sender has signed for.
    """
    frame.check_hash()
    envelope = frame.envelope
    producer, stamp, provenance = envelope.producer, envelope.stamp, envelope.provenance
    if stamp is None:
        raise ValueError("a frame without the log's stamp has no offsets")
    columns = frame.columns()
    head = b'{"topic":"%s","partition":%d,"offset":' % (
        producer.topic.encode("ascii"),
        producer.partition,
    )
    principal = None if provenance is None else provenance.principal
    tail = b',"principal":' + orjson.dumps(principal) + b"}"
    derived = id_prefix(producer)
    for index in range(max(0, first_offset - stamp.base_offset), columns.count):
        offset = stamp.base_offset + index
        own = columns.id[index]
        if own is None:
            sequence = (producer.first_sequence + index) & SEQUENCE_MAX
            identity = b'"%s%d"' % (derived.encode("ascii"), sequence)
        else:
            identity = _string(own)
        yield Rendered(
            offset,
            b"".join(
                (
                    head,
                    b'%d,"timestamp":"%s","id":' % (offset, render_time(columns.event_us[index])),
                    identity,
                    b',"key":',
                    _string(columns.key[index]),
                    b',"headers":',
                    _headers(columns.headers[index]),
                    _payload(columns, index),
                    tail,
                )
            ),
        )


def render_time(event_us: int) -> bytes:
    """RFC 3339 in UTC with microseconds."""
    moment = _EPOCH + timedelta(microseconds=min(max(event_us, _FIRST_US), _LAST_US))
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0").encode("ascii")


def _payload(columns: Columns, index: int) -> bytes:
    value = columns.value[index] or b""
    content_type = columns.content_type[index]
    if (content_type is None or is_json_type(content_type)) and is_json(value):
        # Outside of strings line ends are only white space, and inside they cannot stand.
        return b',"message":' + value.translate(None, _LINE_ENDS)
    return b',"data_base64":"%s","content_type":%s' % (
        b64encode(value),
        _string(content_type or OCTETS),
    )


def _headers(stored: bytes | None) -> bytes:
    """An object of strings; anything else in the column is not shown."""
    if stored is None:
        return b"{}"
    try:
        headers = orjson.loads(stored)
    except orjson.JSONDecodeError:
        return b"{}"
    if not isinstance(headers, dict):
        return b"{}"
    return orjson.dumps({name: text for name, text in headers.items() if isinstance(text, str)})


def _string(stored: bytes | None) -> bytes:
    """A JSON string. Bytes of another producer that are no UTF-8 are shown as well as can be."""
    return orjson.dumps(None if stored is None else stored.decode("utf-8", "replace"))
