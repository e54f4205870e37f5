"""From frames to what apps read: one JSON envelope for each message, as bytes.

Pure. A payload is put into the envelope as it is, but only after it was checked to be JSON:
whoever wrote it could otherwise forge the members around it, the principal among them.
"""

from base64 import b64encode
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import repeat
from typing import Final, NamedTuple

import msgspec
import orjson

from log_format.body import Column, Columns
from log_format.frame import Frame
from log_format.parts import Producer
from log_format.sequence import SEQUENCE_MAX
from sidecar.delivery.record_id import id_prefix
from sidecar.publish.message import OCTETS, is_json_type

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_US: Final = -62_135_596_800_000_000
_LAST_US: Final = 253_402_300_799_999_999
"""The years 1 to 9999, which RFC 3339 can write. Times beyond them are shown as these."""
_LINE_ENDS: Final = b"\r\n"
_NO_LINE_ENDS: Final = {10: None, 13: None}
_CHECK: Final = msgspec.json.Decoder(msgspec.Raw)
SECONDS_MAX: Final = 1024
"""Seconds whose text is remembered: the messages of a batch were mostly sent in one."""


class Rendered(NamedTuple):
    """One message for an app."""

    offset: int
    envelope: bytes


def render_frame(frame: Frame, first_offset: int = 0) -> Iterator[Rendered]:
    """The messages of a stamped frame from `first_offset` on, each as one line of JSON."""
    stamp = frame.envelope.stamp
    base = 0 if stamp is None else stamp.base_offset
    offsets = range(max(base, first_offset), base + frame.envelope.producer.count)
    for offset, spelled in zip(offsets, spell_frame(frame, offsets), strict=True):
        yield Rendered(offset, spelled.encode("latin-1"))


def spell_frame(
    frame: Frame, offsets: Sequence[int], attempts: Mapping[int, int] | None = None
) -> list[str]:
    """The messages at these offsets of a stamped frame, each as one line of JSON.

    Lines are *spelled*: each character stands for one byte, so that what is put around and
    between them costs no copy of its own, and one `encode("latin-1")` turns any number of them
    into bytes. The frame's hash is checked first: what reaches an app is what its sender has
    signed for. `attempts` has the earlier tries of those that had any.
    """
    frame.check_hash()
    envelope = frame.envelope
    producer, stamp, provenance = envelope.producer, envelope.stamp, envelope.provenance
    if stamp is None:
        raise ValueError("a frame without the log's stamp has no offsets")
    if not offsets:
        return []
    columns = frame.columns()
    base = stamp.base_offset
    indices = (
        range(offsets.start - base, offsets.stop - base)
        if isinstance(offsets, range) and offsets.step == 1
        else [offset - base for offset in offsets]
    )
    head = f'{{"topic":"{producer.topic}","partition":{producer.partition},"offset":'
    principal = None if provenance is None else provenance.principal
    tail = f',"principal":{_spell(orjson.dumps(principal))}}}'
    payloads = _payloads(columns, indices)
    last = producer.first_sequence + indices[-1]
    if (
        columns.id.all_null
        and columns.key.all_null
        and columns.headers.all_null
        and (last <= SEQUENCE_MAX)
    ):
        lines = _plain(columns, producer, offsets, indices, (head, payloads, tail))
    else:
        middles = _middles(columns, producer, indices)
        lines = [
            f"{head}{offset}{middle}{payload}{tail}"
            for offset, middle, payload in zip(offsets, middles, payloads, strict=True)
        ]
    if attempts:
        for at, offset in enumerate(offsets):
            if offset in attempts:
                lines[at] = f'{lines[at][:-1]},"attempt":{attempts[offset] + 1}}}'
    return lines


def _plain(
    columns: Columns,
    producer: Producer,
    offsets: Sequence[int],
    indices: Sequence[int],
    parts: tuple[str, Sequence[str], str],
) -> list[str]:
    """The lines of messages that have a time and a payload only, which most have: one step each."""
    head, payloads, tail = parts
    times = [columns.event_us[index] for index in indices]
    derived, rest = id_prefix(producer), '","key":null,"headers":{}'
    ahead = producer.first_sequence + indices[0] - offsets[0]
    if min(times) == max(times):
        middle = f',"timestamp":"{_moment(times[0])}","id":"{derived}'
        return [
            f"{head}{offset}{middle}{offset + ahead}{rest}{payload}{tail}"
            for offset, payload in zip(offsets, payloads, strict=True)
        ]
    own = f'","id":"{derived}'
    return [
        f'{head}{offset},"timestamp":"{moment}{own}{offset + ahead}{rest}{payload}{tail}'
        for offset, moment, payload in zip(offsets, _moments(times), payloads, strict=True)
    ]


