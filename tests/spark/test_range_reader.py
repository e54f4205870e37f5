"""What one task reads."""

from typing import Any

import pytest

from spark.columns import columns_of
from spark.damage import DamagedLog
from spark.log_folder import plan
from spark.options import parse_options
from spark.range_reader import LogPartition, read_range
from spark.selection import Leaves


def rows(log: Any, leaves: Leaves, **options: str) -> list[dict[str, Any]]:
    parsed = parse_options({"path": str(log.folder), **options})
    columns = columns_of(parsed.rows, ("leaf",))
    return [
        row
        for piece in plan(log.folder, split_bytes=1 << 30)
        for batch in read_range(parsed, columns, LogPartition(piece, leaves))
        for row in batch.to_pylist()
    ]


def test_only_the_leaves_of_the_partition_are_read(log: Any) -> None:
    for _ in range(5):
        log.add("a")
    assert [row["leaf"] for row in rows(log, Leaves(1, 4))] == [1, 2, 3]


def test_damage_fails_skips_or_is_a_row_as_was_asked(log: Any) -> None:
    log.add("a")
    log.damage(0)
    with pytest.raises(DamagedLog):
        rows(log, Leaves())
    assert rows(log, Leaves(), damage="skip") == []
    assert rows(log, Leaves(), rows="batches") == [{"leaf": 0}]
