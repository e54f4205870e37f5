"""The ids of records that their app gave none, for a whole batch at once.

The same ids that the sidecar shows: the producer, its epoch, a checksum of topic and partition, and
the record's sequence. Neighbours differ in their last digits only, so those come from a table and
all before them is one value for thousands: Arrow's own conversion of numbers would be the dearest
part of a scan.
"""

from functools import lru_cache
from typing import Any, Final
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from log_format.parts import Producer
from log_format.sequence import SEQUENCE_MAX

_LOW: Final = 10_000
"""Numbers whose last digits are taken from the table."""
_LOW_DIGITS: Final = 4


def derived_ids(producer: Producer) -> Any:
    """One id per record, as an Arrow array of strings."""
    prefix = id_prefix(producer)
    first, end = producer.first_sequence, producer.first_sequence + producer.count
    digits = len(str(first))
    if end > SEQUENCE_MAX or digits != len(str(end - 1)) or digits < _LOW_DIGITS:
        sequences = (first + np.arange(producer.count, dtype="i8")) & SEQUENCE_MAX
        return pc.binary_join_element_wise(prefix, pc.cast(pa.array(sequences), pa.string()), "")
    width = len(prefix) + digits
    high_bytes = width - _LOW_DIGITS
    rows = np.empty(producer.count, [("high", f"V{high_bytes}"), ("low", f"V{_LOW_DIGITS}")])
    begin = first
    while begin < end:
        thousands, low = divmod(begin, _LOW)
        stop = min(end, begin + _LOW - low)
        high = f"{prefix}{thousands or ''}".encode("ascii")
        piece = rows[begin - first : stop - first]
        piece["high"] = np.void(high)
        piece["low"] = _low_digits()[low : low + stop - begin]
        begin = stop
    offsets = np.arange(0, (producer.count + 1) * width, width, dtype="i4")
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(rows.view("u1"))]
    return pa.Array.from_buffers(pa.string(), producer.count, buffers)


def id_prefix(producer: Producer) -> str:
    """What the ids of a batch's records have in common."""
    lane = crc32(f"{producer.topic}/{producer.partition}".encode())
    return f"{producer.producer_id:016x}-{producer.epoch}-{lane:08x}-"


@lru_cache(1)
def _low_digits() -> Any:
    """The last four digits of every number."""
    text = "".join(f"{number:04}" for number in range(_LOW))
    return np.frombuffer(text.encode("ascii"), f"V{_LOW_DIGITS}")
