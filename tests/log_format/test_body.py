"""Columns are Arrow's, and no offset is used before it is checked."""

import re
import struct
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_format.body import DIRECTORY_BYTES, check_body, decode_body, encode_body
from log_format.errors import BadBody

ENTRY_BYTES = 16
VALUE_ENTRY = 8 + ENTRY_BYTES * 3


def test_values_that_are_joined_already_make_the_same_body() -> None:
    values = [b"ab", b"", b"c"]
    assert encode_body([1, 2, 3], values, data=b"abc") == encode_body([1, 2, 3], values)
    with pytest.raises(BadBody, match="4 bytes of data for values of 3"):
        encode_body([1, 2, 3], values, data=b"abcd")


def test_null_and_empty_are_told_apart() -> None:
    columns = decode_body(encode_body([1, 2, 3], [b"a", b"", b"c"], keys=[None, b"", b"k"]))
    assert list(columns.key) == [None, b"", b"k"]
    assert list(columns.value) == [b"a", b"", b"c"]


def test_a_column_of_nulls_takes_no_room() -> None:
    values = [b"x"] * 100
    times = array("q", [5]) * 100
    without = encode_body(times, values)
    assert encode_body(times, values, keys=[None] * 100) == without
    assert decode_body(without).key.all_null
    assert len(encode_body(times, values, keys=[b""] * 100)) > len(without)


@pytest.mark.parametrize("count", [1, 7, 8, 9, 63, 64, 65])
def test_the_validity_bitmap_is_least_significant_bit_first(count: int) -> None:
    keys = [b"k" if index % 3 else None for index in range(count)]
    keys[-1] = b"k" if count > 1 else None
    body = encode_body([0] * count, [b"v"] * count, keys=keys)
    assert list(decode_body(body).key) == keys


def test_every_buffer_begins_at_a_multiple_of_eight() -> None:
    body = encode_body(
        [1, 2, 3], [b"a", b"bb", b"ccc"], ids=[b"1", b"2", b"3"], keys=[None, b"", b""]
    )
    entries = struct.unpack_from("<24I", body, 8)
    assert all(begin % 8 == 0 for index in range(0, 24, 4) for begin in entries[index : index + 3])
    assert len(body) % 8 == 0


def test_no_records_and_too_many_are_refused() -> None:
    with pytest.raises(BadBody, match="1 to 1000000"):
        encode_body([], [])
    with pytest.raises(BadBody):
        decode_body(struct.pack("<II", 0, 0) + bytes(DIRECTORY_BYTES))
    with pytest.raises(BadBody, match="2000000 records"):
        decode_body(struct.pack("<II", 2_000_000, 0) + bytes(DIRECTORY_BYTES))


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(BadBody, match="1 event times for 2 records"):
        encode_body([1], [b"a", b"b"])
    with pytest.raises(BadBody, match="a column of 1 values for 2 records"):
        encode_body([1, 2], [b"a", b"b"], keys=[b"k"])


@pytest.mark.parametrize(
    ("field", "number"),
    [(1, 0xFFFFFFF8), (2, 0xFFFFFFF8), (1, 8), (2, 0), (3, 0xFFFFFFFF), (3, 1), (1, 113)],
)
def test_a_buffer_outside_of_the_body_is_refused(field: int, number: int) -> None:
    body = bytearray(encode_body([1, 2], [b"ab", b"cd"]))
    struct.pack_into("<I", body, VALUE_ENTRY + 4 * field, number)
    with pytest.raises(BadBody):
        decode_body(bytes(body))


@pytest.mark.parametrize("offsets", [(0, 9, 4), (1, 2, 4), (0, 2, 5), (0, -1, 4), (0, 2, 3)])
def test_offsets_must_rise_from_zero_to_the_length_of_the_data(offsets: tuple[int, ...]) -> None:
    body = bytearray(encode_body([1, 2], [b"ab", b"cd"]))
    (at,) = struct.unpack_from("<I", body, VALUE_ENTRY + 4)
    struct.pack_into("<3i", body, at, *offsets)
    with pytest.raises(BadBody, match="offsets of value"):
        decode_body(bytes(body))


def test_the_value_column_is_required_and_has_no_nulls() -> None:
    body = bytearray(encode_body([1, 2], [b"ab", b"cd"], keys=[None, b"k"]))
    no_values = bytearray(body)
    struct.pack_into("<4I", no_values, VALUE_ENTRY, 0, 0, 0, 0)
    with pytest.raises(BadBody, match="value is missing"):
        decode_body(bytes(no_values))
    (validity,) = struct.unpack_from("<I", body, VALUE_ENTRY - ENTRY_BYTES)
    struct.pack_into("<I", body, VALUE_ENTRY, validity)
    with pytest.raises(BadBody, match="may not hold nulls"):
        decode_body(bytes(body))


@given(st.binary(max_size=300), st.integers(1, 4))
def test_a_garbled_body_is_refused_or_read_within_its_bounds(noise: bytes, count: int) -> None:
    data = struct.pack("<II", count, 0) + noise
    try:
        columns = decode_body(data)
    except BadBody:
        return
    assert sum(len(value or b"") for value in columns.value) <= len(data)


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_a_check_refuses_exactly_what_a_reader_would(position: int, flip: int) -> None:
    body = bytearray(encode_body([1, 2, 3], [b"ab", b"", b"cd"], keys=[None, b"", b"k"]))
    body[position % len(body)] ^= flip
    try:
        read = decode_body(bytes(body)).count
    except BadBody as error:
        with pytest.raises(BadBody, match=re.escape(str(error))):
            check_body(bytes(body))
    else:
        assert check_body(bytes(body)) == read
