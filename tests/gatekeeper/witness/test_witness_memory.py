"""A witness's files: kept whole, missed when they are gone, never overwritten as evidence."""

from pathlib import Path
from typing import Any

import pytest

from gatekeeper.witness.witness_memory import EVIDENCE_MAX, Remembered, WitnessMemory, replace_whole


@pytest.fixture
def memory(tmp_path: Path) -> WitnessMemory:
    memory = WitnessMemory(tmp_path)
    memory.prepare()
    return memory


def test_a_new_witness_remembers_nothing(memory: WitnessMemory) -> None:
    assert memory.load() == Remembered()


def test_what_was_kept_is_there_after_a_restart(
    memory: WitnessMemory, tmp_path: Path, tree: Any
) -> None:
    for size in (3, 4):
        tree.grow(size)
        memory.keep(tree.note(), tree.origin)
    found = WitnessMemory(tmp_path).load()
    assert (found.note, found.head, found.lost) == (tree.note(), tree.head, None)
    assert (memory.folder / "checkpoint").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", [None, b"", b"\xff\xfe", b"no note\n", b"x" * 100_000])
def test_a_checkpoint_that_is_gone_or_unreadable_is_a_lost_one(
    memory: WitnessMemory, tree: Any, content: bytes | None
) -> None:
    memory.keep(tree.note(), tree.origin)
    (memory.folder / "checkpoint").unlink()
    if content is not None:
        (memory.folder / "checkpoint").write_bytes(content)
    found = memory.load()
    assert found.head is None
    assert found.lost is not None
    assert "checkpoint" in found.lost


def test_an_alarm_outlives_the_process_until_an_operator_begins_anew(
    memory: WitnessMemory, tree: Any
) -> None:
    memory.keep_alarm("forked")
    assert memory.load().alarm == "forked"
    memory.begin_anew(tree.note(), tree.origin)
    assert memory.load() == Remembered(tree.note(), tree.head)


def test_evidence_is_kept_once_and_never_overwritten(memory: WitnessMemory) -> None:
    first = memory.keep_evidence("forked", "old\n", "new\n")
    assert [path.read_text() for path in first] == ["old\n", "new\n"]
    assert memory.keep_evidence("forked", "old\n", "new\n") == first
    second = memory.keep_evidence("forked", "old\n", "newer\n")
    alone = memory.keep_evidence("wrong_key", None, "new\n")
    assert len({*first, *second, *alone}) == 5
    assert [path.read_text() for path in first] == ["old\n", "new\n"]


def test_evidence_has_a_bound(memory: WitnessMemory) -> None:
    for number in range(EVIDENCE_MAX):
        (memory.evidence / f"{number:04d}-split-shown.note").touch()
    assert memory.keep_evidence("split", None, "one more\n") == []


def test_a_write_that_was_interrupted_leaves_the_old_file_and_no_obstacle(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    replace_whole(path, "old")
    (tmp_path / ".checkpoint.new").write_text("hal")
    assert path.read_text() == "old"
    replace_whole(path, "new")
    assert [each.name for each in tmp_path.iterdir()] == ["checkpoint"]
    assert path.read_text() == "new"
