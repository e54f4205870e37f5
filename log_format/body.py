"""The body: one batch's records as columns that Arrow can map without a copy.

A directory of fixed size names where each column's buffers lie; each buffer begins at a multiple
of 8. Variable-size columns are Arrow binary: int32 offsets, data, and a validity bitmap where
some are null. A column whose every value is null has no buffers at all.
"""

import struct
import sys
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from log_format.errors import BadBody
from log_format.limits import RECORDS_MAX
from log_format.parts import padded

_HEAD: Final = struct.Struct("<II")
_ENTRY: Final = struct.Struct("<IIII")
COLUMNS: Final = ("id", "key", "value", "content_type", "headers")
"""The variable-size columns, in the order of the directory, after the event times."""
_REQUIRED: Final = frozenset({"value"})
DIRECTORY_BYTES: Final = _HEAD.size + _ENTRY.size * (1 + len(COLUMNS))
_SWAP: Final = sys.byteorder == "big"

Values = Sequence[bytes | None]
Place = Callable[[bytes], int]


@dataclass(frozen=True, slots=True)
class Column:
    """One variable-size column, read in place. `validity` is None where nothing is null."""

    count: int
    validity: memoryview | None
    offsets: memoryview | None
    data: memoryview

    @property
    def all_null(self) -> bool:
        """True for a column that the producer left out."""
        return self.offsets is None

    def __getitem__(self, index: int) -> bytes | None:
        if self.offsets is None:
            return None
        if self.validity is not None and not self.validity[index >> 3] >> (index & 7) & 1:
            return None
        return bytes(self.data[self.offsets[index] : self.offsets[index + 1]])

    def __iter__(self) -> Iterator[bytes | None]:
        return (self[index] for index in range(self.count))

    def __len__(self) -> int:
        return self.count


@dataclass(frozen=True, slots=True)
class Columns:
    """A checked body. Every offset in it was compared with the body's length."""

    count: int
    event_us: memoryview
    id: Column
    key: Column
    value: Column
    content_type: Column
    headers: Column


def encode_body(
    event_us: "Sequence[int] | array[int]",
    values: Sequence[bytes],
    *,
    ids: Values | None = None,
    keys: Values | None = None,
    content_types: Values | None = None,
    headers: Values | None = None,
    data: bytes | None = None,
) -> bytes:
    """Build a body. A column given as None is null for every record and takes no room.

    `data` is all values back to back, for a caller that has them so already: joining many short
    values costs more than everything else here.
    """
    count = len(values)
    if not 1 <= count <= RECORDS_MAX:
        raise BadBody(f"a batch holds 1 to {RECORDS_MAX} records, not {count}")
    times = event_us if isinstance(event_us, array) else array("q", event_us)
    pieces: list[bytes] = [b""]
    directory = [_HEAD.pack(count, 0)]
    position = padded(DIRECTORY_BYTES)

    def place(piece: bytes) -> int:
        nonlocal position
        begin = position
        pieces.append(piece)
        if gap := -len(piece) % 8:
            pieces.append(bytes(gap))
        position += len(piece) + (-len(piece) % 8)
        return begin

    if len(times) != count:
        raise BadBody(f"{len(times)} event times for {count} records")
    begin = place(_little(times))
    directory.append(_ENTRY.pack(0, 0, begin, count * 8))
    for column in (ids, keys, values, content_types, headers):
        if column is None:
            directory.append(_ENTRY.pack(0, 0, 0, 0))
        elif len(column) != count:
            raise BadBody(f"a column of {len(column)} values for {count} records")
        elif column is values:
            joined = b"".join(values) if data is None else data
            directory.append(_place_dense(0, values, joined, place))
        else:
            directory.append(_place_column(column, place))
    pieces[0] = b"".join(directory).ljust(padded(DIRECTORY_BYTES), b"\0")
    return b"".join(pieces)


def _place_column(column: Values, place: Place) -> bytes:
    validity = 0
    if None in column:
        if all(value is None for value in column):
            return _ENTRY.pack(0, 0, 0, 0)
        validity = place(_bitmap(column))
    dense = [value or b"" for value in column]
    return _place_dense(validity, dense, b"".join(dense), place)