def _middles(columns: Columns, producer: Producer, indices: Sequence[int]) -> Iterable[str]:
    """What stands between a message's offset and its payload: time, id, key and headers."""
    moments = _moments([columns.event_us[index] for index in indices])
    derived, first = id_prefix(producer), producer.first_sequence

    def derive(index: int) -> str:
        return f'"{derived}{(first + index) & SEQUENCE_MAX}"'

    return [
        f',"timestamp":"{moment}","id":{own or derive(index)},"key":{key},"headers":{headers}'
        for index, moment, own, key, headers in zip(
            indices,
            moments,
            _spelled(columns.id, indices, _string, ""),
            _spelled(columns.key, indices, _string, "null"),
            _spelled(columns.headers, indices, _headers, "{}"),
            strict=True,
        )
    ]


def _spelled(
    column: Column, indices: Sequence[int], spell: Callable[[bytes], str], null: str
) -> Iterable[str]:
    """A column's values as JSON. Messages of one batch often share them: each is spelled once."""
    if column.offsets is None:
        return repeat(null, len(indices))
    known: dict[bytes, str] = {}
    data, at, validity = bytes(column.data), column.offsets.tolist(), column.validity
    found = []
    for index in indices:
        if validity is not None and not validity[index >> 3] >> (index & 7) & 1:
            found.append(null)
            continue
        stored = data[at[index] : at[index + 1]]
        text = known.get(stored)
        if text is None:
            text = known[stored] = spell(stored)
        found.append(text)
    return found


def _moments(times: Sequence[int]) -> Iterable[str]:
    least, greatest = min(times), max(times)
    if least == greatest:
        return repeat(_moment(least), len(times))
    second = least // 1_000_000
    if second != greatest // 1_000_000 or not _FIRST_US <= least <= greatest <= _LAST_US:
        return map(_moment, times)
    prefix, begin = _second(second), second * 1_000_000
    return [f"{prefix}{each - begin:06d}Z" for each in times]


def _payloads(columns: Columns, indices: Sequence[int]) -> list[str]:
    column, data = columns.value, bytes(columns.value.data)
    if not columns.content_type.all_null or column.offsets is None:
        return [_payload(columns, index) for index in indices]
    at = column.offsets.tolist()
    text = data.decode("latin-1")
    values = [text[at[index] : at[index + 1]] for index in indices]
    if not _all_json(values, data):
        return [_payload(columns, index) for index in indices]
    if b"\n" in data or b"\r" in data:
        values = [value.translate(_NO_LINE_ENDS) for value in values]
    return [f',"message":{value}' for value in values]


def _all_json(values: Iterable[str], data: bytes) -> bool:
    """Whether all of them are JSON for sure; where not, each has to be looked at."""
    if not data.isascii():
        return False
    try:
        # The check builds no objects. It takes any bytes in a string, so ASCII comes first.
        deque(map(_CHECK.decode, values), maxlen=0)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def render_time(event_us: int) -> bytes:
    """RFC 3339 in UTC with microseconds."""
    return _moment(event_us).encode("ascii")


def _moment(event_us: int) -> str:
    seconds, micros = divmod(min(max(event_us, _FIRST_US), _LAST_US), 1_000_000)
    return f"{_second(seconds)}{micros:06d}Z"


@lru_cache(maxsize=SECONDS_MAX)
def _second(seconds: int) -> str:
    moment = _EPOCH + timedelta(seconds=seconds)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.").rjust(20, "0")


def _payload(columns: Columns, index: int) -> str:
    value = columns.value[index] or b""
    content_type = columns.content_type[index]
    if (content_type is None or is_json_type(content_type)) and is_json(value):
        # Outside of strings line ends are only white space, and inside they cannot stand.
        return f',"message":{_spell(value.translate(None, _LINE_ENDS))}'
    kind = _string(content_type or OCTETS)
    return f',"data_base64":"{_spell(b64encode(value))}","content_type":{kind}'


def is_json(value: bytes) -> bool:
    """Whether it is one JSON text in UTF-8."""
    try:
        orjson.loads(value)
    except orjson.JSONDecodeError:
        return False
    return True


def _headers(stored: bytes) -> str:
    """An object of strings; anything else in the column is not shown."""
    try:
        headers = orjson.loads(stored)
    except orjson.JSONDecodeError:
        return "{}"
    if not isinstance(headers, dict):
        return "{}"
    shown = {name: text for name, text in headers.items() if isinstance(text, str)}
    return _spell(orjson.dumps(shown))


def _string(stored: bytes) -> str:
    """A JSON string. Bytes of another producer that are no UTF-8 are shown as well as can be."""
    if stored.isalnum():
        # Of bytes, only ASCII letters and digits are: nothing to escape.
        return f'"{_spell(stored)}"'
    return _spell(orjson.dumps(stored.decode("utf-8", "replace")))


def _spell(data: bytes) -> str:
    return data.decode("latin-1")
