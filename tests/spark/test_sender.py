"""What an envelope says about its sender."""

from typing import Any

from log_format.envelope import decode_envelope
from spark.sender import body_state, decision_text, sender_value, sender_values


def test_a_sender_is_shown_as_people_quote_it(log: Any) -> None:
    log.add("orders", producer_id=9)
    path, position, _ = log.positions[0]
    envelope = decode_envelope(path.read_bytes(), position)
    values = sender_values(envelope)
    assert values["principal"] == "billing"
    assert values["thumbprint"] == "11" * 32
    assert values["decision_id"] == "22222222-2222-2222-2222-222222222222"
    assert values["producer_id"] == sender_value(envelope, "producer_id") == 9
    assert body_state(envelope) == "stored"


def test_what_the_core_wrote_by_itself_has_no_sender(log: Any) -> None:
    log.add("_control", principal=None)
    path, position, _ = log.positions[0]
    envelope = decode_envelope(path.read_bytes(), position)
    assert sender_value(envelope, "principal") is None
    assert sender_value(envelope, "epoch") == 0


def test_decision_ids_are_written_as_uuids() -> None:
    assert decision_text(bytes(range(16))) == "00010203-0405-0607-0809-0a0b0c0d0e0f"
