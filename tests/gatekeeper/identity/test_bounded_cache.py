"""The bounded map: full means that the least recently used goes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatekeeper.identity.bounded_cache import BoundedCache


def test_the_least_recently_used_entry_makes_room() -> None:
    cache: BoundedCache[str, int] = BoundedCache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (1, None, 3)


def test_entries_can_be_discarded_and_cleared() -> None:
    cache: BoundedCache[str, int] = BoundedCache(2)
    cache.put("a", 1)
    cache.discard("a")
    cache.discard("never there")
    assert cache.get("a") is None
    cache.put("a", 1)
    cache.clear()
    assert len(cache) == 0


def test_a_cache_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        BoundedCache(0)


@given(
    st.integers(1, 5),
    st.lists(st.tuples(st.sampled_from(["put", "get", "discard"]), st.integers(0, 8))),
)
def test_it_agrees_with_a_list_in_order_of_use(room: int, steps: list[tuple[str, int]]) -> None:
    cache: BoundedCache[int, int] = BoundedCache(room)
    in_order: list[int] = []
    for step, key in steps:
        if step == "put":
            cache.put(key, key * 10)
        elif step == "get":
            assert cache.get(key) == (key * 10 if key in in_order else None)
        else:
            cache.discard(key)
        known = key in in_order
        in_order = [other for other in in_order if other != key]
        if step == "put" or (step == "get" and known):
            in_order.append(key)
        in_order = in_order[-room:]
        assert len(cache) == len(in_order)
