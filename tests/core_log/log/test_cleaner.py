"""Retention done: starts move first, bodies follow, and no reader is disturbed."""

import errno
from pathlib import Path
from typing import Any

import pytest

from core_log.control.starts import STARTS_NAME, load_starts
from core_log.log.cleaner import CLOCK_HOLD_S, CLOCK_STEP_US, Cleaner
from core_log.log.files import OsFiles
from core_log.log.journal import Journal
from core_log.log.options import LogOptions, Retention
from log_format.envelope import MAGIC_BODILESS


class House:
    """A journal and its cleaner."""

    def __init__(
        self, folder: Any, frames: Any, clock: Any, files: Any = None, **options: Any
    ) -> None:
        chosen = {
            "segment_bytes": 4096,
            "hot_tail_bytes": 0,
            "erase_delay_s": 100.0,
            "disk_reserve_bytes": 0,
            **options,
        }
        self.options = LogOptions(**chosen)
        self.folder = folder
        self.frames = frames
        self.clock = clock
        self.files = files or OsFiles()
        self.open()

    def open(self) -> None:
        self.journal = Journal.open(self.files, self.folder, self.options, self.clock)
        self.cleaner = Cleaner(self.journal, self.files, self.folder, self.options, self.clock)

    def append(self, topic: str, batches: int, step_us: int = 0, size: int = 200) -> None:
        for _ in range(batches):
            group = self.journal.group()
            group.add_all([self.frames.frame(topic, [b"v" * size])])
            self.journal.write(group)
            self.journal.sync(group)
            self.journal.apply(group)
            self.clock.us += step_us

    def save(self) -> None:
        self.journal.save(self.journal.snapshot())

    def clean(self, **topics: Retention) -> Any:
        return self.cleaner.clean(topics, self.clock.now_us())

    def start(self, topic: str) -> int:
        return self.journal.partitions.get((topic, 0)).start

    def offsets(self, topic: str) -> list[int]:
        found, at = [], 0
        while (result := self.journal.read((topic, 0), at, 1)).frames:
            found.append(self.frames.offset(result.frames[0]))
            at = result.next_offset
        return found


@pytest.fixture
def house(tmp_path: Path, frames: Any, manual_clock: Any) -> Any:
    return House(tmp_path, frames, manual_clock)


def test_what_is_old_is_dropped_and_then_erased(house: Any) -> None:
    house.append("orders", 40, step_us=1000)
    house.save()
    before = house.journal.bytes
    report = house.clean(orders=Retention(age_us=15_000)).report
    assert house.start("orders") == 26
    assert report.starts_moved == 1
    assert report.segments_rewritten >= 3
    assert report.bodies_removed >= 15
    assert report.bytes_freed == before - house.journal.bytes > 0
    assert house.offsets("orders") == list(range(26, 40))


def test_what_was_dropped_stays_dropped_after_a_restart(house: Any) -> None:
    house.append("orders", 40, step_us=1000)
    house.save()
    house.clean(orders=Retention(age_us=15_000))
    house.open()
    assert house.journal.report.clean
    assert house.start("orders") == 26
    assert house.offsets("orders") == list(range(26, 40))
    assert house.journal.next_leaf == 40


def test_without_the_saved_starts_the_erased_bodies_tell(house: Any) -> None:
    house.append("orders", 40, step_us=1000)
    house.save()
    house.clean(orders=Retention(drop_below={0: 40}))
    (house.folder / STARTS_NAME).unlink()
    house.open()
    assert 30 < house.start("orders") < 40
    assert house.offsets("orders") == list(range(house.start("orders"), 40))


def test_a_long_lived_topic_does_not_pin_the_rest(house: Any) -> None:
    for _ in range(20):
        house.append("orders", 1, step_us=1000)
        house.append("ledger", 1)
    house.save()
    house.clean(orders=Retention(bytes=1))
    house.clock.seconds += house.options.erase_delay_s
    report = house.clean(orders=Retention(bytes=1)).report
    assert report.waiting_bytes < 1500, "only the growing segment still has some"
    assert house.offsets("ledger") == list(range(20))
    assert house.offsets("orders") == [19]


def test_a_topic_without_retention_is_kept_for_ever(house: Any) -> None:
    house.append("orders", 40, step_us=10**12)
    house.save()
    assert house.clean(orders=Retention(), other=Retention(age_us=1)).report.starts_moved == 0
    assert house.offsets("orders") == list(range(40))


def test_deleting_a_topic_drops_all_and_keeps_its_end(house: Any) -> None:
    house.append("orders", 20)
    house.save()
    house.clean(orders=Retention(drop_below={0: 20, 3: 7}))
    assert house.offsets("orders") == []
    partition = house.journal.partitions.get(("orders", 0))
    assert (partition.start, partition.end) == (20, 20)
    house.append("orders", 1)
    assert house.offsets("orders") == [20]


def test_a_start_is_saved_before_it_moves(house: Any) -> None:
    house.append("orders", 20)
    house.clean(orders=Retention(drop_below={0: 7}))
    assert load_starts(OsFiles(), house.folder) == {("orders", 0): 7}


