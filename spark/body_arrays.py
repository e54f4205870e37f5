"""A batch's body as Arrow arrays over the bytes where they lie: no copy, no loop over records.

Checks the same things as `log_format.body.decode_body`, a column at a time with NumPy instead of
record by record. Raises BadBody; never lets an unchecked offset reach Arrow.
"""

from collections.abc import Collection
from typing import Any, Final

import numpy as np
import pyarrow as pa

from log_format.body import COLUMNS, DIRECTORY_BYTES, read_directory
from log_format.compression import expand
from log_format.envelope import Envelope
from log_format.errors import BadBody
from spark.columns import TIMESTAMP

_REQUIRED: Final = "value"
_TEXT: Final = frozenset({"id", "content_type", "headers"})
"""Shown as text. Keys and values stay bytes, as in Kafka's source: they are the app's own."""

Arrays = dict[str, Any]


def body_arrays(
    envelope: Envelope, stored: bytes | memoryview, wanted: Collection[str], *, check: bool
) -> Arrays:
    """The wanted columns of a stored body: event_time, size, and those of the format.

    `check` also looks at the columns that are not wanted, as a verification must.
    """
    view = memoryview(expand(envelope.codec, stored, envelope.uncompressed_len))
    count, entries = read_directory(view)
    if count != envelope.producer.count:
        raise BadBody(f"{count} records where the envelope says {envelope.producer.count}")
    arrays: Arrays = {}
    times = _slice(view, entries[0][2], count * 8, "event times")
    if "event_time" in wanted:
        arrays["event_time"] = pa.Array.from_buffers(TIMESTAMP, count, [None, pa.py_buffer(times)])
    for name, entry in zip(COLUMNS, entries[1:], strict=True):
        sized = name == _REQUIRED and "size" in wanted
        if check or sized or name in wanted:
            offsets, buffers = _column(view, name, count, entry)
            if sized:
                sizes = offsets[1:] - offsets[:-1]
                arrays["size"] = pa.Array.from_buffers(
                    pa.int32(), count, [None, pa.py_buffer(sizes)]
                )
            if name in wanted:
                arrays[name] = _array(name, count, buffers)
    return arrays


def _column(
    view: memoryview, name: str, count: int, entry: tuple[int, int, int, int]
) -> tuple[Any, list[Any] | None]:
    """The column's offsets and Arrow buffers; no buffers where every value is null."""
    validity_at, offsets_at, data_at, data_len = entry
    if not any(entry):
        if name == _REQUIRED:
            raise BadBody(f"the column {name} is missing")
        return None, None
    place = _slice(view, offsets_at, (count + 1) * 4, f"offsets of {name}")
    data = _slice(view, data_at, data_len, f"data of {name}")
    offsets = np.frombuffer(place, "<i4")
    if offsets[0] != 0 or offsets[-1] != data_len or (offsets[1:] < offsets[:-1]).any():
        raise BadBody(f"the offsets of {name} do not rise from 0 to the length of its data")
    validity = None
    if validity_at:
        if name == _REQUIRED:
            raise BadBody(f"the column {name} may not hold nulls")
        bits = _slice(view, validity_at, (count + 7) // 8, f"validity of {name}")
        if count & 7 and bits[-1] >> (count & 7):
            raise BadBody(f"the validity of {name} has bits beyond its last record")
        validity = pa.py_buffer(bits)
    return offsets, [validity, pa.py_buffer(place), pa.py_buffer(data)]


def _array(name: str, count: int, buffers: list[Any] | None) -> Any:
    kind = pa.string() if name in _TEXT else pa.binary()
    if buffers is None:
        return pa.nulls(count, kind)
    array = pa.Array.from_buffers(kind, count, buffers)
    if name in _TEXT:
        try:
            array.validate(full=True)
        except pa.ArrowInvalid:
            # Bytes that are no text are an app's fault, not the log's: shown as far as they can be.
            raw = pa.Array.from_buffers(pa.binary(), count, buffers)
            decoded = [
                None if each is None else each.decode(errors="replace") for each in raw.to_pylist()
            ]
            array = pa.array(decoded, kind)
    return array


def _slice(view: memoryview, begin: int, length: int, what: str) -> memoryview:
    if begin < DIRECTORY_BYTES or begin % 8 or begin + length > len(view):
        raise BadBody(f"the {what} lie outside of the body or are not aligned")
    return view[begin : begin + length]
