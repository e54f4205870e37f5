"""Tiles lie in files under C2SP's names, and count as far as a sound `state` says."""

from pathlib import Path

import pytest

from core_log.log.files import OsFiles
from core_log.tree.tile_store import TileStore, TreeState, decode_state
from log_format.tiles import Tile

STATE = TreeState(bytes(range(16)), 70_000, bytes(range(32)), 69_000)


@pytest.fixture
def store(tmp_path: Path) -> TileStore:
    return TileStore(OsFiles(), tmp_path / "tree")


def test_a_state_is_read_back_and_any_change_to_it_is_seen() -> None:
    data = STATE.encoded()
    assert decode_state(data) == STATE
    for at in range(len(data)):
        assert decode_state(data[:at]) is None
        assert decode_state(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]) is None
    assert decode_state(data + b"\n") is None
    assert decode_state(b"\xff" * 90) is None


def test_tiles_are_written_where_the_specification_says(store: TileStore, tmp_path: Path) -> None:
    assert not store.exists
    assert store.load_state() is None
    store.write([(Tile(0, 1067), b"a" * 8192), (Tile(1, 4, 2), b"b" * 64)])
    store.save_state(STATE)
    assert (tmp_path / "tree/tile/0/x001/067").read_bytes() == b"a" * 8192
    assert (tmp_path / "tree/tile/1/004.p/2").read_bytes() == b"b" * 64
    assert store.load_state() == STATE
    assert store.exists


def test_a_partial_tile_may_be_read_from_the_full_one(store: TileStore) -> None:
    store.write([(Tile(0, 0), b"a" * 8192)])
    assert store.read(Tile(0, 0)) == b"a" * 8192
    assert store.read(Tile(0, 0, 3)) == b"a" * 96
    assert store.read(Tile(0, 1)) is None
    assert store.read(Tile(1, 0, 1)) is None


def test_a_tile_of_the_wrong_length_is_none(store: TileStore) -> None:
    store.write([(Tile(0, 0), b"a" * 8191), (Tile(0, 1, 2), b"b" * 63)])
    assert store.read(Tile(0, 0)) is None
    assert store.read(Tile(0, 1, 2)) is None


def test_a_leafs_hash_is_found_in_any_tile_that_has_it(store: TileStore) -> None:
    store.write([(Tile(0, 0, 3), b"abc" * 32), (Tile(0, 1), bytes(range(256)) * 32)])
    assert store.read_hash(2) == (b"abc" * 32)[64:]
    assert store.read_hash(3) is None
    assert store.read_hash(256) == bytes(range(32))


def test_a_tile_that_is_replaced_is_kept_aside(store: TileStore, tmp_path: Path) -> None:
    assert store.replace(Tile(0, 0), b"a" * 8192) is None
    kept = store.replace(Tile(0, 0), b"b" * 8192)
    assert kept == "tile/0/000.damaged"
    assert (tmp_path / "tree" / kept).read_bytes() == b"a" * 8192
    assert store.read(Tile(0, 0)) == b"b" * 8192


def test_lost_tiles_are_named(store: TileStore) -> None:
    store.write([(Tile(0, index), bytes(8192)) for index in range(3)])
    assert list(store.missing(256 * 3 + 7)) == []
    store.path(Tile(0, 1)).unlink()
    assert list(store.missing(256 * 4)) == [Tile(0, 1), Tile(0, 3)]


def test_partial_tiles_of_an_older_edge_go_and_those_still_in_use_stay(store: TileStore) -> None:
    store.write([(Tile(0, 1, 4), bytes(128)), (Tile(1, 0, 1), bytes(32))])
    store.write([(Tile(0, 1, 9), bytes(288))])
    store.drop_partial(260, 265)
    assert store.read(Tile(0, 1, 4)) is None
    assert store.read(Tile(0, 1, 9)) is not None
    assert store.read(Tile(1, 0, 1)) is not None
