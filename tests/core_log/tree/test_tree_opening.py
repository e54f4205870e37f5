"""After whatever happened the tree is that of the log, or it is refused; never something else."""

from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest

from core_log.log.files import OsFiles
from core_log.log.leaves import lost_leaf_hash
from core_log.tree.checkpoint_notes import CheckpointNotes, SignedHead
from log_format.checkpoint_note import TreeHead, log_origin
from log_format.layout import SEGMENT_HEAD_BYTES, segment_name
from log_format.note import Note, Signature
from log_format.tree import root_of


def sign(journals: Any, journal: Any) -> SignedHead:
    """What the core does when it signs: tiles on disk first, then the note."""
    size = journal.durable_leaf
    journal.tree.save(size)
    head = TreeHead(log_origin(journal.log_id), size, journal.tree.root(size))
    note = Note(head.text, (Signature(head.origin, bytes(4), bytes(64)),))
    signed = SignedHead(note, head)
    CheckpointNotes(OsFiles(), journals.path / "tree", head.origin).save_newest(signed)
    journal.tree.signed = size
    return signed


def log_root(journal: Any) -> bytes:
    hashes = journal.tree.leaves.hashes(0, journal.next_leaf)
    return root_of(each for each in hashes if each is not None)


def notes_of(journal: Any) -> str:
    return "\n".join(journal.report.notes)


def assert_sound(journal: Any, leaves: int) -> None:
    assert journal.tree.refusal is None
    assert journal.tree.size == journal.next_leaf == leaves
    assert journal.tree.root(leaves) == log_root(journal)


def test_a_new_log_has_an_empty_tree_and_no_files(journals: Any) -> None:
    journal = journals.open()
    assert journal.tree.size == 0
    assert journal.report.clean
    assert not (journals.path / "tree").exists()


@pytest.mark.parametrize("saved", [0, 255, 256, 600])
@pytest.mark.parametrize("more", [0, 1, 300])
def test_it_goes_on_from_the_saved_tiles_and_the_rest_of_the_log(
    journals: Any, saved: int, more: int
) -> None:
    journal = journals.fill(saved)
    journals.fill(more, save=False, journal=journal)
    again = journals.open()
    assert_sound(again, saved + more)
    assert "tree" not in notes_of(again) or saved == 0
    assert_sound(journals.fill(300, journal=again), saved + more + 300)


def test_a_log_from_before_there_were_trees_gets_one(journals: Any, caplog: Any) -> None:
    journals.fill(700, journal=journals.open(tree=False))
    assert not (journals.path / "tree").exists()
    journal = journals.open()
    assert_sound(journal, 700)
    assert journal.tree.saved == 700
    assert "the tree of 700 leaves was built from the log" in notes_of(journal)
    assert "built" not in notes_of(journals.open())


def test_lost_tiles_are_named_and_made_anew(journals: Any) -> None:
    journals.fill(1000)
    path = journals.path / "tree/tile/0/002"
    content = path.read_bytes()
    path.unlink()
    journal = journals.open()
    assert "lost tiles were made anew from the log: tile/0/002" in notes_of(journal)
    assert path.read_bytes() == content
    assert_sound(journal, 1000)


@pytest.mark.parametrize("name", ["state", "tile/0/002.p/88", "tile/1/000.p/2"])
@pytest.mark.parametrize("damage", ["lost", "changed", "cut"])
def test_a_damaged_edge_is_built_anew_from_the_log(journals: Any, name: str, damage: str) -> None:
    journal = journals.fill(600)
    sign(journals, journal)
    path = journals.path / "tree" / name
    content = path.read_bytes()
    if damage == "lost":
        path.unlink()
    else:
        path.write_bytes(content[:-1] if damage == "cut" else b"\xff" + content[1:])
    again = journals.open()
    assert_sound(again, 600)
    assert "built" in notes_of(again)
    assert "built" not in notes_of(journals.open())


def test_a_tree_that_was_lost_as_a_whole_comes_back(journals: Any) -> None:
    root = journals.fill(600).tree.root(600)
    rmtree(journals.path / "tree")
    assert journals.open().tree.root(600) == root


def test_damaged_tiles_under_a_lost_state_are_named_and_kept_aside(journals: Any) -> None:
    journal = journals.fill(600)
    sign(journals, journal)
    (journals.path / "tree/state").unlink()
    (journals.path / "tree/tile/0/001").write_bytes(bytes(8192))
    again = journals.open()
    assert "damaged tiles were made anew from the log: tile/0/001" in notes_of(again)
    assert (journals.path / "tree/tile/0/001.damaged").read_bytes() == bytes(8192)
    assert_sound(again, 600)


