"""The tree proves what the log holds, mends its tiles from the log, and refuses where it can't."""

from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from core_log.log.files import OsFiles
from core_log.log.leaves import Leaves
from core_log.tree.tile_store import TileStore
from core_log.tree.tile_tree import TileTree
from core_log.tree.tree import NoSuchLeaf, Tree, TreeRefused
from log_format.layout import SEGMENT_HEAD_BYTES, segment_name
from log_format.tiles import Tile
from log_format.tree import root_of, verify_consistency, verify_inclusion


def tiles(journals: Any) -> dict[str, Path]:
    folder = journals.path / "tree"
    return {
        path.relative_to(folder).as_posix(): path
        for path in (folder / "tile").rglob("*")
        if path.is_file()
    }


def test_it_grows_with_every_group_and_proves_every_leaf(journals: Any) -> None:
    journal = journals.fill(700, save=False)
    tree = journal.tree
    hashes = list(Leaves(journal.segments).hashes(0, 700))
    assert tree.size == 700
    assert tree.root(700) == root_of(hashes)
    for leaf, size in ((0, 1), (0, 700), (255, 256), (256, 300), (699, 700)):
        proof = tree.inclusion(leaf, size)
        assert verify_inclusion(hashes[leaf], leaf, size, proof, root_of(hashes[:size]))
        assert tree.leaf_hash(leaf) == hashes[leaf]
    for old, new in ((0, 5), (1, 700), (256, 512), (511, 699), (700, 700)):
        proof = tree.consistency(old, new)
        roots = root_of(hashes[:old]), root_of(hashes[:new])
        assert verify_consistency(old, new, *roots, proof)


def test_what_it_does_not_have_is_refused_by_name(journals: Any) -> None:
    tree = journals.fill(10).tree
    with pytest.raises(NoSuchLeaf, match="leaf 10 is not in the tree of 10"):
        tree.inclusion(10, 10)
    with pytest.raises(NoSuchLeaf, match="the tree has 10 leaves; 11"):
        tree.inclusion(3, 11)
    with pytest.raises(NoSuchLeaf, match="does not extend"):
        tree.consistency(9, 8)


def test_full_tiles_are_written_once_and_the_edge_as_needed(journals: Any) -> None:
    journal = journals.fill(300)
    assert set(tiles(journals)) == {"tile/0/000", "tile/0/001.p/44", "tile/1/000.p/1"}
    written = tiles(journals)["tile/0/000"].stat().st_mtime_ns
    journals.fill(300, journal=journal)
    assert set(tiles(journals)) == {
        "tile/0/000",
        "tile/0/001",
        "tile/0/002.p/88",
        "tile/1/000.p/2",
    }
    assert tiles(journals)["tile/0/000"].stat().st_mtime_ns == written
    assert journal.tree.saved == 600


@pytest.mark.parametrize("damage", ["changed", "cut", "lost", "swapped"])
def test_a_tile_that_does_not_fit_is_made_anew_from_the_log_and_reported(
    journals: Any, damage: str, caplog: Any
) -> None:
    journals.fill(700)
    good = {name: path.read_bytes() for name, path in tiles(journals).items()}
    path = tiles(journals)["tile/0/001"]
    if damage == "changed":
        path.write_bytes(bytes(8192))
    elif damage == "cut":
        path.write_bytes(good["tile/0/001"][:-1])
    elif damage == "swapped":
        path.write_bytes(good["tile/0/000"])
    journal = journals.open()
    if damage == "lost":
        path.unlink()
    proof = journal.tree.inclusion(300, 700)
    assert verify_inclusion(journal.tree.leaf_hash(300), 300, 700, proof, journal.tree.root(700))
    assert path.read_bytes() == good["tile/0/001"]
    assert journal.tree.mended == 1
    assert "a tile of the tree was made anew" in caplog.text
    assert path.with_name("001.damaged").exists() == (damage != "lost")


class ListedLeaves:
    """Leaves that are a list, where a log of so many would take long to write."""

    def __init__(self, hashes: list[bytes]) -> None:
        self._hashes = hashes

    def hashes(self, begin: int, end: int) -> list[bytes]:
        return self._hashes[begin:end]


def test_damaged_tiles_of_two_levels_are_made_anew(tmp_path: Path) -> None:
    hashes = [sha256(number.to_bytes(8)).digest() for number in range(65_600)]
    store = TileStore(OsFiles(), tmp_path)
    tree = Tree(bytes(16), TileTree(), store, ListedLeaves(hashes))  # type: ignore[arg-type]
    tree.extend(hashes)
    tree.save(65_600)
    good = {tile: store.path(tile).read_bytes() for tile in (Tile(1, 0), Tile(0, 7))}
    for tile in good:
        store.path(tile).write_bytes(bytes(8192))
    proof = tree.inclusion(7 * 256, 65_600)
    assert verify_inclusion(hashes[7 * 256], 7 * 256, 65_600, proof, root_of(hashes))
    assert {tile: store.path(tile).read_bytes() for tile in good} == good
    assert tree.mended == 2


def test_where_the_log_does_not_give_what_was_there_nothing_is_proven(journals: Any) -> None:
    journals.fill(700)
    path = tiles(journals)["tile/0/000"]
    path.write_bytes(bytes(8192))
    with (journals.path / segment_name(0)).open("r+b") as file:
        file.seek(SEGMENT_HEAD_BYTES + 40)
        file.write(b"\xff\xff\xff")
    tree = journals.open().tree
    with pytest.raises(TreeRefused, match="tile/0/000 does not fit the tree, and the envelopes"):
        tree.inclusion(5, 700)
    assert path.read_bytes() == bytes(8192)
    assert len(tree.inclusion(300, 700)) == 10


def test_a_leaf_whose_envelope_is_lost_keeps_its_place_in_the_tree(journals: Any) -> None:
    root = journals.fill(700).tree.root(700)
    with (journals.path / segment_name(0)).open("r+b") as file:
        file.seek(SEGMENT_HEAD_BYTES + 40)
        file.write(b"\xff\xff\xff")
    assert journals.open().tree.root(700) == root


def test_a_refused_tree_answers_nothing_grows_no_more_and_writes_no_file(journals: Any) -> None:
    journal = journals.fill(300)
    before = set(tiles(journals))
    journal.tree.refuse("somebody rewrote it")
    journals.fill(300, journal=journal)
    assert set(tiles(journals)) == before
    assert journal.tree.size == 300
    for ask in (lambda: journal.tree.root(5), lambda: journal.tree.inclusion(1, 5)):
        with pytest.raises(TreeRefused, match="somebody rewrote it"):
            ask()
