"""Strict JSON: an object that every reader understands alike, or nothing."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatekeeper.identity.strict_json import DEPTH_MAX, VALUES_MAX, NotStrictJson, load_object

SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=10)


def nested(depth: int) -> bytes:
    return b'{"a":' * (depth - 1) + b"{}" + b"}" * (depth - 1)


@given(st.dictionaries(st.text(max_size=5), SCALARS | st.lists(SCALARS, max_size=4), max_size=5))
def test_ordinary_objects_are_read_as_json_reads_them(value: dict[str, object]) -> None:
    assert load_object(json.dumps(value).encode()) == value


@pytest.mark.parametrize(
    "data",
    [
        b'{"a":1,"a":1}',
        b'{"a":{"b":1,"b":2}}',
        b'{"a":[{"b":1,"\\u0062":2}]}',
        b"[]",
        b'"text"',
        b"1",
        b"null",
        b"",
        b"{",
        b'{"a":1}x',
        b'{"a":NaN}',
        b'{"a":Infinity}',
        b'{"a":1e999}',
        b'{"a":01}',
        b"{'a':1}",
        b'{"a":1,}',
        b'{"a":"\xff"}',
        b'{"a":"\\ud800"}',
        b'\xef\xbb\xbf{"a":1}',
        '{"a":1}'.encode("utf-16"),
        b'{"a":1}\x00',
    ],
)
def test_duplicates_other_encodings_and_near_json_are_refused(data: bytes) -> None:
    with pytest.raises(NotStrictJson):
        load_object(data)


def test_depth_is_bounded() -> None:
    assert load_object(nested(DEPTH_MAX))
    with pytest.raises(NotStrictJson, match=f"deeper than {DEPTH_MAX}"):
        load_object(nested(DEPTH_MAX + 1))
    with pytest.raises(NotStrictJson):
        load_object(nested(100_000))


def test_the_number_of_values_is_bounded() -> None:
    load_object(json.dumps({"a": [0] * (VALUES_MAX - 1)}).encode())
    with pytest.raises(NotStrictJson, match=f"more than {VALUES_MAX}"):
        load_object(json.dumps({"a": [0] * VALUES_MAX}).encode())


def test_a_very_long_number_costs_nothing_and_loses_nothing_that_matters() -> None:
    assert load_object(b'{"exp":' + b"9" * 300 + b"}")["exp"] == pytest.approx(1e300)
