"""One segment: progress is told in full, and an empty or foreign file is no crash."""

from collections.abc import Callable
from pathlib import Path

from sidegate.checker.segment import check_segment
from sidegate.checker.verify import segments_of

WriteLog = Callable[[], Path]


def test_progress_adds_up_to_the_size_of_the_file(write_log: WriteLog) -> None:
    path = segments_of(write_log() / "data" / "core")[0]
    told: list[int] = []
    summary = check_segment(path, path.name, told.append)
    assert sum(told) == summary.size == path.stat().st_size


def test_an_empty_file_has_no_batches_and_nothing_wrong(tmp_path: Path) -> None:
    path = tmp_path / ("0" * 20 + ".seg")
    path.touch()
    summary = check_segment(path, path.name, lambda _count: None)
    assert (summary.batches, summary.findings) == (0, [])


def test_a_foreign_file_is_a_finding_at_its_first_byte(tmp_path: Path) -> None:
    path = tmp_path / ("0" * 20 + ".seg")
    path.write_bytes(b"PAR1" * 500)
    summary = check_segment(path, path.name, lambda _count: None)
    assert [(finding.kind, finding.position) for finding in summary.findings] == [
        ("segment_head", 0)
    ]


def test_a_segment_under_another_name_is_found(write_log: WriteLog) -> None:
    path = segments_of(write_log() / "data" / "core")[1]
    moved = path.rename(path.with_name("0" * 19 + "7.seg"))
    summary = check_segment(moved, moved.name, lambda _count: None)
    assert summary.findings[0].text == "named 7, begins at 4"
