"""Where a log is, and how it is divided."""

from pathlib import Path
from typing import Any

import pytest

from spark.frame_walk import Placed, walk
from spark.log_folder import (
    NoLog,
    foreign_files,
    foreign_segments,
    log_folder,
    other_files,
    plan,
    segments_of,
    split_size,
)


def test_a_state_folder_means_the_log_in_it(tmp_path: Path) -> None:
    core = tmp_path / "data" / "core"
    core.mkdir(parents=True)
    with pytest.raises(NoLog, match="make up"):
        log_folder(str(tmp_path))
    (core / f"{0:020d}.seg").touch()
    assert log_folder(str(tmp_path)) == log_folder(str(core)) == core


def test_ranges_cover_the_log_without_gap_or_overlap(log: Any) -> None:
    for number in range(60):
        log.add("t", [b"x" * 300])
        if number % 25 == 24:
            log.roll()
    ranges = plan(log.folder, split_bytes=4096)
    assert len(ranges) > 6
    leaves = [
        found.frame.envelope.stamp.leaf  # type: ignore[union-attr]
        for piece in ranges
        for found in walk(piece)
        if isinstance(found, Placed)
    ]
    assert leaves == list(range(60))
    assert [piece.last for piece in ranges] == [False] * (len(ranges) - 1) + [True]


def test_a_plan_for_some_leaves_leaves_out_the_other_segments(log: Any) -> None:
    for _ in range(4):
        log.roll()
        log.add("t")
    ranges = plan(log.folder, split_bytes=1 << 20, first_leaf=1, end_leaf=3)
    assert [piece.first_leaf for piece in ranges] == [1, 2]


def test_what_grows_after_the_plan_is_not_read(log: Any) -> None:
    log.add("t")
    (piece,) = plan(log.folder, split_bytes=1 << 20)
    log.add("t")
    assert len(list(walk(piece))) == 1


def test_splitting_stops_at_damage(log: Any) -> None:
    for _ in range(40):
        log.add("t", [b"x" * 300])
    log.damage(20, at=0)
    ranges = plan(log.folder, split_bytes=4096)
    assert ranges[-1].begin <= log.positions[20][1]


def test_segments_of_another_log_and_files_with_odd_names_are_named(log: Any) -> None:
    log.add("t")
    log.log_id = b"another log's id"
    log.roll()
    log.add("t")
    (log.folder / "copy.seg").touch()
    (foreign,) = foreign_segments(segments_of(log.folder))
    assert foreign.code == "foreign_segment"
    assert [each.file for each in foreign_files(log.folder)] == ["copy.seg"]


def test_every_core_gets_tasks_and_none_is_tiny_or_huge() -> None:
    mib = 1024 * 1024
    assert split_size(1000, 2) == 8 * mib
    assert split_size(400 * mib, 2) == 100 * mib
    assert split_size(1_000_000 * mib, 2) == 256 * mib


def test_a_file_that_no_log_has_is_named_and_those_of_a_log_are_not(tmp_path: Path) -> None:
    first = f"{0:020d}"
    for name in (f"{first}.seg", f"{first}.idx", f"{first}.entries", f"{first}.4096.torn", "lock"):
        (tmp_path / name).touch()
    for name in ("checkpoint", "checkpoint.tmp", "notes.txt", "core"):
        (tmp_path / name).touch()
    (tmp_path / "tree").mkdir()
    assert other_files(tmp_path) == ["core", "notes.txt"]
