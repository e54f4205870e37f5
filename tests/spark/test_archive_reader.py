"""Archive and live log as one: no gap, no duplicate, the same rows."""

from pathlib import Path
from typing import Any

import pytest

from spark.archive_files import BadArchive, write_archive
from spark.archive_reader import archive_partitions, read_archive
from spark.columns import columns_of
from spark.log_folder import segments_of
from spark.options import Bounds, parse_options


@pytest.fixture
def archive(log: Any, tmp_path: Path) -> Path:
    for number in range(4):
        log.add(f"t{number % 2}", [b"%d" % n for n in range(3)], keys=[b"k", None, b""])
    log.add("t0", removed=True)
    log.roll()
    log.add("t0", [b"new"])
    write_archive(segments_of(log.folder)[0], 5, tmp_path / "archive").keep()
    return tmp_path / "archive"


def test_bounds_hold_in_the_archive_too(archive: Path) -> None:
    (path,) = archive.iterdir()
    columns = columns_of("messages", ("offset", "value"))
    bounds = Bounds(frozenset({"t0"}), first_offset=2, end_offset=4)
    rows = [row for batch in read_archive(str(path), columns, bounds) for row in batch.to_pylist()]
    assert rows == [{"offset": 2, "value": b"2"}, {"offset": 3, "value": b"0"}]
    late = Bounds(since_us=2**60)
    assert list(read_archive(str(path), columns, late)) == []
    assert list(read_archive(str(path), columns, Bounds(until_us=0))) == []


def test_the_live_log_goes_on_where_the_archive_ends(archive: Path, log: Any) -> None:
    options = parse_options({"path": str(log.folder), "archive": str(archive)})
    partitions, first = archive_partitions(options, log.log_id)
    assert (len(partitions), first) == (1, 5)
    with pytest.raises(BadArchive, match="not of this one"):
        archive_partitions(options, b"another log's id")


def test_batches_are_not_archived(archive: Path, log: Any) -> None:
    options = parse_options({"path": str(log.folder), "archive": str(archive), "rows": "batches"})
    with pytest.raises(BadArchive, match="rows=batches"):
        archive_partitions(options, log.log_id)


def test_archive_and_tail_are_the_same_rows_as_the_log_alone(archive: Path, read: Any) -> None:
    alone = sorted(map(tuple, read().collect()), key=repr)
    together = sorted(map(tuple, read(archive=archive).collect()), key=repr)
    assert alone == together
    assert len(together) == 14
