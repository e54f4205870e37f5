"""Leaf hashes out of the log's own tiles."""

from typing import Any

from spark.leaf_tiles import LeafTiles


def test_every_leaf_is_found_in_full_and_partial_tiles(log: Any) -> None:
    for _ in range(300):
        log.add("t")
    log.save_tree()
    tiles = LeafTiles(log.folder)
    assert [tiles.hash_of(leaf) for leaf in range(300)] == log.leaves
    assert tiles.hash_of(300) is None
    assert tiles.hash_of(100_000) is None


def test_a_log_without_a_tree_has_no_hashes(log: Any) -> None:
    assert LeafTiles(log.folder).hash_of(0) is None
