"""The log on disk, group by group: rolls, reads, times and checkpoints."""

from pathlib import Path
from typing import Any

import pytest

from core_log.log.files import OsFiles
from core_log.log.index_file import index_path
from core_log.log.journal import Journal
from core_log.log.log_errors import Damaged
from core_log.log.options import LogOptions
from log_format.layout import SEGMENT_HEAD_BYTES


@pytest.fixture
def open_journal(tmp_path: Path, manual_clock: Any) -> Any:
    def open_it(**options: Any) -> Journal:
        chosen = {"segment_bytes": 4096, "hot_tail_bytes": 0, **options}
        return Journal.open(OsFiles(), tmp_path, LogOptions(**chosen), manual_clock)

    return open_it


def append(journal: Journal, *frames: Any) -> None:
    group = journal.group()
    group.add_all(frames)
    journal.write(group)
    journal.sync(group)
    journal.apply(group)


def read_all(journal: Journal, frames: Any, topic: str = "orders") -> list[bytes]:
    values, at = [], 0
    while True:
        result = journal.read((topic, 0), at, 2000)
        if not result.frames:
            return values
        values += [value for frame in result.frames for value in frames.values(frame)]
        at = result.next_offset


def test_nothing_is_seen_before_it_is_applied(open_journal: Any, frames: Any) -> None:
    journal = open_journal()
    group = journal.group()
    group.add_all([frames.frame()])
    journal.write(group)
    journal.sync(group)
    assert journal.read(("orders", 0), 0, 100).frames == ()
    journal.apply(group)
    assert len(journal.read(("orders", 0), 0, 100).frames) == 1
    assert (journal.next_leaf, journal.durable_leaf) == (1, 1)


def test_a_full_segment_is_sealed_and_reads_run_across(open_journal: Any, frames: Any) -> None:
    journal = open_journal()
    expected = [b"%d" % number * 50 for number in range(40)]
    for value in expected:
        append(journal, frames.frame("orders", [value]))
    assert len(journal.segments) > 5
    assert all(sealed.length <= 4096 for sealed in journal.segments.sealed)
    assert read_all(journal, frames) == expected


def test_a_frame_larger_than_a_segment_gets_one_of_its_own(open_journal: Any, frames: Any) -> None:
    journal = open_journal()
    expected = [b"s", b"L" * 9000, b"t"]
    for value in expected:
        append(journal, frames.frame("orders", [value]))
    assert len(journal.segments) == 3
    assert read_all(journal, frames) == expected


def test_an_empty_segment_is_not_rolled(open_journal: Any) -> None:
    journal = open_journal()
    journal.roll()
    journal.roll()
    assert len(journal.segments) == 1
    assert journal.bytes == SEGMENT_HEAD_BYTES


def test_a_read_gives_one_frame_at_least_and_ends_at_its_bytes(
    open_journal: Any, frames: Any
) -> None:
    journal = open_journal()
    for number in range(20):
        append(journal, frames.frame("orders", [b"%d" % number * 50]))
    first = journal.read(("orders", 0), 3, 1)
    assert (len(first.frames), first.next_offset) == (1, 4)
    assert (first.start_offset, first.end_offset) == (0, 20)
    more = journal.read(("orders", 0), 3, 2000)
    assert 1 < len(more.frames) < 6
    assert sum(map(len, more.frames)) <= 2000
    assert more.next_offset == 3 + len(more.frames)


def test_past_the_end_there_is_nothing(open_journal: Any, frames: Any) -> None:
    journal = open_journal()
    append(journal, frames.frame("orders", [b"a", b"b"]))
    for offset in (2, 50):
        result = journal.read(("orders", 0), offset, 100)
        assert (result.frames, result.next_offset, result.end_offset) == ((), offset, 2)
    unknown = journal.read(("nobody", 0), 5, 100)
    assert (unknown.frames, unknown.next_offset, unknown.end_offset) == ((), 5, 0)


def test_a_hot_read_never_needs_the_disk(open_journal: Any, frames: Any) -> None:
    journal = open_journal(hot_tail_bytes=2000)
    for number in range(20):
        append(journal, frames.frame("orders", [b"%d" % number * 50]))
    assert journal.read_hot(("orders", 0), 0, 1000) is None
    hot = journal.read_hot(("orders", 0), 19, 1000)
    assert hot.next_offset == hot.end_offset == 20
    assert frames.values(hot.frames[0]) == [b"19" * 50]
    assert journal.read_hot(("orders", 0), 20, 1000).frames == ()
    assert hot.frames == journal.read(("orders", 0), 19, 1000).frames


