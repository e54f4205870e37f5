"""Records of the log of cursors."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core_log.subscriptions.cursor import Change, Place
from core_log.subscriptions.cursor_records import CURSORS_PER_RECORD, cursor_records, parse_change

RANGES = st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=3).map(tuple)
COUNTS = st.integers(0, 9)
ATTEMPTS = st.dictionaries(st.integers(0, 99), st.integers(1, 9), max_size=3)
CHANGES = st.builds(Change, RANGES, st.none() | ATTEMPTS, COUNTS, COUNTS) | st.builds(
    Place, st.integers(0, 99), RANGES, ATTEMPTS, COUNTS, COUNTS
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


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"acked": 7, "redelivered": 0, "expired": 0},
        {"acked": [[1]], "redelivered": 0, "expired": 0},
        {"acked": [], "attempts": [], "redelivered": 0, "expired": 0},
        {"acked": [], "redelivered": "many", "expired": 0},
    ],
)
def test_what_is_no_entry_is_an_error(entry: dict[str, object]) -> None:
    with pytest.raises((LookupError, TypeError, ValueError)):
        parse_change(entry)
