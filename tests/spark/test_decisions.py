"""Records of `_audit` as columns, in the forms that gatekeepers write them."""

import json
from typing import Any

from gatekeeper.audit.denial_limit import Suppressed
from spark.decisions import decisions

DECISION = {
    "kind": "decision", "decision_id": "d-1", "at_us": 1_767_225_600_000_000, "allowed": False,
    "action": "publish", "topic": "orders", "principal": "billing", "rule": "default",
    "reason": "no_rule", "gatekeeper": "gk-1",
}  # fmt: skip
REFUSAL = {
    "kind": "authentication", "allowed": False, "action": "authenticate", "principal": "",
    "reason": "expired", "claimed_spiffe_id": "spiffe://x/y", "at_us": 1,
}  # fmt: skip


def test_every_kind_of_record_is_one_row(spark: Any) -> None:
    summary = Suppressed("billing", "publish", "no_rule", 41, 1, 2, ["a", "b"]).record("gk-1")
    values = [json.dumps(each).encode() for each in (DECISION, REFUSAL, summary)]
    values += [b"not json", b"[1]", b"{}", b'{"kind": 7, "count": "x"}']
    messages = spark.createDataFrame(
        [(n, None, value) for n, value in enumerate(values)],
        "offset bigint, append_time timestamp, value binary",
    )
    first, second, third, *odd = decisions(messages).orderBy("offset").collect()
    assert (first.principal, first.allowed, first.rule, first["count"]) == (
        "billing", False, "default", 1,
    )  # fmt: skip
    assert first.at.isoformat().startswith("2026-01-01T00:00:00")
    assert second.principal == "spiffe://x/y"
    assert (third["count"], third.topic, third.allowed) == (41, "a", False)
    assert len(odd) <= 1
