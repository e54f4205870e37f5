"""The streaming audit finds what a report finds, also between two micro-batches, and once."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from spark.watching import Watch, batch_findings, finding_id, next_tail


def kinds(frame: Any) -> list[str]:
    return sorted(row.kind for row in frame.collect())


def parts(frame: Any, *edges: int) -> list[Any]:
    bounds = [0, *edges, 1 << 40]
    return [frame.filter(f"leaf >= {first} and leaf < {end}") for first, end in pairwise(bounds)]


def test_an_honest_log_has_no_finding_wherever_it_is_cut(log: Any, batches: Any) -> None:
    for number in range(8):
        log.add(f"t{number % 3}", [b"x"] * 2, producer_id=number % 2)
        if number == 4:
            log.roll()
    first, second, third = parts(batches(), 3, 6)
    assert kinds(batch_findings(None, first)) == []
    tail = next_tail(None, first)
    assert kinds(batch_findings(tail, second)) == []
    assert kinds(batch_findings(next_tail(tail, second), third)) == []


def test_a_batch_that_is_missing_between_two_micro_batches_is_found(log: Any, batches: Any) -> None:
    for _ in range(4):
        log.add("t")
    first, _, last = parts(batches(), 1, 3)
    found = kinds(batch_findings(next_tail(None, first), last))
    assert found == ["leaf_gap", "offset_gap", "sequence_gap"]


def test_the_same_finding_has_the_same_id_and_another_has_another(tmp_path: Path) -> None:
    first = finding_id(tmp_path, {"kind": "a", "leaf": 1})
    assert first == finding_id(tmp_path, {"leaf": 1, "kind": "a"})
    assert first != finding_id(tmp_path, {"kind": "a", "leaf": 2})


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_watch_tells_each_finding_once_and_keeps_every_batch_once(
    spark: Any, log: Any, tmp_path: Path
) -> None:
    told: list[tuple[str, str]] = []
    watch = Watch(
        spark, log.folder, tmp_path / "watch", {}, lambda key, row: told.append((key, row["kind"]))
    )

    def follow() -> None:
        watch.run(once=True, interval_s=1, leaves_per_trigger=2)

    for _ in range(3):
        log.add("t")
    log.damage(1)
    log.save_tree()
    follow()
    assert [kind for _, kind in told] == ["body_hash"]
    log.add("t")
    log.save_tree()
    follow()
    follow()
    assert len(told) == 1
    rows = spark.read.parquet(*[str(path) for path in (tmp_path / "watch" / "batches").iterdir()])
    assert sorted(row.leaf for row in rows.collect()) == [0, 1, 2, 3]
