"""Parameters: known, once, well formed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import MultiDict

from gatekeeper.api.parameters import (
    INT64_MAX,
    json_object,
    known_query,
    required,
    topic_name,
    whole_number,
)
from gatekeeper.errors import BadRequest


def test_known_parameters_pass_and_others_are_named() -> None:
    assert known_query(MultiDict([("a", "1")]), frozenset({"a", "b"})) == {"a": "1"}
    with pytest.raises(BadRequest, match="'c' is unknown here; known are: a"):
        known_query(MultiDict([("c", "1")]), frozenset({"a"}))


def test_a_parameter_that_stands_twice_is_refused() -> None:
    with pytest.raises(BadRequest, match="a is given twice"):
        known_query(MultiDict([("a", "1"), ("a", "2")]), frozenset({"a"}))


def test_a_missing_parameter_is_named() -> None:
    with pytest.raises(BadRequest, match="topic is missing"):
        required({}, "topic")


@given(st.integers(0, INT64_MAX))
def test_whole_numbers_are_read(number: int) -> None:
    assert whole_number(str(number), "offset") == number


@pytest.mark.parametrize("text", ["", "-1", "+1", "1.0", "1e3", " 1", "٣", "9" * 19, "0x1", "1_0"])
def test_what_is_no_plain_number_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="offset: must be a whole number"):
        whole_number(text, "offset")


def test_topics_of_the_system_pass_only_where_they_may() -> None:
    assert topic_name("_audit") == "_audit"
    with pytest.raises(BadRequest, match="kept for the system"):
        topic_name("_audit", system=False)
    with pytest.raises(BadRequest):
        topic_name(None)


@pytest.mark.parametrize("text", [b"", b"[]", b"7", b'{"a":1,"a":2}', b'{"a":NaN}', b"\xff"])
def test_only_sound_json_objects_pass(text: bytes) -> None:
    with pytest.raises(BadRequest):
        json_object(text)
    assert json_object(b'{"a":[1,null]}') == {"a": [1, None]}
