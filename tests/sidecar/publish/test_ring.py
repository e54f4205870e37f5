"""The ring: bounded, in order, and never more than it says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.publish.ring import Ring


def test_entries_come_out_in_the_order_in_which_they_went_in():
    ring = Ring(4, 100)
    for name in "abc":
        assert ring.put(name, 1)
    assert list(ring) == ["a", "b", "c"]
    assert ring.peek() == "a"
    assert [ring.take() for _ in range(3)] == ["a", "b", "c"]
    assert (ring.produced, ring.consumed, ring.held_bytes) == (3, 3, 0)


def test_it_refuses_where_the_newest_would_reach_the_place_of_the_oldest():
    ring = Ring(2, 100)
    assert ring.put("a", 1)
    assert ring.put("b", 1)
    assert not ring.put("c", 1)
    assert list(ring) == ["a", "b"]
    ring.take()
    assert ring.put("c", 1)


def test_it_refuses_above_its_bytes_but_an_empty_one_takes_an_entry_of_any_size():
    ring = Ring(9, 10)
    assert ring.put("huge", 1000)
    assert not ring.put("small", 1)
    ring.take()
    assert ring.put("six", 6)
    assert not ring.has_room(5)
    assert ring.has_room(4)


def test_what_was_taken_can_be_put_in_front_again_whatever_the_limits_say():
    ring = Ring(2, 10)
    ring.put("a", 5)
    ring.put("b", 5)
    taken = [(ring.take(), 5), (ring.take(), 5)]
    ring.put("c", 1)
    ring.refill(taken)
    assert list(ring) == ["a", "b", "c"]
    assert len(ring) == 3
    assert ring.held_bytes == 11
    assert not ring.put("d", 1)


@pytest.mark.parametrize("limits", [(0, 1), (1, 0)])
def test_a_ring_without_room_is_refused(limits):
    with pytest.raises(ValueError, match="at least one place"):
        Ring(*limits)


def test_taking_from_an_empty_ring_is_an_error():
    with pytest.raises(IndexError):
        Ring(1, 1).take()
    with pytest.raises(IndexError):
        Ring(1, 1).peek()


@given(st.lists(st.one_of(st.integers(0, 40), st.none()), max_size=60))
def test_it_behaves_as_a_bounded_list(steps):
    ring, model = Ring(5, 50), []
    for number, size in enumerate(steps):
        if size is None:
            if model:
                assert ring.take() == model.pop(0)[0]
        else:
            room = not model or (len(model) < 5 and sum(s for _, s in model) + size <= 50)
            assert ring.has_room(size) == room
            assert ring.put(number, size) == room
            if room:
                model.append((number, size))
        assert list(ring) == [entry for entry, _ in model]
        assert len(ring) == len(model) == ring.produced - ring.consumed
        assert ring.held_bytes == sum(size for _, size in model)
