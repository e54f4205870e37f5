"""Failed tries: bounded, read from the wire, and those that nobody told of."""

import orjson
import pytest

from sidecar.delivery.tries import (
    ERROR_BYTES_MAX,
    FIRST_TRIES_KEPT,
    HISTORY_MAX,
    NOT_TOLD,
    Try,
    bounded,
    cut_error,
    parse_history,
    tries_not_told,
)

ONE, TWO = Try(1, 7, 500, "the app answered 500"), Try(2, 9, None, "no answer came in time")


def test_the_wire_brings_tries_as_they_were_told():
    told = orjson.loads(orjson.dumps({"history": {"17": (ONE, TWO)}}))
    assert told["history"]["17"][1] == {
        "number": 2, "at_us": 9, "status": None, "error": "no answer came in time",
    }  # fmt: skip
    assert parse_history(told) == {17: (ONE, TWO)}


def test_a_message_without_a_history_has_none():
    assert parse_history({"attempts": {"17": 2}}) == {}


@pytest.mark.parametrize("history", [{"x": []}, {"1": [7]}, {"1": [{"number": 1}]}, []])
def test_what_is_no_history_is_an_error(history):
    with pytest.raises((KeyError, TypeError, ValueError, AttributeError)):
        parse_history({"history": history})


def test_beyond_the_bound_the_first_few_and_the_newest_are_kept():
    tries = [Try(number, 0, 500, "") for number in range(1, 251)]
    kept = [each.number for each in bounded(tries)]
    assert len(kept) == HISTORY_MAX
    assert kept[:FIRST_TRIES_KEPT] == list(range(1, FIRST_TRIES_KEPT + 1))
    assert kept[FIRST_TRIES_KEPT:] == list(range(251 - HISTORY_MAX + FIRST_TRIES_KEPT, 251))
    assert bounded(tries[:HISTORY_MAX]) == tuple(tries[:HISTORY_MAX])


def test_an_error_is_cut_in_bytes_and_never_within_a_character():
    assert cut_error("short") == "short"
    assert cut_error("x" + "ü" * 200) == "x" + "ü" * 99
    assert len(cut_error("\ud800" * 300).encode()) <= ERROR_BYTES_MAX


def test_what_was_counted_and_not_told_is_listed_behind_what_is_known():
    assert tries_not_told((ONE, TWO), 2, 50) == ()
    assert tries_not_told((ONE, TWO), 4, 50) == (
        Try(3, 50, None, NOT_TOLD),
        Try(4, 50, None, NOT_TOLD),
    )
    assert [each.number for each in tries_not_told((), 1, 50)] == [1]
    assert len(tries_not_told((), 5_000, 50)) == HISTORY_MAX
    assert tries_not_told((), 5_000, 50)[-1].number == 5_000
    assert len(NOT_TOLD.encode()) <= ERROR_BYTES_MAX
