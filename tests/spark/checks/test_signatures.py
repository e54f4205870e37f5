"""Provenance signatures: good, bad, absent, and those nobody can judge."""

from typing import Any

from log_format.note import parse_vkey
from spark.checks.signatures import signature_findings, signatures


def judged(log: Any, batches: Any) -> Any:
    return signatures(batches(), {"gk-1": parse_vkey(log.gatekeeper_vkey).public})


def test_honest_signatures_are_good(log: Any, batches: Any) -> None:
    log.add("a")
    log.add("b", removed=True)
    rows = judged(log, batches)
    assert [row.signature for row in rows.collect()] == ["good", "good"]
    assert signature_findings(rows).collect() == []


def test_a_sender_that_was_changed_or_is_unsigned_is_a_finding(log: Any, batches: Any) -> None:
    log.add("a")
    log.add("a", signed=False, provenance={"principal": "mallory"})
    log.add("a", principal=None)
    log.add("a", provenance={"gatekeeper_id": "gk-9"})
    rows = judged(log, batches)
    assert [row.signature for row in rows.orderBy("leaf").collect()] == [
        "good", "bad", "absent", "no_key",
    ]  # fmt: skip
    found = {(row.kind, row.first_offset) for row in signature_findings(rows).collect()}
    assert found == {("signature_bad", 1), ("signature_absent", 2)}
