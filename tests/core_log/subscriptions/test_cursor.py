"""Cursors: a low mark and ranges above it, against a plain set of offsets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from core_log.subscriptions.cursor import (
    ATTEMPTS_MAX,
    CHANGES_MAX,
    RANGES_MAX,
    RANGES_SLOW,
    Change,
    Cursor,
    Place,
    TooManyRanges,
)
from core_log.subscriptions.tries import Try

OFFSETS = st.integers(0, 60)
TRIES = st.lists(
    st.builds(Try, st.integers(1, 9), st.just(0), st.none(), st.just("no answer")), min_size=1
).map(tuple)
RANGES = st.tuples(OFFSETS, OFFSETS).map(lambda pair: (min(pair), max(pair)))


def test_acknowledging_the_low_mark_moves_it_over_the_ranges_that_it_meets() -> None:
    cursor = Cursor(Place(17))
    cursor.ack([(19, 22), (24, 24)])
    assert (cursor.low, cursor.acked) == (17, ((19, 22), (24, 24)))
    cursor.ack([(17, 18)])
    assert (cursor.low, cursor.acked) == (23, ((24, 24),))
    cursor.ack([(23, 23)])
    assert (cursor.low, cursor.acked) == (25, ())


def test_ranges_that_touch_become_one() -> None:
    cursor = Cursor(Place(0, ((2, 3), (8, 9))))
    cursor.ack([(4, 7)])
    assert cursor.acked == ((2, 9),)


class CursorMachine(RuleBasedStateMachine):
    """Everything that a cursor says is what a set of offsets says, and what was written replays."""

    def __init__(self) -> None:
        super().__init__()
        self.cursor = Cursor(Place(5))
        self.written = Cursor(Place(5))
        self.done = set(range(5))

    @rule(ranges=st.lists(RANGES, max_size=4))
    def ack(self, ranges: list[tuple[int, int]]) -> None:
        self.cursor.ack(ranges)
        for first, last in ranges:
            self.done |= set(range(first, last + 1))

    @rule(where=RANGES)
    def skip(self, where: tuple[int, int]) -> None:
        first, last = where
        open_before = set(range(first, last + 1)) - self.done
        before = self.cursor.expired
        assert self.cursor.skip(first, last + 1) == len(open_before)
        assert self.cursor.expired == before + len(open_before)
        self.done |= open_before

    @rule(low=OFFSETS)
    def seek(self, low: int) -> None:
        self.cursor.seek(low)
        self.done = set(range(low))

    @rule(ranges=st.lists(RANGES, max_size=3, unique=True))
    def tried(self, ranges: list[tuple[int, int]]) -> None:
        self.cursor.tried(ranges)

    @rule(
        totals=st.dictionaries(OFFSETS, st.integers(1, 9), max_size=4),
        history=st.dictionaries(OFFSETS, TRIES, max_size=4),
    )
    def count(self, totals: dict[int, int], history: dict[int, tuple[Try, ...]]) -> None:
        before = dict(self.cursor.attempts)
        told = {offset: history[offset] for offset in totals if offset in history}
        self.cursor.count_attempts(totals, told)
        place = self.cursor.place
        self.cursor.count_attempts(totals, told)
        assert self.cursor.place == place, "what is told twice is known once"
        for offset, total in totals.items():
            if offset not in self.done:
                assert self.cursor.attempts[offset] == max(before.get(offset, 0), total)

    @rule(reached=st.booleans())
    def write(self, *, reached: bool) -> None:
        if self.cursor.changed:
            change = self.cursor.take_change()
            if reached:
                self.written.replay(change)
            else:
                self.cursor.not_written()

    @rule()
    def reopen(self) -> None:
        if self.cursor.changed:
            self.written.replay(self.cursor.take_change())
        assert self.written.place == self.cursor.place
        self.cursor = Cursor(self.written.place)

    @invariant()
    def the_marks_are_in_order(self) -> None:
        ends = [self.cursor.low - 1]
        for first, last in self.cursor.acked:
            assert first > ends[-1] + 1
            assert last >= first
            ends.append(last)

    @invariant()
    def it_says_what_the_set_says(self) -> None:
        cursor, everything = self.cursor, range(70)
        assert {offset for offset in everything if cursor.done(offset)} == self.done
        for end in (0, 7, 31, 69):
            assert cursor.open_below(end) == len(set(range(end)) - self.done)
            covered = [o for a, b in cursor.open_ranges(3, end) for o in range(a, b + 1)]
            assert covered == sorted(set(range(3, end)) - self.done)
            assert cursor.next_open(end) == min(set(range(end, 130)) - self.done)

    @invariant()
    def what_is_done_has_no_attempts_and_what_has_none_has_no_history(self) -> None:
        assert not self.cursor.attempts.keys() & self.done
        assert self.cursor.history.known.keys() <= self.cursor.attempts.keys()


TestCursor = CursorMachine.TestCase


def test_a_change_is_small_however_many_acknowledgements_it_holds() -> None:
    cursor = Cursor(Place(0))
    for offset in range(100_000):
        cursor.ack([(offset, offset)])
    assert cursor.take_change() == Change(((0, 99_999),), None, 0, 0)
    assert not cursor.changed


def test_many_scattered_acknowledgements_are_written_as_the_whole_cursor() -> None:
    cursor = Cursor(Place(0))
    for offset in range(1, 2 * CHANGES_MAX + 3, 2):
        cursor.ack([(offset, offset)])
    written = cursor.take_change()
    assert isinstance(written, Place)
    assert written.acked == cursor.acked


def test_what_did_not_reach_the_disk_is_written_again_whole() -> None:
    cursor = Cursor(Place(0))
    cursor.ack([(0, 4)])
    cursor.take_change()
    cursor.not_written()
    assert cursor.take_change() == Place(5)


def test_ranges_are_bounded_and_refused_beyond_with_nothing_changed() -> None:
    cursor = Cursor(Place(0, tuple((offset, offset) for offset in range(1, 2 * RANGES_MAX, 2))))
    assert cursor.range_count == RANGES_MAX
    assert cursor.slow
    with pytest.raises(TooManyRanges, match=str(RANGES_MAX)):
        cursor.ack([(0, 0), (4 * RANGES_MAX, 4 * RANGES_MAX), (9 * RANGES_MAX, 9 * RANGES_MAX)])
    assert (cursor.low, cursor.range_count, cursor.changed) == (0, RANGES_MAX, False)
    cursor.ack([(4, 4)])
    assert cursor.range_count == RANGES_MAX - 1, "closing a gap is always possible"


def test_it_slows_down_before_the_limit_is_reached() -> None:
    assert RANGES_SLOW < RANGES_MAX
    cursor = Cursor(Place(0, tuple((offset, offset) for offset in range(1, 2 * RANGES_SLOW, 2))))
    assert cursor.slow
    cursor.ack([(0, 1)])
    assert not cursor.slow


def test_attempts_are_kept_for_the_lowest_offsets() -> None:
    cursor = Cursor(Place(0))
    assert cursor.tried([(500, 500 + 2 * ATTEMPTS_MAX)]) == 2 * ATTEMPTS_MAX + 1
    assert len(cursor.attempts) == ATTEMPTS_MAX
    cursor.tried([(3, 3)])
    assert len(cursor.attempts) == ATTEMPTS_MAX
    assert cursor.attempts[3] == 1
    assert max(cursor.attempts) == 500 + ATTEMPTS_MAX - 2


def test_the_history_goes_with_the_attempts() -> None:
    tries = (Try(1, 1, 500, "the app answered 500"),)
    cursor = Cursor(Place(0))
    cursor.count_attempts(dict.fromkeys(range(6), 1), dict.fromkeys(range(6), tries))
    cursor.ack([(0, 1)])
    cursor.skip(2, 4)
    assert cursor.history.known == {4: tries, 5: tries}
    assert cursor.take_change().history == {4: tries, 5: tries}, "what is done is not written"
    cursor.seek(0)
    assert cursor.place == Place(0, expired=2)


def test_only_the_tries_of_messages_that_were_tried_again_are_written() -> None:
    one, two = Try(1, 1, 500, "the app answered 500"), Try(2, 2, None, "no answer came in time")
    cursor = Cursor(Place(0))
    cursor.count_attempts({0: 1, 1: 1}, {0: (one,), 1: (one,)})
    cursor.take_change()
    cursor.count_attempts({1: 2}, {1: (two,)})
    assert cursor.take_change() == Change((), {0: 1, 1: 2}, 0, 0, {1: (one, two)})
    assert not cursor.changed
    cursor.count_attempts({1: 2}, {1: (two,)})
    assert not cursor.changed


def test_attempts_that_are_not_kept_have_no_history() -> None:
    tries = (Try(1, 1, 500, "the app answered 500"),)
    cursor = Cursor(Place(0))
    cursor.count_attempts({5000: 1}, {5000: tries})
    cursor.take_change()
    cursor.tried([(0, ATTEMPTS_MAX)])
    assert not cursor.history
    assert cursor.take_change().history == {5000: ()}


@given(st.lists(RANGES, max_size=12))
def test_the_order_of_acknowledgements_does_not_matter(ranges: list[tuple[int, int]]) -> None:
    one, other = Cursor(Place(3)), Cursor(Place(3))
    for each in ranges:
        one.ack([each])
    other.ack(ranges[::-1])
    assert one.place == other.place
