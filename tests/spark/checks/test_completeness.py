"""Completeness: an honest log has no finding; every planted fault has exactly its own."""

from pathlib import Path
from typing import Any

import pytest

from log_format.layout import SEGMENT_HEAD_BYTES
from spark.checks.completeness import completeness, cut_off


@pytest.fixture
def honest(log: Any) -> Any:
    """Three topics, two producers, three segments; also removed, compressed and encrypted."""
    for number in range(12):
        log.add(f"t{number % 3}", [b"x"] * (number + 1), producer_id=number % 2)
        if number in (3, 8):
            log.roll()
    log.add("t0", removed=True)
    log.add("t1", encrypted=True)
    return log


def found(batches: Any, **options: Any) -> list[tuple[str, str | None, int | None, int | None]]:
    rows = completeness(batches(), **options).collect()
    return sorted((row.kind, row.topic, row.first_offset, row.last_offset) for row in rows)


def rewrite(path: Path, *frames: bytes) -> None:
    path.write_bytes(path.read_bytes()[:SEGMENT_HEAD_BYTES] + b"".join(frames))


def frame(log: Any, leaf: int) -> bytes:
    path, position, length = log.positions[leaf]
    return bytes(path.read_bytes()[position : position + length])


def test_an_honest_log_has_no_finding(honest: Any, batches: Any) -> None:
    assert found(batches) == []
    assert cut_off(batches(), 14).collect() == []


def test_a_changed_body_is_one_finding_with_its_offsets(honest: Any, batches: Any) -> None:
    honest.damage(5)
    assert found(batches) == [("body_hash", "t2", 3, 8)]


def test_a_changed_envelope_is_damage_and_the_gaps_that_it_leaves(
    honest: Any, batches: Any
) -> None:
    honest.damage(5, at=40)
    kinds = found(batches)
    assert ("envelope_checksum", None, None, None) in kinds
    assert ("offset_gap", "t2", 3, 8) in kinds
    assert ("leaf_gap", None, None, None) in kinds


def test_a_batch_that_was_taken_out_cleanly_leaves_gaps(log: Any, batches: Any) -> None:
    for _ in range(3):
        log.add("t", [b"x"] * 2)
    path = log.positions[0][0]
    rewrite(path, frame(log, 0), frame(log, 2))
    assert found(batches) == [
        ("leaf_gap", None, None, None), ("offset_gap", "t", 2, 3), ("sequence_gap", "t", 4, 5),
    ]  # fmt: skip


def test_offsets_that_were_numbered_anew_leave_the_producers_gap(log: Any, batches: Any) -> None:
    log.add("t", producer_id=1)
    log.add("other")
    log._sequences[("billing", 1, "t", 0)] = 2
    log.add("t", producer_id=1)
    assert found(batches) == [("sequence_gap", "t", 1, 1)]


def test_a_segment_that_is_gone_is_found_by_leaves_and_offsets(honest: Any, batches: Any) -> None:
    (honest.folder / f"{4:020d}.seg").unlink()
    kinds = {kind for kind, *_ in found(batches)}
    assert {"leaf_gap", "offset_gap"} <= kinds


def test_a_first_segment_that_is_gone_is_found_too(honest: Any, batches: Any) -> None:
    (honest.folder / f"{0:020d}.seg").unlink()
    kinds = found(batches)
    assert ("leaf_gap", None, None, None) in kinds
    assert ("offset_gap", "t0", 0, 4) in kinds
    assert found(batches, from_start=False) == []


def test_the_same_batch_twice_is_a_duplicate(log: Any, batches: Any) -> None:
    log.add("t", producer_id=1)
    log._sequences.clear()
    log.now_us -= 1_000_000
    log.add("t", producer_id=1)
    assert found(batches) == [("duplicate", "t", 1, 1)]


def test_offsets_and_leaves_that_come_again_are_named(log: Any, batches: Any) -> None:
    log.add("t", [b"x"] * 3)
    log.add("t", offset=1)
    assert found(batches) == [("offset_again", "t", 1, 2)]
    rewrite(log.positions[0][0], frame(log, 0), frame(log, 0))
    assert ("leaf_again", None, None, None) in found(batches)


def test_an_end_that_was_cut_off_is_known_by_what_was_synced(honest: Any, batches: Any) -> None:
    path, position, length = honest.positions[-1]
    (row,) = cut_off(batches(), 20).collect()
    assert (row.kind, row.leaf) == ("cut_off", 14)
    assert (row.file, row.position) == (path.name, position + length)


def test_sequences_may_wrap_and_a_new_epoch_begins_anew(log: Any, batches: Any) -> None:
    log._sequences[("billing", 7, "t", 0)] = 2**31 - 2
    log.add("t", [b"x"] * 4)
    log.add("t", [b"x"])
    assert found(batches) == []
