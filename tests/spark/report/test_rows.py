"""The rows that the checks share: read once, and only as far as the log is synced."""

from pathlib import Path
from typing import Any

from spark.report.rows import read_rows


def test_damage_is_kept_below_what_is_synced_and_above_it_only_where_a_batch_is_missing(
    spark: Any, log: Any, tmp_path: Path
) -> None:
    for _ in range(4):
        log.add("a")
    log.save_tree(size=4)
    log.damage(3, at=0)
    rows = read_rows(spark, log.folder, None, tmp_path / "s")
    assert (rows.synced, rows.unsynced) == (4, 0)
    found = {(row.leaf, row.damage) for row in rows.batches.collect()}
    assert found == {(0, None), (1, None), (2, None), (None, "bad_magic")}
