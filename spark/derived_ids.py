"""The ids of records that their app gave none, for a whole batch at once.

The same ids that the sidecar shows: the producer, its epoch, a checksum of topic and partition, and
the record's sequence. Numbers become digits by table, four at a time: Arrow's own conversion would
be the dearest part of a scan.
"""

from functools import lru_cache
from typing import Any, Final
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from log_format.parts import Producer
from log_format.sequence import SEQUENCE_MAX

_QUAD: Final = 10_000
_DIGITS: Final = 12
"""Three quads: more than a sequence of 31 bits has."""


def derived_ids(producer: Producer) -> Any:
    """One id per record, as an Arrow array of strings."""
    prefix = id_prefix(producer)
    first, last = producer.first_sequence, producer.first_sequence + producer.count - 1
    if last > SEQUENCE_MAX or len(str(first)) != len(str(last)):
        sequences = (first + np.arange(producer.count, dtype="i8")) & SEQUENCE_MAX
        digits = pc.cast(pa.array(sequences), pa.string())
        return pc.binary_join_element_wise(prefix, digits, "")
    head = prefix.encode("ascii")
    width = len(head) + len(str(first))
    sequences = np.arange(first, last + 1, dtype="i8")
    quads = _quads()
    rows = np.empty((producer.count, len(head) + _DIGITS), "u1")
    rows[:, : len(head)] = np.frombuffer(head, "u1")
    for place, divisor in enumerate((_QUAD * _QUAD, _QUAD, 1)):
        at = len(head) + place * 4
        rows[:, at : at + 4] = quads[sequences // divisor % _QUAD]
    kept = np.concatenate(
        (np.arange(len(head)), np.arange(len(head) + _DIGITS - len(str(first)), rows.shape[1]))
    )
    data = np.ascontiguousarray(rows[:, kept])
    offsets = np.arange(producer.count + 1, dtype="i4") * np.int32(width)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.string(), producer.count, buffers)


def id_prefix(producer: Producer) -> str:
    """What the ids of a batch's records have in common."""
    lane = crc32(f"{producer.topic}/{producer.partition}".encode())
    return f"{producer.producer_id:016x}-{producer.epoch}-{lane:08x}-"


@lru_cache(1)
def _quads() -> Any:
    """The digits of every number below 10,000."""
    numbers = np.arange(_QUAD)
    digits = [numbers // 1000, numbers // 100 % 10, numbers // 10 % 10, numbers % 10]
    return (np.stack(digits, axis=1) + ord("0")).astype("u1")
