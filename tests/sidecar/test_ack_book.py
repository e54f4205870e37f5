"""The book of acknowledgements: all of them in the end, never with too many holes."""

from hypothesis import given
from hypothesis import strategies as st

from sidecar.ack_book import AckBook
from sidecar.holdings import Hold
from sidecar.offset_set import OffsetSet

HOLD, OTHER = Hold(0, generation=1), Hold(1, generation=1)


def test_what_is_done_is_said_once():
    book = AckBook()
    for offset in (3, 1, 2):
        book.add(HOLD, offset)
    book.add(OTHER, 7)
    assert book.take() == [(HOLD, [(1, 1), (2, 2), (3, 3)]), (OTHER, [(7, 7)])]
    assert book.take() == []


def test_what_is_furthest_ahead_waits_until_the_holes_close():
    book = AckBook(ranges_max=2)
    for offset in (1, 3, 5, 7):
        book.add(HOLD, offset)
    assert book.take() == [(HOLD, [(1, 1), (3, 3)])]
    book.add(HOLD, 2)
    assert book.take() == [(HOLD, [(1, 3), (5, 5)])]
    book.add(HOLD, 0)
    book.take()
    book.durable(0, 4)
    book.add(HOLD, 4)
    assert book.take() == [(HOLD, [(4, 5), (7, 7)])]


def test_a_hold_that_is_gone_has_no_more_to_say():
    book = AckBook()
    book.add(HOLD, 1)
    book.drop(HOLD)
    assert book.take() == []


@given(st.permutations(list(range(24))), st.integers(1, 6), st.integers(1, 5))
def test_in_any_order_all_is_said_and_never_too_much(order, ranges_max, pace):
    book, log = AckBook(ranges_max), OffsetSet()
    for at in range(0, len(order), pace):
        for offset in order[at : at + pace]:
            book.add(HOLD, offset)
        for _, ranges in book.take():
            for first, last in ranges:
                log.add(first, last)
        # One more while a new first range pushes the furthest one out of the window.
        assert log.range_count <= ranges_max + pace
        low = next((last + 1 for first, last in log if first == 0), 0)
        book.durable(0, low)
    assert list(log) == [(0, 23)]
