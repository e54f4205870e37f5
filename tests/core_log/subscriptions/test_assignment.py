"""Which member gets which partition."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core_log.subscriptions.assignment import spread

NAMES = st.sets(st.sampled_from("abcdefgh"), max_size=6)


def test_partitions_are_dealt_in_order_where_nobody_holds_any() -> None:
    assert spread(5, {"b", "a"}, {}) == {0: "a", 1: "a", 2: "a", 3: "b", 4: "b"}


def test_nobody_gets_anything_where_nobody_is() -> None:
    assert spread(3, set(), {0: "gone"}) == {}


def test_a_join_takes_only_what_is_above_the_others_share() -> None:
    before = spread(6, {"a", "b"}, {})
    after = spread(6, {"a", "b", "c"}, before)
    moved = [partition for partition in before if before[partition] != after[partition]]
    assert len(moved) == 2
    assert {after[partition] for partition in moved} == {"c"}


@pytest.mark.parametrize("gone", ["a", "b", "c"])
def test_a_departure_moves_only_what_the_one_that_left_had(gone: str) -> None:
    before = spread(7, {"a", "b", "c"}, {})
    after = spread(7, {"a", "b", "c"} - {gone}, before)
    assert all(after[p] == name for p, name in before.items() if name != gone)


@given(st.integers(0, 20), NAMES, st.dictionaries(st.integers(0, 25), st.sampled_from("abcdefghz")))
def test_it_is_even_sticky_complete_and_the_same_for_everybody(
    partitions: int, members: set[str], holders: dict[int, str]
) -> None:
    result = spread(partitions, members, holders)
    assert result == spread(
        partitions, sorted(members, reverse=True), dict(reversed(holders.items()))
    )
    if not members:
        return
    assert sorted(result) == list(range(partitions))
    loads = Counter(dict.fromkeys(members, 0))
    loads.update(result.values())
    assert loads.keys() == members
    assert max(loads.values()) - min(loads.values()) <= 1
    # Sticky: whoever lost one has its full share, so that no even spread could have left it more.
    share, rest = divmod(partitions, len(members))
    held = Counter(name for p, name in holders.items() if p < partitions and name in members)
    kept = Counter(name for p, name in result.items() if holders.get(p) == name)
    best = sum(min(count, share) for count in held.values())
    best += min(rest, sum(count > share for count in held.values()))
    assert kept.total() == best