def test_times_are_looked_up_over_all_segments(
    open_journal: Any, frames: Any, manual_clock: Any
) -> None:
    journal = open_journal()
    manual_clock.us = 1000
    for number in range(30):
        append(journal, frames.frame("orders", [b"%d" % number * 50]))
        manual_clock.us += 10
    assert len(journal.segments) > 3
    for time_us, expected in ((0, 0), (1000, 0), (1001, 1), (1150, 15), (1155, 16), (1290, 29)):
        assert journal.offset_for_time(("orders", 0), time_us) == expected
    assert journal.offset_for_time(("orders", 0), 1291) == 30
    assert journal.offset_for_time(("nobody", 0), 5) == 0


def test_a_clock_that_steps_back_does_no_harm_to_lookups(
    open_journal: Any, frames: Any, manual_clock: Any
) -> None:
    journal = open_journal()
    for time_us in (100, 200, 150, 160, 300):
        manual_clock.us = time_us
        append(journal, frames.frame())
    found = [journal.offset_for_time(("orders", 0), time) for time in (100, 150, 201, 300, 301)]
    assert found == [0, 1, 4, 4, 5]


def test_a_checkpoint_spares_the_scan(open_journal: Any, frames: Any) -> None:
    journal = open_journal()
    for number in range(30):
        append(journal, frames.frame("orders", [b"%d" % number * 50]))
    journal.save(journal.snapshot())
    assert journal.checkpoint_leaf == 30
    assert open_journal().report.clean
    for number in range(30, 33):
        append(journal, frames.frame("orders", [b"%d" % number * 50]))
    again = open_journal()
    assert 0 < again.report.scanned_bytes < 4096
    assert again.report.scanned_frames == 3
    assert read_all(again, frames) == [b"%d" % number * 50 for number in range(33)]


def test_a_segment_sealed_since_the_snapshot_is_saved_whole(open_journal: Any, frames: Any) -> None:
    journal = open_journal()
    append(journal, frames.frame())
    snapshot = journal.snapshot()
    for _ in range(10):
        append(journal, frames.frame("orders", [b"x" * 300]))
    journal.save(snapshot)
    assert index_path(journal.segments.path(0)).exists()
    again = open_journal()
    assert again.report.rebuilt_indexes == 0
    assert len(read_all(again, frames)) == 11


def test_rot_in_a_sealed_segment_is_an_error_for_its_offsets_alone(
    open_journal: Any, frames: Any
) -> None:
    journal = open_journal()
    for number in range(20):
        append(journal, frames.frame("orders", [b"%d" % number * 50]))
    journal.save(journal.snapshot())
    path = journal.segments.path(0)
    data = bytearray(path.read_bytes())
    at = data.index(b"22222222")
    data[at] ^= 1
    path.write_bytes(data)
    journal = open_journal()
    with pytest.raises(Damaged) as caught:
        journal.read(("orders", 0), 2, 100)
    assert (caught.value.first, caught.value.end) == (2, 3)
    before = journal.read(("orders", 0), 0, 100_000)
    assert (len(before.frames), before.next_offset) == (2, 2)
    assert journal.read(("orders", 0), 3, 1).next_offset == 4


def test_an_index_rebuilt_while_the_log_runs_has_the_same_times(
    open_journal: Any, frames: Any, manual_clock: Any
) -> None:
    journal = open_journal()
    for time_us in (500, 100, 120, 130, 140, 150, 160, 170, 180, 190, 600):
        manual_clock.us = time_us
        append(journal, frames.frame("orders", [b"t" * 300]))
    journal.save(journal.snapshot())
    second = journal.segments.sealed[1]
    journal = open_journal()
    index_path(journal.segments.path(second.first_leaf)).unlink()
    assert journal.segments.get(second.first_leaf).index.runs["orders", 0].greatest_us == 500
    assert journal.offset_for_time(("orders", 0), 400) == 0
    assert journal.offset_for_time(("orders", 0), 550) == 10
