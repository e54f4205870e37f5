"""How far a log is synced, and that nothing damaged is believed."""

from typing import Any

from core_log.log.checkpoint import Checkpoint, save_checkpoint
from core_log.log.files import OsFiles
from spark.synced import signed_leaves, synced_leaves


def engine_checkpoint(log: Any, leaf: int) -> None:
    save_checkpoint(OsFiles(), log.folder, Checkpoint(log.log_id, leaf, 0, 0, 0, 0, [], [], []))


def test_a_log_without_checkpoints_is_not_known_to_be_synced(log: Any) -> None:
    assert synced_leaves(log.folder) == 0


def test_the_further_of_both_checkpoints_counts(log: Any) -> None:
    for _ in range(5):
        log.add("t")
    engine_checkpoint(log, 3)
    assert synced_leaves(log.folder) == 3
    log.save_tree(size=4)
    assert synced_leaves(log.folder) == signed_leaves(log.folder) == 4


def test_a_damaged_checkpoint_is_not_believed(log: Any) -> None:
    log.add("t")
    engine_checkpoint(log, 1)
    path = log.folder / "checkpoint"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert synced_leaves(log.folder) == 0
    path.write_bytes(b"short")
    (log.folder / "tree").mkdir()
    (log.folder / "tree" / "checkpoint").write_text("not a note")
    assert synced_leaves(log.folder) == 0
