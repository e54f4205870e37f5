"""Failed tries of messages: merged by number, bounded, replayed."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from core_log.subscriptions.tries import (
    ERROR_BYTES_MAX,
    FIRST_TRIES_KEPT,
    TRIES_MAX,
    BadTry,
    History,
    Tries,
    Try,
    history_json,
    merged,
    parse_tries,
)

ROW: dict[str, Any] = {"number": 1, "at_us": 7, "status": 500, "error": "the app answered 500"}
TRY = st.builds(
    Try,
    st.integers(1, 2 * TRIES_MAX),
    st.integers(0, 9),
    st.none() | st.just(500),
    st.text(max_size=9),
)
LISTS = st.lists(TRY, max_size=8)
LONG_LISTS = st.lists(st.builds(Try, st.integers(1, 300), st.just(0), st.none(), st.just("")))
OFFSETS = st.integers(0, 12)
BYTES_MAX = 600


def test_tries_read_back_as_they_were_written() -> None:
    tries = (Try(1, 7, 500, "the app answered 500"), Try(2, 9, None, "no answer came in time"))
    shown = orjson.loads(orjson.dumps(history_json({17: tries})))
    assert shown["17"][0] == ROW
    assert parse_tries(shown["17"]) == tries


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({}, "list of 1 to 100"),
        ([], "list of 1 to 100"),
        ([ROW] * (TRIES_MAX + 1), "list of 1 to 100"),
        ([7], "and nothing else"),
        ([{**ROW, "payload": "x"}], "and nothing else"),
        ([{"number": 1}], "and nothing else"),
        ([{**ROW, "number": 0}], "`number`"),
        ([{**ROW, "number": True}], "`number`"),
        ([{**ROW, "at_us": -1}], "`at_us`"),
        ([{**ROW, "at_us": 1.5}], "`at_us`"),
        ([{**ROW, "status": 1000}], "`status`"),
        ([{**ROW, "status": "500"}], "`status`"),
        ([{**ROW, "error": None}], "`error`"),
        ([{**ROW, "error": "ü" * (ERROR_BYTES_MAX // 2 + 1)}], "`error`"),
    ],
)
def test_what_is_no_list_of_tries_is_refused_with_what_is_wrong(value: Any, problem: str) -> None:
    with pytest.raises(BadTry, match=problem):
        parse_tries(value)


@given(LISTS, LISTS)
def test_merging_the_same_once_more_changes_nothing(known: list[Try], added: list[Try]) -> None:
    once = merged(merged((), known), added)
    assert merged(once, added) == once
    assert merged(once, known) == once
    assert [each.number for each in once] == sorted({each.number for each in known + added})


@given(LONG_LISTS, LONG_LISTS)
def test_it_does_not_matter_in_which_steps_tries_are_merged(
    one: list[Try], other: list[Try]
) -> None:
    assert merged(merged((), one), other) == merged((), one + other) == merged((), other + one)


def test_what_was_known_first_counts() -> None:
    assert merged((Try(1, 1, 500, "a"),), [Try(1, 2, 503, "b")]) == (Try(1, 1, 500, "a"),)


def test_the_first_few_tries_and_the_newest_are_kept() -> None:
    tries: Tries = ()
    for number in range(1, 3 * TRIES_MAX + 1):
        tries = merged(tries, [Try(number, number, 500, "")])
    numbers = [each.number for each in tries]
    assert len(numbers) == TRIES_MAX
    assert numbers[:FIRST_TRIES_KEPT] == list(range(1, FIRST_TRIES_KEPT + 1))
    newest = TRIES_MAX - FIRST_TRIES_KEPT
    assert numbers[FIRST_TRIES_KEPT:] == list(range(3 * TRIES_MAX - newest + 1, 3 * TRIES_MAX + 1))


class HistoryMachine(RuleBasedStateMachine):
    """A history is bounded, and what was written of it replays to what it is."""

    def __init__(self) -> None:
        super().__init__()
        self.history = History(BYTES_MAX)
        self.written = History(BYTES_MAX)

    @rule(added=st.dictionaries(OFFSETS, LISTS, max_size=3))
    def note(self, added: dict[int, list[Try]]) -> None:
        self.history.note(added)
        before = self.history.known
        self.history.note({offset: tries for offset, tries in added.items() if offset in before})
        assert self.history.known == before

    @rule(offsets=st.sets(OFFSETS))
    def keep_only(self, offsets: set[int]) -> None:
        before = self.history.known
        self.history.keep_only(offsets)
        assert self.history.known == {o: before[o] for o in before if o in offsets}

    @rule()
    def write(self) -> None:
        change = self.history.take_change()
        for _ in range(2):
            self.written.replay(change)
            assert self.written.known == self.history.known
        assert not self.history.changed

    @invariant()
    def it_is_bounded_and_has_no_message_without_tries(self) -> None:
        known = self.history.known
        assert all(known.values())
        assert sum(len(orjson.dumps(tries)) for tries in known.values()) <= BYTES_MAX
        assert bool(self.history) == bool(known)
        assert self.history.of([0, 5]) == {o: known[o] for o in (0, 5) if o in known}


TestHistory = HistoryMachine.TestCase


def test_beyond_the_bound_the_lowest_offsets_stay() -> None:
    history = History(BYTES_MAX)
    tries = [Try(1, 1, 500, "x" * 130)]
    history.note(dict.fromkeys(range(20, 30), tries))
    assert history.known.keys() == {20, 21, 22}
    history.note({3: tries})
    assert history.known.keys() == {3, 20, 21}
    history.note({25: tries})
    assert history.known.keys() == {3, 20, 21}
