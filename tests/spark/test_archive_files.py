"""The archive's files: whole, sorted, and true to their names."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from log_format.tree import root_of
from spark.archive_files import (
    BadArchive,
    archive_name,
    archived_files,
    file_sha256,
    read_footer,
    write_archive,
)
from spark.damage import DamagedLog
from spark.log_folder import segments_of


@pytest.fixture
def sealed(log: Any) -> Any:
    for number in range(6):
        log.add(f"t{number % 2}", [b"x"] * 3)
    log.roll()
    log.add("t0")
    return log


def test_a_file_is_sorted_and_its_footer_tells_what_it_holds(sealed: Any, tmp_path: Path) -> None:
    segment = segments_of(sealed.folder)[0]
    draft = write_archive(segment, 6, tmp_path / "archive")
    assert archived_files(tmp_path / "archive") == []
    draft.keep()
    path, footer = draft.path, draft.footer
    assert [each.path for each in archived_files(tmp_path / "archive")] == [path]
    assert path.name == archive_name(0, 6)
    assert read_footer(path) == footer
    assert footer.tree_root == root_of(sealed.leaves[:6]).hex()
    assert footer.segment_sha256 == file_sha256(segment.path)
    assert footer.offsets == {"t0/0": (0, 8), "t1/0": (0, 8)}
    rows = pq.read_table(path).to_pylist()
    assert [(row["topic"], row["offset"]) for row in rows] == [
        (topic, offset) for topic in ("t0", "t1") for offset in range(9)
    ]
    assert pq.ParquetFile(path).metadata.row_group(0).column(0).compression == "ZSTD"


def test_a_damaged_segment_is_not_archived(sealed: Any, tmp_path: Path) -> None:
    sealed.damage(2)
    with pytest.raises(DamagedLog):
        write_archive(segments_of(sealed.folder)[0], 6, tmp_path / "archive")
    assert archived_files(tmp_path / "archive") == []


def test_a_segment_that_lacks_its_end_is_not_archived(sealed: Any, tmp_path: Path) -> None:
    with pytest.raises(DamagedLog, match="ends before leaf 6"):
        write_archive(segments_of(sealed.folder)[0], 7, tmp_path / "archive")


def test_only_files_without_a_gap_from_the_first_leaf_on_count(tmp_path: Path) -> None:
    for first, end in ((0, 5), (5, 9), (12, 20)):
        (tmp_path / archive_name(first, end)).touch()
    (tmp_path / "other.parquet").touch()
    assert [(each.first_leaf, each.end_leaf) for each in archived_files(tmp_path)] == [
        (0, 5),
        (5, 9),
    ]


def test_a_file_under_another_name_is_refused(sealed: Any, tmp_path: Path) -> None:
    draft = write_archive(segments_of(sealed.folder)[0], 6, tmp_path)
    moved = draft.written.rename(tmp_path / archive_name(0, 7))
    with pytest.raises(BadArchive, match="leaves 0 to 5"):
        read_footer(moved)
