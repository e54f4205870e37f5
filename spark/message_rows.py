"""Batches as Arrow record batches with one row per message.

Columns of the body are mapped where they lie. Columns of the envelope are one value per batch,
repeated. Small batches are put together and large ones cut, because Spark takes record batches
of some thousand rows best.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from log_format.errors import FormatError
from log_format.frame import Frame
from log_format.sequence import SEQUENCE_MAX
from spark.body_arrays import Arrays, body_arrays
from spark.columns import TIMESTAMP, Column, arrow_schema
from spark.damage import Damage
from spark.derived_ids import derived_ids
from spark.selection import Batch, body_damage
from spark.sender import body_state, sender_value

ROWS_MIN: Final = 8_192
ROWS_MAX: Final = 16_384
"""Rows in a record batch, where there are enough. Measured: below 4,000 each costs more than its
rows, above 20,000 nothing is gained."""
BYTES_MAX: Final = 8 * 1024 * 1024
"""Bodies in a record batch: large messages make batches of few rows, so that a task needs little
memory."""

CONSTANTS_MAX: Final = 16
"""Columns of one value that are kept for the next record batch: more than there are columns that
rarely change, and of usual names not more than 20 MiB."""

_WIDTHS: Final = {16: "i2", 32: "i4", 64: "i8"}
_ENVELOPE: Final = frozenset({"topic", "partition", "offset", "append_time", "sequence", "leaf"})


@dataclass(frozen=True, slots=True)
class _Opened:
    """A batch with the arrays of its body; empty where it has none to show."""

    batch: Batch
    arrays: Arrays

    @property
    def rows(self) -> int:
        return self.batch.end - self.batch.begin


def message_rows(
    found: Iterable[Batch | Damage],
    file: str,
    columns: Sequence[Column],
    *,
    verify: bool,
    on_damage: Callable[[Damage], None],
) -> Iterator[Any]:
    """Record batches with exactly `columns`. Damage goes to `on_damage`, which may raise."""
    schema = arrow_schema(columns)
    wanted = frozenset(column.name for column in columns if column.body)
    waiting: list[_Opened] = []
    rows = size = 0
    for each in found:
        if isinstance(each, Damage):
            on_damage(each)
            continue
        try:
            opened = _open(each, wanted, verify=verify)
        except FormatError as error:
            on_damage(body_damage(each, file, error))
            continue
        waiting.append(opened)
        rows += opened.rows
        size += each.envelope.uncompressed_len if wanted else 0
        if rows >= ROWS_MIN or size >= BYTES_MAX:
            yield from _emit(waiting, columns, schema)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield from _emit(waiting, columns, schema)


def _open(batch: Batch, wanted: frozenset[str], *, verify: bool) -> _Opened:
    envelope = batch.envelope
    if not envelope.has_body:
        return _Opened(batch, {})
    if verify:
        Frame(envelope, batch.body).check_hash()
    if envelope.encrypted or not (wanted or verify):
        return _Opened(batch, {})
    arrays = body_arrays(envelope, batch.body, wanted, check=verify)
    ids = arrays.get("id")
    if ids is not None and ids.null_count:
        derived = derived_ids(envelope.producer)
        arrays["id"] = derived if ids.null_count == len(ids) else pc.coalesce(ids, derived)
    return _Opened(batch, arrays)


def _emit(opened: list[_Opened], columns: Sequence[Column], schema: Any) -> Iterator[Any]:
    counts = np.array([each.rows for each in opened])
    arrays = [_column(column, opened, counts) for column in columns]
    total = int(counts.sum())
    table = pa.RecordBatch.from_arrays(arrays, schema=schema) if arrays else None
    for begin in range(0, total, ROWS_MAX):
        if table is None:
            raise ValueError("columns: name at least one")
        yield table.slice(begin, ROWS_MAX)


def _column(column: Column, opened: list[_Opened], counts: Any) -> Any:
    name = column.name
    if column.body:
        pieces = [_piece(each, column) for each in opened]
        return pieces[0] if len(pieces) == 1 else pa.concat_arrays(pieces)
    batches = [each.batch for each in opened]
    if name in ("offset", "sequence"):
        return _counted(name, batches, counts)
    if name in _ENVELOPE:
        return _repeated(_place_values(name, batches), column, counts)
    if name == "body":
        return _repeated([body_state(each.envelope) for each in batches], column, counts)
    return _repeated([sender_value(each.envelope, name) for each in batches], column, counts)


def _piece(opened: _Opened, column: Column) -> Any:
    array = opened.arrays.get(column.name)
    if array is None:
        return pa.nulls(opened.rows, column.arrow)
    batch = opened.batch
    if opened.rows == len(array):
        return array
    return array.slice(batch.begin, opened.rows)


def _place_values(name: str, batches: Sequence[Batch]) -> list[Any]:
    if name == "topic":
        return [each.envelope.producer.topic for each in batches]
    if name == "partition":
        return [each.envelope.producer.partition for each in batches]
    if name == "append_time":
        return [each.stamp.append_us for each in batches]
    return [each.stamp.leaf for each in batches]


def _repeated(values: list[Any], column: Column, counts: Any) -> Any:
    """One value per batch as one per row."""
    if column.arrow == pa.string():
        return _repeated_text(values, counts)
    numbers = np.repeat(np.array(values, "i8"), counts)
    if column.arrow == TIMESTAMP:
        buffer = pa.py_buffer(numbers)
        return pa.Array.from_buffers(TIMESTAMP, len(numbers), [None, buffer])
    return pa.array(numbers.astype(_WIDTHS[column.arrow.bit_width], copy=False))


def _repeated_text(values: list[str | None], counts: Any) -> Any:
    """Built by hand: five times as fast as taking each value so many times."""
    if len(set(values)) == 1:
        return _constant_text(values[0], int(counts.sum()))
    encoded = [b"" if value is None else value.encode() for value in values]
    data = b"".join([each * count for each, count in zip(encoded, counts.tolist(), strict=True)])
    lengths = np.repeat(np.array([len(each) for each in encoded], "i4"), counts)
    offsets = np.zeros(len(lengths) + 1, "i4")
    np.cumsum(lengths, out=offsets[1:])
    validity = None
    if None in values:
        known = np.repeat(np.array([value is not None for value in values]), counts)
        validity = pa.py_buffer(np.packbits(known, bitorder="little"))
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.string(), len(lengths), buffers)


@lru_cache(CONSTANTS_MAX)
def _constant_text(value: str | None, rows: int) -> Any:
    """Kept, since most of what an envelope says is said by all its neighbours too."""
    if value is None:
        return pa.nulls(rows, pa.string())
    encoded = value.encode()
    offsets = np.arange(rows + 1, dtype="i4") * np.int32(len(encoded))
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(encoded * rows)]
    return pa.Array.from_buffers(pa.string(), rows, buffers)


def _counted(name: str, batches: Sequence[Batch], counts: Any) -> Any:
    """Numbers that rise by one from record to record of a batch."""
    if name == "offset":
        firsts = [each.stamp.base_offset + each.begin for each in batches]
    else:
        firsts = [each.envelope.producer.first_sequence + each.begin for each in batches]
    before = np.cumsum(counts) - counts
    numbers = np.repeat(np.array(firsts, "i8") - before, counts) + np.arange(counts.sum())
    if name == "offset":
        return pa.array(numbers)
    return pa.array((numbers & SEQUENCE_MAX).astype("i4"))
