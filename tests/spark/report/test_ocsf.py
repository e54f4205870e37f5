"""OCSF events have what class 6003 requires."""

import json
from typing import Any

from spark.decisions import decisions
from spark.report.ocsf import ocsf_events

REQUIRED = {
    "activity_id", "category_uid", "class_uid", "type_uid", "time", "severity_id", "metadata",
    "actor", "api", "src_endpoint",
}  # fmt: skip


def test_batches_and_decisions_become_api_activity(spark: Any, log: Any, batches: Any) -> None:
    log.add("orders", [b"x"] * 3)
    denied = {
        "kind": "decision", "decision_id": "d-1", "at_us": 1_767_225_600_000_000, "allowed": False,
        "action": "subscribe", "topic": "payroll", "principal": "mallory", "rule": "default",
        "reason": "no_rule", "policy_hash": "ab", "gatekeeper": "gk-1",
    }  # fmt: skip
    audit = spark.createDataFrame(
        [(0, None, json.dumps(denied).encode())],
        "offset bigint, append_time timestamp, value binary",
    )
    out = log.folder.parent / "ocsf"
    ocsf_events(batches(), decisions(audit), "0.1.0").write.json(str(out))
    rows = [line for path in out.glob("*.json") for line in path.read_text().splitlines()]
    published, refused = sorted((json.loads(row) for row in rows), key=lambda e: e["status_id"])
    for event in (published, refused):
        assert event.keys() >= REQUIRED
        assert (event["class_uid"], event["category_uid"]) == (6003, 6)
        assert event["type_uid"] == 600300 + event["activity_id"]
        assert event["metadata"]["product"]["name"] == "Sidegate"
    assert (published["activity_name"], published["count"]) == ("Create", 3)
    assert published["actor"]["user"]["name"] == "billing"
    assert published["resources"] == [{"name": "orders", "type": "topic"}]
    assert (refused["status"], refused["status_detail"]) == ("Failure", "no_rule")
    assert refused["time"] == 1_767_225_600_000
    assert refused["authorizations"][0]["decision"] == "Denied"
