"""Messages as record batches: right values, right sizes."""

from typing import Any

import pyarrow as pa
import pytest

from log_format.parts import Producer
from sidecar.delivery.record_id import derived_id
from spark.columns import arrow_schema, columns_of
from spark.damage import Damage, DamagedLog
from spark.frame_walk import walk
from spark.log_folder import plan
from spark.message_rows import ROWS_MAX, ROWS_MIN, message_rows
from spark.options import Bounds
from spark.selection import Leaves, select


def batches(
    log: Any, names: tuple[str, ...] | None = None, bounds: Bounds | None = None
) -> list[Any]:
    columns = columns_of("messages", names)

    def fail(damage: Damage) -> None:
        raise DamagedLog(damage)

    found: list[Any] = []
    for piece in plan(log.folder, split_bytes=1 << 30):
        selected = select(walk(piece), bounds or Bounds(), Leaves())
        found += message_rows(selected, piece.file, columns, verify=True, on_damage=fail)
    assert all(each.schema.equals(arrow_schema(columns)) for each in found)
    return found


def rows(log: Any, *names: str, bounds: Bounds | None = None) -> list[dict[str, Any]]:
    return [row for batch in batches(log, names or None, bounds) for row in batch.to_pylist()]


def test_small_batches_are_put_together_and_large_ones_cut(log: Any) -> None:
    for _ in range(50):
        log.add("t", [b"x"] * 400)
    log.add("t", [b"x"] * 40_000)
    sizes = [len(batch) for batch in batches(log)]
    assert sum(sizes) == 60_000
    assert max(sizes) <= ROWS_MAX
    assert sizes[0] >= ROWS_MIN


def test_large_values_make_batches_of_few_rows(log: Any) -> None:
    for _ in range(6):
        log.add("t", [b"x" * 1_000_000] * 3)
    assert [len(batch) for batch in batches(log, ("value",))] == [9, 9]
    assert [len(batch) for batch in batches(log, ("offset",))] == [18]


def test_numbers_rise_from_record_to_record_across_batches(log: Any) -> None:
    log.add("a", [b"1"] * 3)
    log.add("b", [b"1"] * 2, producer_id=1)
    log.add("a", [b"1"] * 2)
    found = rows(log, "topic", "offset", "sequence", "leaf", "producer_id")
    assert [(r["topic"], r["offset"], r["sequence"], r["leaf"]) for r in found] == [
        ("a", 0, 0, 0), ("a", 1, 1, 0), ("a", 2, 2, 0),
        ("b", 0, 0, 1), ("b", 1, 1, 1),
        ("a", 3, 3, 2), ("a", 4, 4, 2),
    ]  # fmt: skip
    assert [r["producer_id"] for r in found] == [7, 7, 7, 1, 1, 7, 7]


def test_records_outside_of_the_bounds_are_cut_off_in_every_column(log: Any) -> None:
    log.add("a", [b"%d" % n for n in range(10)], keys=[b"k%d" % n for n in range(10)])
    found = rows(log, "offset", "value", "key", "size", bounds=Bounds(first_offset=3, end_offset=5))
    assert found == [
        {"offset": 3, "value": b"3", "key": b"k3", "size": 1},
        {"offset": 4, "value": b"4", "key": b"k4", "size": 1},
    ]


def test_ids_that_no_app_gave_are_those_that_the_sidecar_shows(log: Any) -> None:
    log.add("a", [b"1"] * 3, ids=[b"mine", None, b""], producer_id=2**62 + 5)
    log.add("a", [b"1"] * 2, producer_id=2**62 + 5)
    part = Producer("a", 0, 2**62 + 5, 0, 0, 3, 0, 0, bytes(32))
    assert [row["id"] for row in rows(log, "id")] == [
        "mine", derived_id(part, 1), "", derived_id(part, 3), derived_id(part, 4),
    ]  # fmt: skip


def test_a_removed_or_encrypted_body_leaves_rows_without_values(log: Any) -> None:
    log.add("a", [b"1"] * 2, removed=True)
    log.add("a", [b"1"], encrypted=True)
    log.add("a", [b"1"])
    found = rows(log, "offset", "body", "value", "size", "event_time", "principal")
    assert [(r["offset"], r["body"], r["value"], r["size"]) for r in found] == [
        (0, "removed", None, None), (1, "removed", None, None),
        (2, "encrypted", None, None), (3, "stored", b"1", 1),
    ]  # fmt: skip
    assert {r["principal"] for r in found} == {"billing"}


def test_the_cores_own_batches_have_no_sender(log: Any) -> None:
    log.add("_control", principal=None)
    log.add("_control")
    assert [row["principal"] for row in rows(log, "principal")] == [None, "billing"]


def test_damage_is_handed_over_and_the_rest_is_read(log: Any) -> None:
    for _ in range(3):
        log.add("a")
    log.damage(1)
    with pytest.raises(DamagedLog, match="a/0 offsets 1 to 1"):
        batches(log)
    met: list[Damage] = []
    (piece,) = plan(log.folder, split_bytes=1 << 30)
    found = message_rows(
        select(walk(piece), Bounds(), Leaves()),
        piece.file,
        columns_of("messages", ("offset",)),
        verify=True,
        on_damage=met.append,
    )
    assert [row["offset"] for batch in found for row in batch.to_pylist()] == [0, 2]
    assert [each.code for each in met] == ["body_hash"]


def test_every_type_is_exact_with_one_and_with_many_batches(log: Any) -> None:
    log.add("a", [b"1"])
    (one,) = batches(log)
    assert one.schema.field("append_time").type == pa.timestamp("us", tz="UTC")
    log.add("b", [b"1"], provenance={"token_id": "t-2"})
    (two,) = batches(log)
    assert [row["token_id"] for row in two.to_pylist()] == ["t-1", "t-2"]
