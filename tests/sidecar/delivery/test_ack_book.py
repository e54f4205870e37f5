"""The book of acknowledgements: all of them in the end, never with too many holes."""

from hypothesis import given
from hypothesis import strategies as st

from sidecar.delivery.ack_book import AckBook
from sidecar.delivery.holdings import Hold
from sidecar.delivery.offset_set import OffsetSet

HOLD, OTHER = Hold(0, generation=1), Hold(1, generation=1)


def book_of(*holds, ranges_max=100, low=0):
    book = AckBook(ranges_max)
    for hold in holds:
        book.begin(hold, low)
    return book


def test_what_is_done_is_said_once():
    book = book_of(HOLD, OTHER)
    for offset in (3, 1, 2):
        book.add(HOLD, offset)
    book.add(OTHER, 7)
    assert dict(book.take()) == {HOLD: [(1, 3)], OTHER: [(7, 7)]}
    assert book.take() == []


def test_what_would_make_a_hole_too_many_waits_until_one_closes():
    book = book_of(HOLD, ranges_max=2)
    for offset in (1, 3, 5, 7):
        book.add(HOLD, offset)
    assert book.take() == [(HOLD, [(1, 1), (3, 3)])]
    book.add(HOLD, 2)
    assert book.take() == [(HOLD, [(2, 2), (5, 5)])]
    book.add(HOLD, 0)
    assert book.take() == [(HOLD, [(0, 0)])]
    book.durable(0, 4)
    assert book.take() == [(HOLD, [(7, 7)])]


def test_the_low_mark_can_always_move():
    book = book_of(HOLD, ranges_max=1)
    book.add(HOLD, 5)
    book.add(HOLD, 7)
    assert book.take() == [(HOLD, [(5, 5)])]
    book.add(HOLD, 0)
    assert book.take() == [(HOLD, [(0, 0)])]
    book.durable(0, 1)
    book.add(HOLD, 2)
    assert book.take() == []
    book.add(HOLD, 1)
    assert book.take() == [(HOLD, [(1, 2)])]
    book.durable(0, 6)
    assert book.take() == [(HOLD, [(7, 7)])]


def test_a_hold_that_is_gone_has_no_more_to_say():
    book = book_of(HOLD)
    book.add(HOLD, 1)
    book.drop(HOLD)
    assert book.take() == []
    book.add(HOLD, 2)
    assert book.take() == []


def test_a_finished_hold_is_forgotten_once_all_is_said():
    book = book_of(HOLD, ranges_max=1)
    book.add(HOLD, 1)
    book.add(HOLD, 3)
    book.take()
    book.finish(HOLD)
    book.durable(0, 2)
    assert book.take() == [(HOLD, [(3, 3)])]
    book.finish(HOLD)
    book.add(HOLD, 9)
    assert book.take() == []


@given(st.permutations(list(range(24))), st.integers(1, 6), st.integers(1, 5))
def test_in_any_order_all_is_said_and_never_with_too_many_holes(order, ranges_max, pace):
    book, log, low = book_of(HOLD, ranges_max=ranges_max), OffsetSet(), 0
    for at in range(0, len(order) + 24, pace):
        for offset in order[at : at + pace]:
            book.add(HOLD, offset)
        for _, ranges in book.take():
            for first, last in ranges:
                log.add(first, last)
        low = next((last + 1 for first, last in log if first == 0), 0)
        assert len(list(log)) - (low > 0) <= ranges_max + 1
        book.durable(0, low)
    assert list(log) == [(0, 23)]
