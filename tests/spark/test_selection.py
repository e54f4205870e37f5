"""Which batches and records are wanted."""

from typing import Any

import pytest

from spark.damage import Damage
from spark.frame_walk import walk
from spark.leaf_tiles import LeafTiles
from spark.log_folder import plan
from spark.options import Bounds
from spark.selection import Batch, Leaves, check_tree, select


def selected(log: Any, bounds: Bounds, leaves: Leaves | None = None) -> list[Batch | Damage]:
    (piece,) = plan(log.folder, split_bytes=1 << 30)
    return list(select(walk(piece), bounds, leaves or Leaves()))


def rows(found: list[Batch | Damage]) -> list[tuple[int, int, int]]:
    return [(each.stamp.leaf, each.begin, each.end) for each in found if isinstance(each, Batch)]


@pytest.fixture
def three(log: Any) -> Any:
    log.add("a", [b"1"] * 10)
    log.add("b", [b"1"] * 10)
    log.add("a", [b"1"] * 10)
    return log


def test_offsets_cut_batches_to_their_records(three: Any) -> None:
    found = selected(three, Bounds(frozenset({"a"}), first_offset=7, end_offset=12))
    assert rows(found) == [(0, 7, 10), (2, 0, 2)]


def test_times_are_append_times_from_inclusive_to_exclusive(three: Any) -> None:
    first = three.now_us - 3_000_000
    found = selected(three, Bounds(since_us=first + 1_000_000, until_us=first + 2_000_000))
    assert rows(found) == [(1, 0, 10)]


def test_leaves_bound_what_is_read(three: Any) -> None:
    assert rows(selected(three, Bounds(), Leaves(1, 2))) == [(1, 0, 10)]


def test_damage_is_kept_unless_its_envelope_says_that_it_was_not_wanted(three: Any) -> None:
    three.damage(0, at=0)
    found = selected(three, Bounds(frozenset({"b"})))
    assert rows(found) == [(1, 0, 10)]
    assert [each.code for each in found if isinstance(each, Damage)] == ["bad_magic"]


def test_a_leaf_that_differs_from_the_tree_is_damage(three: Any) -> None:
    three.leaves[1] = bytes(32)
    three.save_tree()
    found = list(check_tree(selected(three, Bounds()), "f", LeafTiles(three.folder)))
    damage = [each for each in found if isinstance(each, Damage)]
    assert [each.code for each in damage] == ["tree_leaf"]
    assert "leaf 1" in damage[0].text
