"""The edge of the tree grows as the tree of all leaves would, and keeps what no file holds."""

from hashlib import sha256
from time import process_time

from hypothesis import given
from hypothesis import strategies as st

from core_log.tree.tile_tree import TileTree, root_at
from log_format.tiles import Tile, split_tile, tiles_of
from log_format.tree import EMPTY_ROOT, perfect_root, root_of


def leaves(count: int) -> list[bytes]:
    return [sha256(number.to_bytes(8)).digest() for number in range(count)]


LEAVES = leaves(70_000)


def held(tree: TileTree, tile: Tile) -> bytes:
    content = tree.tile(tile)
    assert content is not None
    return content


@given(st.lists(st.integers(0, 700), max_size=6))
def test_it_grows_in_groups_as_one_list_would(groups: list[int]) -> None:
    tree, size = TileTree(), 0
    for count in groups:
        tree.extend(LEAVES[size : size + count])
        size += count
        assert tree.size == size
        assert root_at(size, lambda tile: held(tree, tile)) == root_of(LEAVES[:size])


def test_every_tile_has_the_hashes_of_its_place() -> None:
    tree = TileTree()
    tree.extend(LEAVES)
    for tile in tiles_of(70_000):
        hashes = split_tile(held(tree, tile))
        assert len(hashes) == tile.width
        if tile.level == 0:
            assert hashes == LEAVES[tile.index * 256 :][: tile.width]
    assert split_tile(held(tree, Tile(1, 0)))[3] == perfect_root(LEAVES[768:1024])
    assert tree.tile(Tile(0, 274)) is None
    assert tree.tile(Tile(3, 0)) is None


def test_the_root_of_every_smaller_tree_can_be_had() -> None:
    tree = TileTree()
    tree.extend(LEAVES[:600])
    assert root_at(0, lambda tile: held(tree, tile)) == EMPTY_ROOT
    for size in (1, 255, 256, 257, 511, 599):
        assert root_at(size, lambda tile: held(tree, tile)) == root_of(LEAVES[:size])


def test_full_tiles_are_let_go_once_saved_and_the_edge_never() -> None:
    tree = TileTree()
    tree.extend(LEAVES[:600])
    assert [tile for tile, _ in tree.unsaved()] == [Tile(0, 0), Tile(0, 1)]
    tree.saved([Tile(0, 0)])
    assert tree.tile(Tile(0, 0)) is None
    assert tree.tile(Tile(0, 1)) is not None
    assert tree.tile(Tile(0, 2, 88)) == b"".join(LEAVES[512:600])


def test_it_goes_on_from_the_rows_of_its_edge() -> None:
    whole = TileTree()
    whole.extend(LEAVES[:66_000])
    rows = [split_tile(held(whole, tile)) for tile in tiles_of(66_000) if not tile.full]
    tree = TileTree(66_000, rows)
    tree.extend(LEAVES[66_000:])
    whole.extend(LEAVES[66_000:])
    for tile in tiles_of(70_000):
        if tile.index * 256 ** (tile.level + 1) + 256 > 66_000:
            assert tree.tile(tile) == whole.tile(tile)


def test_a_leaf_costs_a_few_hashes_and_no_more() -> None:
    tree = TileTree()
    began = process_time()
    for begin in range(0, 65_536, 64):
        tree.extend(LEAVES[begin : begin + 64])
    per_hash = _cost_of_hashing()
    assert (process_time() - began) / 65_536 < 8 * per_hash


def _cost_of_hashing() -> float:
    began = process_time()
    for leaf in LEAVES[:20_000]:
        sha256(b"\x01" + leaf + leaf).digest()
    return (process_time() - began) / 20_000