def test_a_log_that_lost_what_was_signed_is_refused(journals: Any) -> None:
    journal = journals.fill(100)
    last = journals.path / segment_name(journal.segments.sealed[-1].end_leaf)
    sign(journals, journal)
    before = {path: path.read_bytes() for path in (journals.path / "tree").rglob("*/*[0-9]")
              if path.is_file()}  # fmt: skip
    last.unlink()
    (journals.path / "checkpoint").unlink()
    again = journals.open()
    assert again.next_leaf < 100
    assert "but a checkpoint of 100 was signed" in again.tree.refusal
    journals.fill(100, journal=again)
    assert all(path.read_bytes() == content for path, content in before.items())
    assert "a checkpoint of 100" in journals.open().tree.refusal or journals.open().tree.refusal


def test_a_log_that_was_rewritten_is_refused_however_its_tree_was_cleared(
    journals: Any, tmp_path: Path
) -> None:
    journal = journals.fill(30)
    sign(journals, journal)
    other = type(journals)(tmp_path / "other", type(journals.frames)(), journals.clock)
    journals.clock.us += 5
    other.fill(30)
    for path in other.path.glob("*.seg"):
        own = (journals.path / path.name).read_bytes()
        (journals.path / path.name).write_bytes(
            own[:SEGMENT_HEAD_BYTES] + path.read_bytes()[SEGMENT_HEAD_BYTES:]
        )
    assert "the log was changed" in journals.open().tree.refusal
    (journals.path / "tree/state").unlink()
    rmtree(journals.path / "tree/tile")
    again = journals.open()
    assert "the first 30 leaves of the log are not those of the checkpoint" in again.tree.refusal


def test_a_lost_checkpoint_is_named_and_an_older_one_serves(journals: Any) -> None:
    journal = journals.fill(40)
    older = sign(journals, journal)
    notes = CheckpointNotes(OsFiles(), journals.path / "tree", older.head.origin)
    notes.keep(older)
    journals.fill(40, journal=journal)
    sign(journals, journal)
    journals.fill(40, journal=journal)
    (journals.path / "tree/checkpoint").unlink()
    again = journals.open()
    assert "tree/checkpoint is lost: a tree of 80 leaves was signed" in notes_of(again)
    assert_sound(again, 120)
    assert again.tree.signed == 80


def test_leaves_lost_before_anything_covered_them_have_a_hash_that_says_so(journals: Any) -> None:
    journals.fill(60, journal=journals.open(tree=False))
    with (journals.path / segment_name(0)).open("r+b") as file:
        file.seek(SEGMENT_HEAD_BYTES + 40)
        file.write(b"\xff\xff\xff")
    journal = journals.open()
    hashes = list(journal.tree.leaves.hashes(0, 60))
    assert hashes[0] is None
    assert journal.tree.root(60) == root_of([lost_leaf_hash(0), *hashes[1:]])


def test_leaves_lost_after_they_were_signed_keep_their_hashes_even_without_a_state(
    journals: Any,
) -> None:
    journal = journals.fill(600)
    signed = sign(journals, journal)
    with (journals.path / segment_name(0)).open("r+b") as file:
        file.seek(SEGMENT_HEAD_BYTES + 40)
        file.write(b"\xff\xff\xff")
    (journals.path / "tree/state").unlink()
    again = journals.open(accept_lost_leaves=1)
    assert again.tree.refusal is None
    assert again.tree.root(600) == signed.head.root


def test_a_log_that_was_cut_is_refused_until_its_loss_is_accepted(journals: Any) -> None:
    journal = journals.fill(100)
    signed = sign(journals, journal)
    path = journals.path / segment_name(journal.active.first_leaf)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 10)
    for _ in range(2):
        again = journals.open()
        assert "1 batches that were signed are gone" in again.tree.refusal
        assert "leaf 99; bring back" in again.tree.refusal
        journals.fill(1, journal=again)
    accepted = journals.open(accept_lost_leaves=1)
    assert accepted.tree.refusal is None
    assert accepted.tree.root(100) == signed.head.root
    assert accepted.tree.size == 102


def test_segments_that_are_gone_are_refused(journals: Any) -> None:
    journal = journals.fill(200)
    sign(journals, journal)
    ends = [sealed.end_leaf for sealed in journal.segments.sealed]
    (journals.path / segment_name(ends[0])).unlink()
    gone = ends[1] - ends[0]
    assert f"{gone} batches that were signed are gone" in journals.open().tree.refusal
    (journals.path / segment_name(0)).unlink()
    assert f"{ends[1]} batches that were signed" in journals.open().tree.refusal


def test_unsigned_leaves_that_a_torn_tail_took_leave_the_tree_too(journals: Any) -> None:
    journal = journals.fill(30)
    sign(journals, journal)
    journals.fill(10, save=False, journal=journal)
    journal.tree.save(40)
    path = journals.path / segment_name(journal.active.first_leaf)
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(size - 10)
    again = journals.open()
    assert again.next_leaf < 40
    assert "the last leaves are gone" in notes_of(again)
    assert_sound(again, again.next_leaf)
    assert_sound(journals.fill(30, save=False, journal=again), again.next_leaf)
    assert_sound(journals.open(), again.next_leaf)