def test_a_segment_is_rewritten_when_half_of_it_can_go_or_it_has_waited(house: Any) -> None:
    for _ in range(8):
        house.append("ledger", 3)
        house.append("orders", 1)
    house.save()
    dropped = Retention(drop_below={0: 8})
    first = house.clean(orders=dropped)
    assert (first.report.segments_rewritten, first.roll) == (0, False)
    assert first.report.waiting_bytes > 0
    house.clock.seconds += house.options.erase_delay_s
    second = house.clean(orders=dropped)
    assert second.report.segments_rewritten == len(house.journal.segments.sealed)
    assert house.offsets("ledger") == list(range(24))


def test_the_growing_segment_is_never_touched_but_sealed_once_it_has_waited(house: Any) -> None:
    house.append("orders", 3)
    content = house.journal.segments.path(0).read_bytes()
    dropped = Retention(drop_below={0: 3})
    assert not house.clean(orders=dropped).roll
    house.clock.seconds += house.options.erase_delay_s
    cleaned = house.clean(orders=dropped)
    assert cleaned.roll
    assert house.journal.segments.path(0).read_bytes() == content
    house.journal.roll()
    house.save()
    report = house.clean(orders=dropped).report
    assert (report.segments_rewritten, report.bodies_removed) == (1, 3)
    assert MAGIC_BODILESS in house.journal.segments.path(0).read_bytes()
    assert not house.clean(orders=dropped).roll


def test_a_reader_finishes_on_the_old_file(house: Any) -> None:
    house.append("orders", 20)
    house.save()
    old = house.journal.segments.get(0)
    expected = old.file.read(0, 4096)
    house.clean(orders=Retention(drop_below={0: 20}))
    assert old.file.read(0, 4096) == expected
    assert house.journal.segments.get(0).file.size() < len(expected)


def test_cleaning_again_finds_nothing_to_do(house: Any) -> None:
    house.append("orders", 40)
    house.save()
    dropped = Retention(drop_below={0: 30})
    house.clean(orders=dropped)
    report = house.clean(orders=dropped).report
    assert (report.starts_moved, report.segments_rewritten) == (0, 0)


def test_a_clock_set_forward_expires_nothing_for_a_day(house: Any) -> None:
    house.append("orders", 20, step_us=1000)
    house.save()
    retention = Retention(age_us=10**9)
    house.clean(orders=retention)
    house.clock.us += CLOCK_STEP_US * 50
    report = house.clean(orders=retention).report
    assert report.starts_moved == 0
    assert "clock was set forward" in report.notes[0]
    house.clock.seconds += CLOCK_HOLD_S
    house.clock.us += round(CLOCK_HOLD_S * 1_000_000)
    assert house.clean(orders=retention).report.starts_moved == 1


def test_time_that_passes_as_it_should_is_no_step(house: Any) -> None:
    house.append("orders", 20, step_us=1000)
    house.clean(orders=Retention(age_us=10**9))
    house.clock.seconds += 5000
    house.clock.us += 5_000_000_000
    assert house.clean(orders=Retention(age_us=10**9)).report.starts_moved == 1


class NoRoomFor(OsFiles):
    """A disk that has no room for files of some kind."""

    def __init__(self, part: str) -> None:
        self.part = part

    def open(self, path: Path, mode: Any) -> Any:
        if mode == "create" and self.part in path.name:
            raise OSError(errno.ENOSPC, "full")
        return super().open(path, mode)


@pytest.mark.parametrize(("part", "start"), [(STARTS_NAME, 0), (".seg.tmp", 20)])
def test_a_full_disk_only_delays_the_cleaner(
    tmp_path: Path, frames: Any, manual_clock: Any, part: Any, start: Any
) -> None:
    house = House(tmp_path, frames, manual_clock, files=NoRoomFor(part))
    house.append("orders", 20)
    house.save()
    report = house.clean(orders=Retention(drop_below={0: 20})).report
    assert report.segments_rewritten == 0
    assert "no room" in report.notes[0]
    assert house.start("orders") == start
    assert not list(tmp_path.glob("*.tmp"))


def test_a_damaged_head_is_noted_and_the_segment_left(house: Any) -> None:
    house.append("orders", 20)
    house.save()
    path = house.journal.segments.path(0)
    data = bytearray(path.read_bytes())
    data[9] ^= 1
    path.write_bytes(data)
    report = house.clean(orders=Retention(drop_below={0: 20})).report
    assert "head is damaged" in report.notes[0]
    assert path.read_bytes() == bytes(data)
    assert report.segments_rewritten == len(house.journal.segments.sealed) - 1


def test_a_stopped_cleaner_leaves_the_rest_for_later(house: Any) -> None:
    house.append("orders", 40)
    house.save()
    house.cleaner.stop()
    report = house.clean(orders=Retention(drop_below={0: 40})).report
    assert (report.starts_moved, report.segments_rewritten) == (1, 0)
