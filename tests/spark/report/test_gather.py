"""The whole audit over a log: an honest one is sound, a changed one is not."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from spark.report.gather import gather
from spark.report.inputs import find_inputs
from spark.report.result import Result
from spark.report.writing import write_report

POLICY = 'topics:\n  orders:\n    publish: [billing, legacy]\n    subscribe: ["scope:corp:x"]\n'
DENIED = {
    "kind": "decision", "decision_id": "d-1", "at_us": 1_767_225_600_000_000, "allowed": False,
    "action": "publish", "topic": "payroll", "principal": "mallory", "rule": "default",
    "reason": "no_rule", "gatekeeper": "gk-1",
}  # fmt: skip


@pytest.fixture
def state(tmp_path: Path, log: Any) -> Path:
    """A state folder with an honest log, all keys, and the gatekeeper's checkpoint."""
    root = tmp_path / "state"
    log.folder = root / "data" / "core"
    log.folder.mkdir(parents=True)
    for number in range(4):
        log.add("orders", [b'{"needle":%d}' % number] * 10)
    log.roll()
    log.add("_audit", [json.dumps(DENIED).encode()], principal="gk-1", producer_id=9)
    log.add("orders", removed=True)
    log.save_tree()
    witness = root / "data" / "gatekeeper" / "witness"
    witness.mkdir(parents=True)
    (witness / "checkpoint").write_text(str(log.checkpoint(4)))
    (root / "core.pub").write_text(f"{log.core_vkey}\n")
    (root / "gatekeeper.pub").write_text(f"{log.gatekeeper_vkey}\n")
    (root / "policy.yaml").write_text(POLICY)
    return root


@pytest.fixture
def audit(spark: Any, state: Path, tmp_path: Path) -> Callable[..., Result]:
    def run(**options: Any) -> Result:
        steps: list[str] = []
        scratch = tmp_path / "scratch"
        out = tmp_path / "out"
        inputs = find_inputs(state, previous=out / "report.json", **options)
        result, _ = gather(spark, inputs, scratch, steps.append)
        write_report(result, out)
        assert steps[0] == "Reading and verifying the log"
        return result

    return run


def kinds(result: Result) -> list[str]:
    return sorted({row["kind"] for row in result.tables["findings"].rows})


def test_an_honest_log_is_sound_then_a_changed_byte_is_found(
    audit: Callable[..., Result], log: Any, tmp_path: Path
) -> None:
    honest = audit()
    assert kinds(honest) == []
    assert honest.exit_code == 0
    assert honest.numbers["messages"] == 42
    assert [each["agrees"] for each in honest.tree["compared"]] == [True, True]
    assert honest.tables["denials"].rows[0]["principal"] == "mallory"
    assert honest.tables["retention"].rows[0]["messages"] == 1
    unjudged = {row["verdict"] for row in honest.tables["least_privilege"].rows}
    assert unjudged == {"used", "too young to judge"}
    document = json.loads((tmp_path / "out" / "report.json").read_bytes())
    assert document["verdict"] == "sound"
    log.damage(2)
    changed = audit()
    assert (changed.exit_code, kinds(changed)) == (1, ["body_hash"])
    (row,) = changed.tables["findings"].rows
    assert (row["topic"], row["first_offset"], row["last_offset"]) == ("orders", 20, 29)
    assert "the last report" in {each["source"] for each in changed.tree["compared"]}


@pytest.mark.long
def test_a_window_is_checked_by_itself_and_the_tree_as_a_whole(
    audit: Callable[..., Result], log: Any
) -> None:
    log.damage(0)
    result = audit(since="2026-01-01T00:00:02Z")
    assert kinds(result) == []
    assert result.numbers["messages"] == 22
    assert all(each["agrees"] for each in result.tree["compared"])
    assert "--since" in result.tables["unchecked"].rows[0]["why"]


def test_a_window_in_which_nothing_was_appended_is_sound(audit: Callable[..., Result]) -> None:
    result = audit(since="2027-01-01T00:00:00Z")
    assert (result.exit_code, kinds(result)) == (0, [])
    assert result.numbers["messages"] == 0


@pytest.mark.long
def test_a_window_is_held_against_what_was_before_it(
    audit: Callable[..., Result], state: Path, log: Any
) -> None:
    known = {"policy_hash": sha256((state / "policy.yaml").read_bytes()).digest()}
    log.add("orders", principal="legacy", producer_id=3, provenance=known)
    since = datetime.fromtimestamp(log.now_us / 1_000_000 + 60, UTC)
    log.now_us += 3_600_000_000
    log.add("orders", provenance=known)
    log.add("letters", provenance=known)
    log.save_tree()
    result = audit(since=since.isoformat())
    assert [(row["kind"], row["topic"]) for row in result.tables["anomalies"].rows] == [
        ("first_seen", "letters")
    ]
    verdicts = {row["subject"]: row["verdict"] for row in result.tables["least_privilege"].rows}
    assert verdicts == {"billing": "used", "legacy": "unused", "scope:corp:x": "unused"}
    assert "-    publish: [billing, legacy]" in result.policy_diff


@pytest.mark.long
def test_an_end_that_is_not_synced_is_left_for_the_next_report(
    audit: Callable[..., Result], log: Any
) -> None:
    log.add("orders")
    path, *_ = log.positions[-1]
    with path.open("ab") as file:
        file.write(bytes(512))
    result = audit()
    assert kinds(result) == []
    assert result.numbers["batches"] == 6
    assert any("the last 1 batches" in row["what"] for row in result.tables["unchecked"].rows)
