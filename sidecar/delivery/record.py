"""One message out of a frame, to be delivered on its own: its columns, and its JSON envelope.

Pure. Unlike `rendering.py`, which turns whole frames into text, this copies a message out of its
frame: a message that waits for a webhook must not keep the megabyte that it came in.
"""

from base64 import b64encode
from collections.abc import Iterable
from typing import Final, NamedTuple

import orjson

from log_format.frame import Frame
from log_format.sequence import SEQUENCE_MAX
from sidecar.delivery.record_id import id_prefix
from sidecar.delivery.rendering import render_time
from sidecar.publish.message import OCTETS, is_json_type

RECORD_OVERHEAD_BYTES: Final = 400
"""What the objects around a message's bytes take in memory, about."""


class Record(NamedTuple):
    """One message as it lies in the log. A tuple: there is one for each message."""

    topic: str
    partition: int
    offset: int
    event_us: int
    id: str
    key: bytes | None
    headers: bytes | None
    content_type: bytes | None
    value: bytes
    principal: str | None

    @property
    def size(self) -> int:
        """Bytes that it takes in memory, about."""
        return len(self.value) + len(self.headers or b"") + RECORD_OVERHEAD_BYTES

    @property
    def is_json(self) -> bool:
        """Whether its value is JSON and says so."""
        if self.content_type is not None and not is_json_type(self.content_type):
            return False
        try:
            orjson.loads(self.value)
        except orjson.JSONDecodeError:
            return False
        return True

    @property
    def media_type(self) -> str:
        """The type of its value, as an HTTP header has it."""
        if self.content_type is not None:
            return self.content_type.decode("ascii", "replace")
        return "application/json" if self.is_json else OCTETS.decode("ascii")


def records_of(frame: Frame, offsets: Iterable[int]) -> list[Record]:
    """The messages of a stamped frame at `offsets`, after its hash was checked."""
    frame.check_hash()
    producer, stamp = frame.envelope.producer, frame.envelope.stamp
    provenance = frame.envelope.provenance
    if stamp is None:
        raise ValueError("a frame without the log's stamp has no offsets")
    columns = frame.columns()
    derived = id_prefix(producer)
    principal = None if provenance is None else provenance.principal
    found = []
    for offset in offsets:
        index = offset - stamp.base_offset
        own = columns.id[index]
        found.append(
            Record(
                producer.topic,
                producer.partition,
                offset,
                columns.event_us[index],
                f"{derived}{(producer.first_sequence + index) & SEQUENCE_MAX}"
                if own is None
                else own.decode("utf-8", "replace"),
                columns.key[index],
                columns.headers[index],
                columns.content_type[index],
                columns.value[index] or b"",
                principal,
            )
        )
    return found


def headers_of(record: Record) -> dict[str, str]:
    """The message's headers; anything in the column that is no object of strings is left out."""
    if record.headers is None:
        return {}
    try:
        headers = orjson.loads(record.headers)
    except orjson.JSONDecodeError:
        return {}
    if not isinstance(headers, dict):
        return {}
    return {name: text for name, text in headers.items() if isinstance(text, str)}


def envelope_of(record: Record) -> bytes:
    """The message as apps read it everywhere: see `rendering.py`, which a test compares it with."""
    document: dict[str, object] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": render_time(record.event_us).decode("ascii"),
        "id": record.id,
        "key": None if record.key is None else record.key.decode("utf-8", "replace"),
        "headers": headers_of(record),
        **payload_of(record),
        "principal": record.principal,
    }
    return orjson.dumps(document)


def payload_of(record: Record) -> dict[str, object]:
    """`message` where the value is JSON, else `data_base64` and `content_type`."""
    if record.is_json:
        # Outside of strings line ends are only white space, and inside they cannot stand.
        return {"message": orjson.Fragment(record.value.translate(None, b"\r\n"))}
    return {
        "data_base64": base64_text(record.value),
        "content_type": (record.content_type or OCTETS).decode("utf-8", "replace"),
    }


def base64_text(value: bytes) -> str:
    """Bytes as they stand in JSON."""
    return b64encode(value).decode("ascii")
