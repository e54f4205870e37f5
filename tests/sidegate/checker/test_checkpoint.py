"""The checkpoint, as the core writes it and as the check reads it."""

from pathlib import Path

import pytest

from core_log.log.checkpoint import Checkpoint, save_checkpoint
from core_log.log.files import OsFiles
from sidegate.checker.checkpoint import CHECKPOINT_NAME, synced_leaves


def save(folder: Path, leaf: int) -> None:
    checkpoint = Checkpoint(
        log_id=bytes(16),
        leaf=leaf,
        segment=0,
        position=64,
        entries=0,
        entries_crc=0,
        slots=[],
        partitions=[(("orders", 0), leaf, 5)],
        producers=[],
    )
    save_checkpoint(OsFiles(), folder, checkpoint)


def test_what_the_core_writes_is_read(tmp_path: Path) -> None:
    save(tmp_path, 17)
    assert synced_leaves(tmp_path) == 17


def test_without_a_checkpoint_nothing_is_known(tmp_path: Path) -> None:
    assert synced_leaves(tmp_path) is None


def test_a_checkpoint_with_any_byte_changed_or_missing_proves_nothing(tmp_path: Path) -> None:
    save(tmp_path, 17)
    path = tmp_path / CHECKPOINT_NAME
    sound = path.read_bytes()
    for index in range(len(sound)):
        if 12 <= index < 16:
            continue  # The zeros, which nothing depends on.
        path.write_bytes(sound[:index] + bytes([sound[index] ^ 1]) + sound[index + 1 :])
        assert synced_leaves(tmp_path) is None, index
        path.write_bytes(sound[:index])
        assert synced_leaves(tmp_path) is None, index


def test_a_folder_in_its_place_is_an_error_and_no_proof(tmp_path: Path) -> None:
    (tmp_path / CHECKPOINT_NAME).mkdir()
    with pytest.raises(OSError, match=CHECKPOINT_NAME):
        synced_leaves(tmp_path)
