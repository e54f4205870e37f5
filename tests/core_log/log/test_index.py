"""Offset and time lookups, against the plainest possible model of them."""

from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core_log.log.index import ENTRY_BYTES, Index, index_of_entries

KEYS = [("orders", 0), ("orders", 1), ("audit", 0)]

batches = st.lists(
    st.tuples(
        st.sampled_from(KEYS),
        st.integers(1, 1_000_000),
        st.integers(-5, 1000),
        st.booleans(),
        st.integers(0, 2),
    ),
    max_size=40,
)
"""Partition, records, append time, whether the body is there, lost leaves before it."""


@dataclass
class Added:
    key: tuple[str, int]
    number: int
    base: int
    end: int
    position: int
    time: int
    has_body: bool


def build(plan: Any) -> tuple[Index, list[Added]]:
    index = Index(100)
    ends = dict.fromkeys(KEYS, 7)
    greatest = dict.fromkeys(KEYS, 0)
    added: list[Added] = []
    position = 64
    for key, records, time, has_body, lost in plan:
        if lost:
            index.add_lost(lost, position)
        greatest[key] = max(greatest[key], time)
        number = len(index)
        index.add(key, ends[key], records, position, 200, time, greatest[key], has_body)
        end = ends[key] + records
        added.append(Added(key, number, ends[key], end, position, time, has_body))
        ends[key] = end
        position += 200
    return index, added


@given(batches, st.integers(0, 3_000_000))
def test_an_offset_is_found_in_the_batch_that_holds_it(plan: Any, offset: Any) -> None:
    index, added = build(plan)
    for key, run in index.runs.items():
        mine = [each for each in added if each.key == key]
        expected = max((n for n, each in enumerate(mine) if each.base <= offset), default=-1)
        assert index.find(run, offset) == expected
        for ordinal, each in enumerate(mine):
            entry = index.at(run, ordinal)
            assert (entry.base_offset, entry.end_offset) == (each.base, each.end)
            assert (entry.position, entry.has_body) == (each.position, each.has_body)


@given(batches, st.integers(-10, 1100))
def test_a_time_is_found_where_the_greatest_so_far_reaches_it(plan: Any, time: Any) -> None:
    index, added = build(plan)
    for key, run in index.runs.items():
        times = list(accumulate((each.time for each in added if each.key == key), max, initial=0))
        reached = [n for n, greatest in enumerate(times[1:]) if greatest >= time]
        assert index.find_time(run, time) == (reached[0] if reached else len(run))


@given(batches)
def test_every_leaf_keeps_its_place_beside_lost_ones(plan: Any) -> None:
    index, added = build(plan)
    assert index.end_leaf == 100 + len(index)
    assert index.lost == sum(lost for *_, lost in plan)
    in_order = list(index.in_order())
    assert len(in_order) == len(index)
    for each in added:
        assert in_order[each.number][0] == each.key
        assert index.position_of(100 + each.number) == each.position
    assert sum(key is None for key, _ in in_order) == index.lost


@given(batches)
def test_the_sums_of_a_run_are_those_of_its_batches(plan: Any) -> None:
    index, added = build(plan)
    for key, run in index.runs.items():
        mine = [each for each in added if each.key == key]
        assert (run.first_offset, run.end_offset) == (mine[0].base, mine[-1].end)
        assert run.body_bytes == 200 * sum(each.has_body for each in mine)
        assert run.bodiless_end == max((each.end for each in mine if not each.has_body), default=0)


@given(batches)
def test_an_index_comes_back_from_its_packed_entries(plan: Any) -> None:
    index, _ = build(plan)
    keys = sorted(index.runs, key=lambda key: index.runs[key].slot)
    again = index_of_entries(100, index.packed(), keys)
    assert again.packed() == index.packed()
    assert (again.lost, len(again)) == (index.lost, len(index))
    for key, run in index.runs.items():
        other = again.runs[key]
        for name in ("slot", "first_offset", "end_offset", "greatest_us", "body_bytes"):
            assert getattr(other, name) == getattr(run, name)
        assert list(other.numbers) == list(run.numbers)
        assert other.bodiless_end == run.bodiless_end


def test_packed_entries_can_be_had_in_parts() -> None:
    index, _ = build([(KEYS[0], 1, 1, True, 0)] * 5)
    assert index.packed(0, 2) + index.packed(2) == index.packed()
    assert len(index.packed(1, 3)) == 2 * ENTRY_BYTES


def test_the_index_of_a_sealed_segment_does_not_grow() -> None:
    sealed = Index(0, b"")
    with pytest.raises(TypeError, match="sealed"):
        sealed.add_lost(1, 64)
