"""Tiles have the names, widths and contents that C2SP tlog-tiles gives them."""

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_format.errors import BadField
from log_format.tiles import (
    Tile,
    nodes_in,
    parse_tile_path,
    partial_tiles,
    split_tile,
    tile_in,
    tiles_between,
    tiles_of,
)
from log_format.tree import (
    consistency_proof,
    inclusion_proof,
    nodes_of,
    peaks_of,
    perfect_root,
    root_of,
    verify_consistency,
    verify_inclusion,
)


def leaves(count: int) -> list[bytes]:
    return [sha256(number.to_bytes(8)).digest() for number in range(count)]


LEAVES = leaves(66_500)
ROWS = [LEAVES]
while len(ROWS[-1]) >= 256:
    below = ROWS[-1]
    ROWS.append(
        [perfect_root(below[at : at + 256]) for at in range(0, len(below) // 256 * 256, 256)]
    )


def content(tile: Tile) -> bytes:
    first = tile.index * 256
    return b"".join(ROWS[tile.level][first : first + tile.width])


@pytest.mark.parametrize(
    ("tile", "path"),
    [
        (Tile(0, 0), "tile/0/000"),
        (Tile(0, 999), "tile/0/999"),
        (Tile(3, 1000), "tile/3/x001/000"),
        (Tile(0, 1_234_067), "tile/0/x001/x234/067"),
        (Tile(1, 1_234_067, 112), "tile/1/x001/x234/067.p/112"),
        (Tile(63, 5, 1), "tile/63/005.p/1"),
    ],
)
def test_a_tile_is_named_as_the_specification_says(tile: Tile, path: str) -> None:
    assert tile.path == path
    assert parse_tile_path(path) == tile


@pytest.mark.parametrize(
    "path",
    [
        "tile/0/0",
        "tile/00/000",
        "tile/64/000",
        "tile/0/x000/001",
        "tile/0/001/002",
        "tile/0/000.p/0",
        "tile/0/000.p/256",
        "tile/0/000.p/01",
        "tile/0/000.p",
        "tile/0/000\n",
        "/tile/0/000",
        "tile/0/\u0660\u0660\u0660",
        "tile/0/" + "x001/" * 30 + "000",
    ],
)
def test_any_other_spelling_of_a_tile_is_refused(path: str) -> None:
    with pytest.raises(BadField):
        parse_tile_path(path)


def test_a_tree_of_70000_leaves_has_the_tiles_of_the_specifications_example() -> None:
    tiles = list(tiles_of(70_000))
    assert tiles == [
        *(Tile(0, index) for index in range(273)),
        Tile(0, 273, 112),
        Tile(1, 0),
        Tile(1, 1, 17),
        Tile(2, 0, 1),
    ]
    assert partial_tiles(70_000) == [Tile(0, 273, 112), Tile(1, 1, 17), Tile(2, 0, 1)]
    assert list(tiles_of(256)) == [Tile(0, 0), Tile(1, 0, 1)]
    assert list(tiles_of(0)) == partial_tiles(0) == []


@given(st.integers(0, 3_000), st.integers(0, 3_000))
def test_a_tree_that_grows_gains_the_tiles_between_its_sizes(old: int, more: int) -> None:
    gained = list(tiles_between(old, old + more))
    assert set(gained) == set(tiles_of(old + more)) - set(tiles_of(old))
    for tile in gained:
        assert tile_in(tile.level, tile.index, old + more) == tile


def test_proofs_from_tiles_are_those_from_leaves() -> None:
    size = len(LEAVES)
    from_tiles, from_leaves = nodes_in(size, content), nodes_of(LEAVES)
    root = root_of(LEAVES)
    assert peaks_of(size, from_tiles) == peaks_of(size, from_leaves)
    for number in (0, 255, 256, 65_535, 65_536, size - 1):
        proof = inclusion_proof(number, size, from_tiles)
        assert proof == inclusion_proof(number, size, from_leaves)
        assert verify_inclusion(LEAVES[number], number, size, proof, root)
    for old in (1, 255, 256, 257, 60_000, 65_536, size):
        proof = consistency_proof(old, size, from_tiles)
        assert proof == consistency_proof(old, size, from_leaves)
        assert verify_consistency(old, size, root_of(LEAVES[:old]), root, proof)


def test_a_proof_of_an_older_tree_may_be_read_from_tiles_that_have_grown() -> None:
    def grown(tile: Tile) -> bytes:
        return content(Tile(tile.level, tile.index))

    proof = inclusion_proof(300, 700, nodes_in(700, grown))
    assert proof == inclusion_proof(300, 700, nodes_of(LEAVES[:700]))


def test_a_tile_that_is_too_short_or_not_there_proves_nothing() -> None:
    with pytest.raises(BadField, match=r"tile/0/001\.p/44 holds 43 hashes"):
        inclusion_proof(299, 300, nodes_in(300, lambda tile: content(tile)[:-32]))
    with pytest.raises(BadField, match="has no tile"):
        nodes_in(300, content)(0, 600)
    with pytest.raises(BadField, match="has no node"):
        nodes_in(300, content)(7, 2)
    for broken in (b"", bytes(31), bytes(257 * 32)):
        with pytest.raises(BadField, match="hashes"):
            split_tile(broken)
