"""From a folder to a log that can go on: what is read again, refused, cut and left."""

from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest

from core_log.control.starts import save_starts
from core_log.log.checkpoint import CHECKPOINT_NAME
from core_log.log.files import OsFiles
from core_log.log.index_file import index_path
from core_log.log.journal import Journal
from core_log.log.log_errors import LogRefused
from core_log.log.options import LogOptions
from core_log.log.results import LostRange
from log_format.layout import SEGMENT_HEAD_BYTES, segment_name


class Folder:
    """A log's folder, and journals opened on it one after the other, as after so many kills."""

    def __init__(self, path: Any, frames: Any, clock: Any) -> None:
        self.path = path
        self.frames = frames
        self.clock = clock

    def open(self, **options: Any) -> Journal:
        chosen = {"segment_bytes": 4096, "hot_tail_bytes": 0, **options}
        return Journal.open(OsFiles(), self.path, LogOptions(**chosen), self.clock)

    def fill(self, batches: int, *, save: bool, group: int = 1) -> Journal:
        journal = self.open()
        for _ in range(batches // group):
            staged = journal.group()
            staged.add_all([self.frames.frame("orders", [b"v" * 200]) for _ in range(group)])
            journal.write(staged)
            journal.sync(staged)
            journal.apply(staged)
        if save:
            journal.save(journal.snapshot())
        return journal

    def segments(self) -> list[str]:
        return sorted(path.name for path in self.path.glob("*.seg"))

    def last(self) -> Any:
        return self.path / self.segments()[-1]


@pytest.fixture
def folder(tmp_path: Path, frames: Any, manual_clock: Any) -> Any:
    return Folder(tmp_path, frames, manual_clock)


def readable(journal: Journal) -> int:
    """How many batches can be read one after the other."""
    at = 0
    while (result := journal.read(("orders", 0), at, 1)).frames:
        at = result.next_offset
    return at


def test_an_empty_folder_becomes_a_log_with_an_identity(folder: Any) -> None:
    journal = folder.open()
    assert len(journal.log_id) == 16
    assert folder.segments() == [segment_name(0)]
    assert journal.report.clean
    assert folder.open().log_id == journal.log_id


def test_after_a_clean_stop_nothing_is_scanned(folder: Any) -> None:
    folder.fill(30, save=True)
    journal = folder.open()
    assert journal.report.clean
    assert (journal.report.scanned_bytes, journal.report.rebuilt_indexes) == (0, 0)
    assert (journal.next_leaf, readable(journal)) == (30, 30)


def test_after_a_kill_only_what_lies_above_the_checkpoint_is_scanned(folder: Any) -> None:
    folder.fill(22, save=True)
    folder.fill(2, save=False)
    journal = folder.open()
    assert journal.report.scanned_frames == 2
    assert journal.report.rebuilt_indexes == 0
    assert readable(journal) == 24


def test_segments_filled_since_the_checkpoint_are_scanned_from_there(folder: Any) -> None:
    folder.fill(2, save=True)
    folder.fill(20, save=False)
    journal = folder.open()
    assert journal.report.scanned_frames == 20
    assert readable(journal) == 22


def test_a_lost_checkpoint_costs_a_scan_and_no_data(folder: Any) -> None:
    before = folder.fill(30, save=True)
    (folder.path / CHECKPOINT_NAME).unlink()
    journal = folder.open()
    assert journal.report.scanned_frames == 30
    assert readable(journal) == 30
    assert journal.producers.snapshot() == before.producers.snapshot()
    report = journal.report
    assert (report.cuts, report.quarantined, report.lost) == ((), (), ())


def test_a_lost_index_is_rebuilt_and_the_producers_are_known(folder: Any) -> None:
    before = folder.fill(30, save=True)
    for path in folder.path.glob("*.idx"):
        path.unlink()
    journal = folder.open()
    assert journal.report.rebuilt_indexes == len(folder.segments()) - 1
    assert readable(journal) == 30
    assert journal.producers.snapshot() == before.producers.snapshot()
    journal.save(journal.snapshot())
    assert folder.open().report.rebuilt_indexes == 0


def test_everything_beside_the_segments_can_be_thrown_away(folder: Any) -> None:
    folder.fill(30, save=True)
    for path in folder.path.iterdir():
        if path.is_dir():
            rmtree(path)
        elif path.suffix != ".seg":
            path.unlink()
    assert readable(folder.open()) == 30


def test_entries_of_a_segment_that_has_its_index_are_tidied_away(folder: Any) -> None:
    folder.fill(30, save=True)
    stale = folder.path / segment_name(0).replace(".seg", ".entries")
    stale.write_bytes(b"stale")
    folder.open()
    assert not stale.exists()


def test_a_torn_tail_is_cut_and_nothing_before_it(folder: Any) -> None:
    folder.fill(5, save=False)
    path = folder.last()
    whole = path.read_bytes()
    path.write_bytes(whole + whole[SEGMENT_HEAD_BYTES : SEGMENT_HEAD_BYTES + 100])
    journal = folder.open()
    (cut,) = journal.report.cuts
    assert (cut.position, cut.length, cut.leaf, cut.whole_frames) == (len(whole), 100, 5, 0)
    assert path.read_bytes() == whole
    assert (folder.path / cut.kept).read_bytes() == whole[64:164]
    assert readable(journal) == 5


def test_a_torn_group_goes_as_a_whole_from_its_damage_on(folder: Any) -> None:
    folder.fill(4, save=False, group=2)
    path = folder.last()
    data = bytearray(path.read_bytes())
    length = (len(data) - SEGMENT_HEAD_BYTES) // 4
    data[SEGMENT_HEAD_BYTES + 2 * length + 40] ^= 1
    path.write_bytes(data)
    journal = folder.open()
    (cut,) = journal.report.cuts
    assert (cut.leaf, cut.whole_frames) == (2, 1)
    assert (readable(journal), journal.next_leaf) == (2, 2)


def test_rot_is_left_in_place_and_its_offsets_are_told(folder: Any) -> None:
    folder.fill(5, save=False)
    path = folder.last()
    data = bytearray(path.read_bytes())
    length = (len(data) - SEGMENT_HEAD_BYTES) // 5
    data[SEGMENT_HEAD_BYTES + 2 * length + 40] ^= 1
    path.write_bytes(data)
    journal = folder.open()
    assert not journal.report.cuts
    assert LostRange(2, 3, "orders", 0, 2, 3) in journal.report.lost
    assert path.read_bytes() == bytes(data)
    assert journal.lost == 1
    assert journal.read(("orders", 0), 3, 10_000).next_offset == 5
    journal.save(journal.snapshot())
    assert folder.open().lost == 1


def test_a_segment_that_ends_in_rot_is_left_and_the_log_goes_on_in_a_new_one(folder: Any) -> None:
    folder.fill(6, save=True)
    path = folder.last()
    path.write_bytes(path.read_bytes()[:-50])
    journal = folder.open()
    assert not journal.report.cuts
    assert folder.segments()[-1] == segment_name(6)
    assert LostRange(6, 6, "orders", 0, 5, 6) in journal.report.lost
    assert (journal.next_leaf, journal.partitions.get(("orders", 0)).end) == (6, 6)


def test_a_creation_that_was_torn_is_undone(folder: Any) -> None:
    folder.fill(5, save=True)
    (folder.path / segment_name(5)).write_bytes(b"SGLOG")
    journal = folder.open()
    (cut,) = journal.report.cuts
    assert (cut.segment, cut.length) == (segment_name(5), 5)
    assert (readable(journal), journal.next_leaf) == (5, 5)
    assert folder.last().stat().st_size == SEGMENT_HEAD_BYTES


def test_a_segment_that_is_gone_is_lost_and_no_number_is_used_twice(folder: Any) -> None:
    folder.fill(30, save=True)
    middle = folder.segments()[2]
    (folder.path / middle).unlink()
    journal = folder.open()
    lost = [each for each in journal.report.lost if each.topic is None]
    assert lost
    assert (journal.next_leaf, journal.partitions.get(("orders", 0)).end) == (30, 30)


def test_what_is_missing_is_remembered_with_the_index_and_costs_no_memory(folder: Any) -> None:
    folder.fill(30, save=True)
    for name in folder.segments()[1:-1]:
        (folder.path / name).unlink()
    journal = folder.open()
    lost = journal.lost
    assert lost > 15
    journal.save(journal.snapshot())
    (folder.path / CHECKPOINT_NAME).unlink()
    again = folder.open()
    assert (again.lost, again.next_leaf) == (lost, 30)
    assert again.report.rebuilt_indexes == 0
    first = again.segments.get(0).index
    assert first.end_leaf == 0 + len(first) + first.missing
    assert first.missing == lost


def test_the_name_of_a_torn_segment_still_says_how_far_leaves_were_given(folder: Any) -> None:
    (folder.path / segment_name(7)).write_bytes(b"SG")
    journal = folder.open()
    assert journal.next_leaf == 7
    assert journal.report.lost == (LostRange(0, 7),)
    assert folder.segments() == [segment_name(7)]


def test_all_segments_gone_but_the_checkpoint_is_noticed(folder: Any) -> None:
    log_id = folder.fill(30, save=True).log_id
    for path in folder.path.glob("*.seg"):
        path.unlink()
    journal = folder.open()
    assert LostRange(0, 30) in journal.report.lost
    assert (journal.log_id, journal.next_leaf) == (log_id, 30)
    assert journal.partitions.get(("orders", 0)).end == 30


def test_segments_of_two_logs_in_one_folder_are_refused(
    folder: Any, tmp_path_factory: pytest.TempPathFactory, frames: Any, manual_clock: Any
) -> None:
    folder.fill(30, save=True)
    other = Folder(tmp_path_factory.mktemp("other"), type(frames)(), manual_clock)
    other.fill(30, save=True)
    name = folder.segments()[1]
    (folder.path / name).write_bytes((other.path / name).read_bytes())
    with pytest.raises(LogRefused, match="2 logs"):
        folder.open()


def test_a_segment_that_repeats_leaves_is_refused(folder: Any) -> None:
    folder.fill(30, save=True)
    first, second = folder.segments()[:2]
    whole = (folder.path / first).read_bytes() + (folder.path / second).read_bytes()[64:]
    (folder.path / first).write_bytes(whole)
    with pytest.raises(LogRefused, match="move the one away"):
        folder.open()


def test_a_checkpoint_of_another_log_is_not_used(
    folder: Any, tmp_path_factory: pytest.TempPathFactory, frames: Any, manual_clock: Any
) -> None:
    folder.fill(5, save=True)
    other = Folder(tmp_path_factory.mktemp("other"), type(frames)(), manual_clock)
    other.fill(9, save=True)
    foreign = (other.path / CHECKPOINT_NAME).read_bytes()
    (folder.path / CHECKPOINT_NAME).write_bytes(foreign)
    journal = folder.open()
    assert "another log" in journal.report.notes[0]
    assert (journal.next_leaf, readable(journal)) == (5, 5)


def test_a_damaged_head_is_reported_and_its_frames_are_read(folder: Any) -> None:
    folder.fill(30, save=True)
    first = folder.path / folder.segments()[0]
    data = bytearray(first.read_bytes())
    data[20] ^= 1
    first.write_bytes(data)
    journal = folder.open()
    assert journal.report.quarantined[0].segment == first.name
    assert readable(journal) == 30


def test_ends_lie_above_saved_starts_whatever_was_lost(folder: Any) -> None:
    folder.fill(3, save=False)
    save_starts(OsFiles(), folder.path, {("orders", 0): 9, ("gone", 4): 5})
    journal = folder.open()
    for key, start in ((("orders", 0), 9), (("gone", 4), 5)):
        partition = journal.partitions.get(key)
        assert (partition.start, partition.end) == (start, start)


def test_a_rebuilt_index_keeps_the_greatest_times_of_earlier_segments(folder: Any) -> None:
    folder.clock.us = 9000
    folder.fill(10, save=True)
    folder.clock.us = 100
    folder.fill(20, save=True)
    for path in folder.path.glob("*.idx"):
        path.unlink()
    (folder.path / CHECKPOINT_NAME).unlink()
    journal = folder.open()
    assert journal.offset_for_time(("orders", 0), 9000) == 0
    assert journal.offset_for_time(("orders", 0), 9001) == 30
    for sealed in journal.segments.sealed:
        assert journal.segments.get(sealed.first_leaf).index.runs["orders", 0].greatest_us == 9000


def test_a_log_without_sequences_remembers_no_producers(folder: Any) -> None:
    folder.fill(5, save=False)
    assert len(folder.open(check_sequences=False).producers) == 0
    assert not index_path(folder.last()).exists()