def _place_dense(validity: int, dense: Sequence[bytes], data: bytes, place: Place) -> bytes:
    ends = list(accumulate(map(len, dense), initial=0))
    if ends[-1] != len(data):
        raise BadBody(f"{len(data)} bytes of data for values of {ends[-1]}")
    # Not an array: it takes six times as long for the numbers of a large batch.
    offsets = struct.pack(f"<{len(ends)}i", *ends)
    return _ENTRY.pack(validity, place(offsets), place(data), len(data))


def _bitmap(column: Values) -> bytes:
    bits = 0
    for index, value in enumerate(column):
        if value is not None:
            bits |= 1 << index
    return bits.to_bytes((len(column) + 7) // 8, "little")


def _little(numbers: "array[int]") -> bytes:
    if _SWAP:
        numbers = array(numbers.typecode, numbers)
        numbers.byteswap()
    return numbers.tobytes()


def decode_body(body: bytes | memoryview) -> Columns:
    """Read an uncompressed body, or raise BadBody; no offset is used before it is checked."""
    view = memoryview(body)
    count, entries = read_directory(view)
    event_us = _ints(_slice(view, entries[0][2], count * 8, "event times"), "q")
    columns = {
        name: _decode_column(view, name, count, entry)
        for name, entry in zip(COLUMNS, entries[1:], strict=True)
    }
    return Columns(count, event_us, **columns)


def check_body(body: bytes | memoryview) -> int:
    """Check all that `decode_body` does, and return only the number of records."""
    view = memoryview(body)
    count, entries = read_directory(view)
    _slice(view, entries[0][2], count * 8, "event times")
    for name, entry in zip(COLUMNS, entries[1:], strict=True):
        if any(entry) or name in _REQUIRED:
            _decode_column(view, name, count, entry)
    return count


def read_directory(view: memoryview) -> tuple[int, list[tuple[int, int, int, int]]]:
    """The count and, per column, where validity, offsets and data begin and how long the data is.

    For readers that map columns by themselves: only what is returned here was checked, and every
    position must still be held against the body's length.
    """
    if len(view) < DIRECTORY_BYTES:
        raise BadBody(f"{len(view)} bytes are too few for the column directory")
    count, reserved = _HEAD.unpack_from(view)
    if reserved:
        raise BadBody("a reserved field is not zero")
    if not 1 <= count <= RECORDS_MAX:
        raise BadBody(f"{count} records; a batch holds 1 to {RECORDS_MAX}")
    entries = list(_ENTRY.iter_unpack(view[_HEAD.size : DIRECTORY_BYTES]))
    if entries[0][:2] != (0, 0) or entries[0][3] != count * 8:
        raise BadBody("the event times have a wrong directory entry")
    return count, entries


def _decode_column(
    view: memoryview, name: str, count: int, entry: tuple[int, int, int, int]
) -> Column:
    validity_at, offsets_at, data_at, data_len = entry
    if not any(entry):
        if name in _REQUIRED:
            raise BadBody(f"the column {name} is missing")
        return Column(count, None, None, view[:0])
    offsets = _ints(_slice(view, offsets_at, (count + 1) * 4, f"offsets of {name}"), "i")
    data = _slice(view, data_at, data_len, f"data of {name}")
    numbers = offsets.tolist()
    if numbers[0] != 0 or numbers[-1] != data_len or numbers != sorted(numbers):
        raise BadBody(f"the offsets of {name} do not rise from 0 to the length of its data")
    validity = None
    if validity_at:
        if name in _REQUIRED:
            raise BadBody(f"the column {name} may not hold nulls")
        validity = _slice(view, validity_at, (count + 7) // 8, f"validity of {name}")
        if count & 7 and validity[-1] >> (count & 7):
            raise BadBody(f"the validity of {name} has bits beyond its last record")
    return Column(count, validity, offsets, data)


def _slice(view: memoryview, begin: int, length: int, what: str) -> memoryview:
    if begin < DIRECTORY_BYTES or begin % 8 or begin + length > len(view):
        raise BadBody(f"the {what} lie outside of the body or are not aligned")
    return view[begin : begin + length]


def _ints(view: memoryview, typecode: str) -> memoryview:
    if _SWAP:
        numbers = array(typecode, bytes(view))
        numbers.byteswap()
        return memoryview(numbers)
    return view.cast(typecode)  # type: ignore[call-overload,no-any-return]
