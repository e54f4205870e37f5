"""Errors carry what their answers need, and know no HTTP status."""

import pytest

from gatekeeper.audit.decisions import Ruling
from gatekeeper.errors import CoreUnavailable, Denied, GateError, Overloaded
from gatekeeper.identity.identity import Identity

WHO = Identity("spiffe://e/a", bytes(32), "i", "https://i", "c", "s", "t", frozenset(), 1.0)


def test_a_denial_quotes_its_decision() -> None:
    ruling = Ruling(
        b"\x01" * 16, 1, False, "replay", "orders", "p", "r", "no_rule", "no", bytes(32), WHO
    )
    denied = Denied(ruling)
    assert str(denied) == "no"
    assert denied.members == {
        "decision_id": ruling.id_text,
        "reason": "no_rule",
        "action": "replay",
        "topic": "orders",
    }


@pytest.mark.parametrize(("wait_s", "header"), [(0.0, "1"), (0.2, "1"), (1.5, "2"), (30, "30")])
def test_what_passes_says_when_in_whole_seconds(wait_s: float, header: str) -> None:
    assert CoreUnavailable("down", wait_s).headers == {"Retry-After": header}


def test_an_error_is_plain_unless_told_otherwise() -> None:
    assert GateError("x").members == {}
    assert Overloaded("x", 1, limit=5).members == {"limit": 5}
