"""Batches as rows, and damage as rows among them."""

from typing import Any

from log_format.envelope import decode_envelope
from spark.batch_rows import batch_rows
from spark.columns import arrow_schema, columns_of
from spark.frame_walk import walk
from spark.log_folder import plan
from spark.options import Bounds
from spark.selection import Leaves, select


def rows(log: Any, *, verify: bool = True) -> list[dict[str, Any]]:
    columns = columns_of("batches", None)
    found: list[dict[str, Any]] = []
    for piece in plan(log.folder, split_bytes=1 << 30):
        selected = select(walk(piece), Bounds(), Leaves())
        for batch in batch_rows(selected, piece.file, columns, verify=verify):
            assert batch.schema.equals(arrow_schema(columns))
            found += batch.to_pylist()
    return found


def test_a_row_tells_all_that_the_envelope_does(log: Any) -> None:
    log.add("orders", [b"1", b"2"], partition=3, producer_id=5)
    (row,) = rows(log)
    assert (row["topic"], row["partition"], row["base_offset"], row["count"]) == ("orders", 3, 0, 2)
    assert row["leaf_hash"] == log.leaves[0]
    assert decode_envelope(row["envelope"]).producer.producer_id == 5
    assert (row["position"], row["frame_bytes"]) == log.positions[0][1:]
    assert row["damage"] is None


def test_a_bad_body_is_a_row_with_its_offsets_and_what_is_wrong(log: Any) -> None:
    log.add("orders")
    log.add("orders")
    log.damage(0)
    first, second = rows(log)
    assert (first["damage"], first["topic"], first["base_offset"]) == ("body_hash", "orders", 0)
    assert second["damage"] is None
    assert [row["damage"] for row in rows(log, verify=False)] == [None, None]


def test_bytes_that_are_no_batch_are_a_row_with_file_and_position(log: Any) -> None:
    log.add("orders")
    log.add("orders")
    log.damage(0, at=0)
    damaged, sound = rows(log)
    assert damaged["damage"] == "bad_magic"
    assert (damaged["file"], damaged["position"]) == (log.positions[0][0].name, 64)
    assert damaged["topic"] is None
    assert sound["leaf"] == 1


def test_removed_bodies_are_sound(log: Any) -> None:
    log.add("orders", removed=True)
    (row,) = rows(log)
    assert (row["body"], row["damage"], row["leaf_hash"]) == ("removed", None, log.leaves[0])
