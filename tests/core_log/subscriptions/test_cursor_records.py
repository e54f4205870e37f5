"""Records of the log of cursors."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core_log.subscriptions.cursor import Change, Place
from core_log.subscriptions.cursor_records import (
    CURSORS_PER_RECORD,
    HISTORIES_PER_RECORD,
    cursor_records,
    parse_change,
)
from core_log.subscriptions.tries import Try

RANGES = st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=3).map(tuple)
COUNTS = st.integers(0, 9)
ATTEMPTS = st.dictionaries(st.integers(0, 99), st.integers(1, 9), max_size=3)
TRIES = st.builds(Try, st.just(1), COUNTS, st.none() | COUNTS, st.text(max_size=50)).map(
    lambda each: (each,)
)
HISTORY = st.dictionaries(st.integers(0, 99), TRIES | st.just(()), max_size=3)
CHANGES = st.builds(Change, RANGES, st.none() | ATTEMPTS, COUNTS, COUNTS, HISTORY) | st.builds(
    Place, st.integers(0, 99), RANGES, ATTEMPTS, COUNTS, COUNTS, HISTORY
)


@given(st.lists(st.tuples(st.tuples(st.integers(1, 9), st.integers(0, 3)), CHANGES), max_size=5))
def test_records_read_back_as_what_was_written(
    changes: list[tuple[tuple[int, int], Change | Place]],
) -> None:
    entries = [
        each for record in cursor_records(changes) for each in orjson.loads(record)["cursors"]
    ]
    read = [((each["id"], each["partition"]), parse_change(each)) for each in entries]
    assert read == changes


def test_a_record_holds_so_many_cursors_and_no_more() -> None:
    changes = [((number, 0), Place(0)) for number in range(CURSORS_PER_RECORD + 1)]
    sizes = [len(orjson.loads(record)["cursors"]) for record in cursor_records(changes)]
    assert sizes == [CURSORS_PER_RECORD, 1]
    assert list(cursor_records([])) == []


def test_a_cursor_without_a_history_is_written_as_ever() -> None:
    changes = [((7, 1), Change(((1, 2),), {3: 4}, 5, 6)), ((7, 2), Place(1, ((3, 4),), {5: 6}))]
    (record,) = cursor_records(changes)
    assert record == (
        b'{"record":"cursors","cursors":['
        b'{"id":7,"partition":1,"acked":[[1,2]],"attempts":{"3":4},"redelivered":5,"expired":6},'
        b'{"id":7,"partition":2,"acked":[[3,4]],"low":1,"attempts":{"5":6},'
        b'"redelivered":0,"expired":0}]}'
    )


def test_an_entry_of_before_there_were_histories_is_read() -> None:
    entry = {"id": 7, "partition": 1, "acked": [], "attempts": {"3": 4}} | dict.fromkeys(
        ("redelivered", "expired"), 0
    )
    assert parse_change(entry) == Change((), {3: 4}, 0, 0, {})
    assert parse_change({**entry, "low": 3}) == Place(3, (), {3: 4})


def test_records_with_histories_hold_fewer_cursors() -> None:
    history = {0: (Try(1, 7, 500, "the app answered 500"),)}
    changes = [
        ((number, 0), Place(0, attempts={0: 1}, history=history))
        for number in range(HISTORIES_PER_RECORD + 1)
    ]
    sizes = [len(orjson.loads(record)["cursors"]) for record in cursor_records(changes)]
    assert sizes == [HISTORIES_PER_RECORD, 1]


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"acked": 7, "redelivered": 0, "expired": 0},
        {"acked": [[1]], "redelivered": 0, "expired": 0},
        {"acked": [], "attempts": [], "redelivered": 0, "expired": 0},
        {"acked": [], "redelivered": "many", "expired": 0},
        {"acked": [], "history": [], "redelivered": 0, "expired": 0},
        {"acked": [], "history": {"1": [7]}, "redelivered": 0, "expired": 0},
    ],
)
def test_what_is_no_entry_is_an_error(entry: dict[str, object]) -> None:
    with pytest.raises((LookupError, TypeError, ValueError)):
        parse_change(entry)
