"""Decisions with ids: what answers, provenance and the decision log quote."""

import uuid

from hypothesis import given
from hypothesis import strategies as st

from gatekeeper.audit.decisions import NO_RULE, id_text, new_decision_id, record_of, rule_on
from gatekeeper.identity.identity import Identity
from gatekeeper.policy.decide import Decision

WHO = Identity(
    "spiffe://example/app",
    b"\x01" * 32,
    "corp",
    "https://idp",
    "billing",
    "subject",
    "token-7",
    frozenset(),
    1.0,
)


@given(st.integers(0, 2**47 * 1000))
def test_an_id_is_a_uuid_of_version_7_with_its_time(now_us: int) -> None:
    parsed = uuid.UUID(bytes=new_decision_id(now_us))
    assert parsed.version == 7
    assert parsed.variant == uuid.RFC_4122
    assert parsed.int >> 80 == now_us // 1000


def test_ids_of_one_moment_differ_and_ids_sort_by_time() -> None:
    assert len({new_decision_id(1) for _ in range(1000)}) == 1000
    assert new_decision_id(1_000_000) < new_decision_id(1_001_000)


def test_an_id_is_shown_as_a_uuid() -> None:
    decision_id = new_decision_id(5)
    assert uuid.UUID(id_text(decision_id)).bytes == decision_id


def test_a_ruling_has_all_that_makes_a_decision_checkable() -> None:
    decision = Decision(False, "publish", "orders", "billing", None, "no_rule")
    ruling = rule_on(decision, identity=WHO, policy_hash=b"\x02" * 32, now_us=77)
    record = record_of(ruling, "spiffe://example/gatekeeper")
    assert record == {
        "kind": "decision",
        "decision_id": ruling.id_text,
        "at_us": 77,
        "allowed": False,
        "action": "publish",
        "topic": "orders",
        "principal": "billing",
        "rule": NO_RULE,
        "reason": "no_rule",
        "spiffe_id": "spiffe://example/app",
        "thumbprint": "01" * 32,
        "issuer": "https://idp",
        "client_id": "billing",
        "token_id": "token-7",
        "policy_hash": "02" * 32,
        "gatekeeper": "spiffe://example/gatekeeper",
    }


def test_a_refusal_after_an_allowance_is_a_decision_of_its_own() -> None:
    decision = Decision(True, "replay", "orders", "billing", "r1", "allowed", "", 60.0)
    ruling = rule_on(decision, identity=WHO, policy_hash=bytes(32), now_us=1)
    refused = ruling.refused(9, "older_than_allowed", "too old")
    assert refused.decision_id != ruling.decision_id
    assert (refused.allowed, refused.at_us, refused.reason) == (False, 9, "older_than_allowed")
    assert refused.rule == "r1"
