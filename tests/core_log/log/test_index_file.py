"""A sealed segment's index on disk: mapped if it fits the segment, refused if anything is off."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core_log.log.files import OsFiles
from core_log.log.index import Index
from core_log.log.index_file import IndexUnusable, SegmentState, index_path, load_index, save_index

STATE = SegmentState(b"0123456789abcdef", 100, 2, 9000)


@pytest.fixture
def index() -> Any:
    built = Index(100)
    offsets = {"orders": 5, "audit": 0}
    for number in range(12):
        topic = "audit" if number % 3 == 0 else "orders"
        has_body = number > 2
        built.add((topic, 1), offsets[topic], 2, 64 + 300 * number, 300, number, number, has_body)
        offsets[topic] += 2
    built.add_lost(2, 4000)
    return built


@pytest.fixture
def path(tmp_path: Path, index: Any) -> Any:
    path = tmp_path / "00000000000000000100.idx"
    save_index(OsFiles(), path, index, STATE)
    return path


def test_the_index_lies_beside_its_segment(tmp_path: Path) -> None:
    assert index_path(tmp_path / "00000000000000000100.seg").name == "00000000000000000100.idx"


@pytest.mark.parametrize("check", [True, False])
def test_what_is_saved_is_loaded(path: Any, index: Any, check: Any) -> None:
    loaded = load_index(OsFiles(), path, STATE, check=check)
    assert loaded.packed() == index.packed()
    assert (loaded.first_leaf, loaded.end_leaf, loaded.lost) == (100, 114, 2)
    assert list(loaded.runs) == list(index.runs)
    for key, run in index.runs.items():
        other = loaded.runs[key]
        assert list(other.numbers) == list(run.numbers)
        for name in ("slot", "first_offset", "end_offset", "greatest_us", "body_bytes"):
            assert getattr(other, name) == getattr(run, name)
        assert other.bodiless_end == run.bodiless_end
        assert loaded.find(other, 9) == index.find(run, 9)


@pytest.mark.parametrize(
    "changes", [{"log_id": bytes(16)}, {"first_leaf": 99}, {"rewritten": 3}, {"length": 9008}]
)
def test_an_index_of_another_state_of_the_segment_is_not_used(path: Any, changes: Any) -> None:
    with pytest.raises(IndexUnusable):
        load_index(OsFiles(), path, replace(STATE, **changes), check=False)


def test_one_that_is_not_there_is_not_used(tmp_path: Path) -> None:
    with pytest.raises(IndexUnusable, match="none"):
        load_index(OsFiles(), tmp_path / "missing.idx", STATE, check=True)


def test_a_flip_of_any_bit_and_a_cut_at_any_byte_is_noticed(path: Any) -> None:
    whole = path.read_bytes()
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << (position % 8)
        path.write_bytes(damaged)
        with pytest.raises(IndexUnusable):
            load_index(OsFiles(), path, STATE, check=True)
        path.write_bytes(whole[:position])
        with pytest.raises(IndexUnusable):
            load_index(OsFiles(), path, STATE, check=True)


def test_an_index_of_no_batches_can_be_saved(tmp_path: Path) -> None:
    path = tmp_path / "empty.idx"
    save_index(OsFiles(), path, Index(100), STATE)
    assert len(load_index(OsFiles(), path, STATE, check=True)) == 0
