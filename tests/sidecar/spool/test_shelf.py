"""A shelf keeps positions in their order, however they come and go."""

from hypothesis import given
from hypothesis import strategies as st

from sidecar.spool.shelf import Shelf


def test_an_empty_shelf_has_no_oldest_and_nothing_to_take():
    shelf = Shelf()
    assert not shelf
    assert shelf.oldest_s is None
    assert shelf.take(5) == []


def test_the_oldest_is_taken_first_and_its_age_is_known():
    shelf = Shelf()
    shelf.extend([(7, 100.0), (3, 200.0)])
    assert shelf.oldest_s == 100.0
    assert shelf.take(1) == [7]
    assert shelf.oldest_s == 200.0
    assert len(shelf) == 1


def test_what_is_put_back_stands_in_front_again():
    shelf = Shelf()
    shelf.extend((position, 1.0) for position in range(5))
    taken = shelf.take(2)
    shelf.put_back(taken, 9.0)
    assert shelf.oldest_s == 9.0
    assert shelf.take(9) == [0, 1, 2, 3, 4]


def test_a_long_backlog_is_taken_whole_and_its_memory_given_back():
    shelf = Shelf()
    shelf.extend((position, float(position)) for position in range(10_000))
    taken = []
    while shelf:
        assert shelf.oldest_s == len(taken)
        taken += shelf.take(7)
    assert taken == list(range(10_000))
    assert len(shelf._positions) < 2048


@given(st.lists(st.one_of(st.integers(1, 2000), st.just(0), st.just(-1)), max_size=30))
def test_it_behaves_as_a_list(steps):
    shelf, model, next_position, last = Shelf(), [], 0, []
    for step in steps:
        if step > 0:
            added = list(range(next_position, next_position + step))
            next_position += step
            shelf.extend((position, float(position)) for position in added)
            model += added
        elif step == 0:
            last = shelf.take(5)
            assert last == model[:5]
            model = model[5:]
        elif last:
            shelf.put_back(last, float(last[0]))
            model, last = last + model, []
        if step >= 0 and step != 0:
            last = []
        assert len(shelf) == len(model)
        assert shelf.oldest_s == (float(model[0]) if model else None)
