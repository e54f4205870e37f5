"""Small logs, read in one process."""

from pathlib import Path
from typing import Any

from spark.damage import Damage
from spark.small_log import read_records


def test_records_come_with_their_places_and_damage_is_handed_over(log: Any) -> None:
    log.add("a", [b"1", b"2"], keys=[b"k", None])
    log.add("a", [b"3"])
    log.add("a", [b"4"], removed=True)
    log.damage(1)
    damage: list[Damage] = []
    found = list(read_records(log.folder, damage.append))
    assert [(each.topic, each.offset, each.key, each.value) for each in found] == [
        ("a", 0, b"k", b"1"), ("a", 1, None, b"2"),
    ]  # fmt: skip
    assert [each.code for each in damage] == ["body_hash"]


def test_no_log_has_no_records(tmp_path: Path) -> None:
    assert list(read_records(tmp_path, lambda damage: None)) == []
