"""The checkpoint: comes back as it was saved, and is not believed if a byte is off."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from core_log.log.checkpoint import (
    CHECKPOINT_NAME,
    Checkpoint,
    load_checkpoint,
    load_entries,
    save_checkpoint,
    save_entries,
)
from core_log.log.files import OsFiles
from core_log.log.index import Index
from core_log.log.producers import RECENT_BYTES, ProducerKey, ProducerState

numbers = st.integers(0, 2**62)
topics = st.text("abc._-", min_size=1, max_size=8)
keys = st.tuples(topics, st.integers(0, 2**31 - 1))
states = st.builds(
    ProducerState,
    st.integers(0, 32767),
    st.integers(0, 2**31 - 1),
    st.integers(0, 3).flatmap(
        lambda count: st.binary(min_size=count * RECENT_BYTES, max_size=count * RECENT_BYTES)
    ),
)
checkpoints = st.builds(
    Checkpoint,
    log_id=st.binary(min_size=16, max_size=16),
    leaf=numbers,
    segment=numbers,
    position=numbers,
    entries=numbers,
    entries_crc=st.integers(0, 2**32 - 1),
    slots=st.lists(keys, max_size=4),
    partitions=st.lists(st.tuples(keys, numbers, numbers), max_size=4),
    producers=st.lists(
        st.tuples(
            st.builds(ProducerKey, st.text(max_size=5), numbers, topics, st.integers(0, 9)), states
        ),
        max_size=4,
    ),
)

SAMPLE = Checkpoint(
    log_id=bytes(range(16)),
    leaf=12,
    segment=10,
    position=700,
    entries=2,
    entries_crc=0,
    slots=[("orders", 0)],
    partitions=[(("orders", 0), 20, 5)],
    producers=[
        (ProducerKey("bill\u00edng", 1, "orders", 0), ProducerState(1, 2, bytes(RECENT_BYTES)))
    ],
)


@given(checkpoints)
def test_a_checkpoint_comes_back_as_it_was_saved(
    tmp_path_factory: pytest.TempPathFactory, checkpoint: Any
) -> None:
    folder = tmp_path_factory.mktemp("checkpoint")
    save_checkpoint(OsFiles(), folder, checkpoint)
    assert load_checkpoint(OsFiles(), folder) == checkpoint


def test_there_may_be_none(tmp_path: Path) -> None:
    assert load_checkpoint(OsFiles(), tmp_path) is None


def test_one_that_is_damaged_anywhere_is_not_believed(tmp_path: Path) -> None:
    save_checkpoint(OsFiles(), tmp_path, SAMPLE)
    path = tmp_path / CHECKPOINT_NAME
    whole = path.read_bytes()
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 0x20
        path.write_bytes(damaged)
        assert load_checkpoint(OsFiles(), tmp_path) is None
        path.write_bytes(whole[:position])
        assert load_checkpoint(OsFiles(), tmp_path) is None


@pytest.fixture
def index() -> Any:
    built = Index(10)
    for number in range(3):
        built.add(("orders", 0), number, 1, 64 + number * 200, 200, number, number, True)
    return built


def test_saved_entries_grow_and_are_counted_by_the_checkpoint(tmp_path: Path, index: Any) -> None:
    files, segment = OsFiles(), tmp_path / "00000000000000000010.seg"
    save_entries(files, segment, 0, index.packed(0, 1))
    save_entries(files, segment, 1, index.packed(1, 3))
    counted = replace(SAMPLE, entries=2, entries_crc=crc32c(index.packed(0, 2)))
    loaded = load_entries(files, segment, counted)
    assert loaded is not None
    assert loaded.packed() == index.packed(0, 2)
    assert loaded.runs["orders", 0].end_offset == 2


def test_entries_that_do_not_fit_the_checkpoint_are_not_believed(
    tmp_path: Path, index: Any
) -> None:
    files, segment = OsFiles(), tmp_path / "00000000000000000010.seg"
    counted = replace(SAMPLE, entries=3, entries_crc=crc32c(index.packed()))
    assert load_entries(files, segment, counted) is None
    save_entries(files, segment, 0, index.packed(0, 2))
    assert load_entries(files, segment, counted) is None
    save_entries(files, segment, 2, index.packed(2, 3))
    assert load_entries(files, segment, counted) is not None
    assert load_entries(files, segment, replace(counted, entries_crc=1)) is None


def test_no_entries_need_no_file(tmp_path: Path) -> None:
    loaded = load_entries(OsFiles(), tmp_path / "x.seg", replace(SAMPLE, entries=0))
    assert loaded is not None
    assert len(loaded) == 0
