"""Damage names the file, the position, and the offsets where they are known."""

from typing import Any

from log_format.envelope import decode_envelope
from spark.damage import Damage, DamagedLog


def test_damage_says_where_and_what() -> None:
    assert str(Damage("a.seg", 64, 8, "bad_magic", "no frame")) == (
        "a.seg at byte 64: bad_magic: no frame"
    )


def test_damage_of_a_body_names_its_offsets(log: Any) -> None:
    log.add("orders", [b"1", b"2"])
    path, position, _ = log.positions[0]
    envelope = decode_envelope(path.read_bytes(), position)
    text = str(Damage("a.seg", position, 8, "body_hash", "differs", envelope))
    assert "(orders/0 offsets 0 to 1)" in text


def test_a_refused_read_says_how_to_go_on() -> None:
    assert "damage=skip" in str(DamagedLog(Damage("a.seg", 64, 8, "bad_magic", "no frame")))
