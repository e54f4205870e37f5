"""Which segments are archived, and what is told of them."""

from pathlib import Path
from typing import Any

import pytest

from spark.archive_files import archived_files, file_sha256
from spark.archiving import archive_log
from spark.damage import DamagedLog


@pytest.fixture
def sealed(log: Any) -> Any:
    """Three sealed segments of two batches each, and a growing one."""
    for number in range(7):
        log.add("t", [b"x"] * 2)
        if number % 2 == 1:
            log.roll()
    log.save_tree()
    return log


def test_sealed_segments_are_archived_once_with_their_hashes(sealed: Any, tmp_path: Path) -> None:
    out = tmp_path / "archive"
    first = list(archive_log(sealed.folder, out))
    assert [(each["first_leaf"], each["end_leaf"]) for each in first] == [(0, 2), (2, 4), (4, 6)]
    assert [each["sha256"] for each in first] == [
        file_sha256(each.path) for each in archived_files(out)
    ]
    assert list(archive_log(sealed.folder, out)) == []
    sealed.roll()
    sealed.add("t")
    sealed.save_tree()
    assert [each["first_leaf"] for each in archive_log(sealed.folder, out)] == [6]


def test_a_hash_that_could_not_be_published_comes_again(sealed: Any, tmp_path: Path) -> None:
    out = tmp_path / "archive"
    attempt = archive_log(sealed.folder, out)
    lost = next(attempt)
    attempt.close()  # type: ignore[attr-defined]
    assert archived_files(out) == []
    assert next(archive_log(sealed.folder, out)) == lost


def test_what_is_not_known_to_be_synced_waits(sealed: Any, tmp_path: Path) -> None:
    sealed.save_tree(size=3)
    assert [each["end_leaf"] for each in archive_log(sealed.folder, tmp_path / "a")] == [2]


def test_a_damaged_segment_ends_the_archive_before_it(sealed: Any, tmp_path: Path) -> None:
    sealed.damage(3)
    archived = []
    with pytest.raises(DamagedLog, match="t/0 offsets 6 to 7"):
        archived.extend(each["first_leaf"] for each in archive_log(sealed.folder, tmp_path / "a"))
    assert [each.first_leaf for each in archived_files(tmp_path / "a")] == [0]
