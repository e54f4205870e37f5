"""Ranges behave as the sets of offsets that they stand for."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from sidecar.delivery.offset_set import OffsetSet, ranges_of

RANGES = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 40)).map(lambda pair: (min(pair), max(pair)))
)


def members(offsets: OffsetSet) -> set[int]:
    return {offset for first, last in offsets for offset in range(first, last + 1)}


def spelled(ranges) -> set[int]:
    return {offset for first, last in ranges for offset in range(first, last + 1)}


@given(added=RANGES, removed=RANGES, window=st.tuples(st.integers(0, 40), st.integers(0, 40)))
def test_it_is_a_set(added, removed, window):
    offsets = OffsetSet(added)
    expected = spelled(added)
    assert members(offsets) == expected
    for first, last in removed:
        offsets.discard(first, last)
    expected -= spelled(removed)
    assert members(offsets) == expected
    assert len(offsets) == len(expected)
    assert bool(offsets) == bool(expected)
    assert all((offset in offsets) == (offset in expected) for offset in range(42))
    span = set(range(window[0], window[1] + 1))
    assert spelled(offsets.missing(*window)) == span - expected
    assert spelled(offsets.common(*window)) == span & expected


@given(added=RANGES)
def test_its_ranges_rise_and_never_touch(added):
    ranges = OffsetSet(added).ranges()
    assert len(ranges) == OffsetSet(added).range_count
    for (_, before), (after, _) in pairwise(ranges):
        assert before + 1 < after


@given(st.sets(st.integers(0, 60)))
def test_offsets_as_ranges_name_each_once(chosen):
    ranges = ranges_of(sorted(chosen))
    assert spelled(ranges) == chosen
    assert ranges == [(first, last) for first, last in OffsetSet(ranges)]


def test_a_run_costs_one_range():
    assert ranges_of(range(5, 10_000_000)) == [(5, 9_999_999)]
    assert ranges_of(range(5, 5)) == []
    assert OffsetSet([(0, 4), (5, 9)]) == OffsetSet([(0, 9)])
    assert OffsetSet([(0, 4)]) != OffsetSet([(0, 5)])
