import json
from typing import Any

import pytest


@pytest.fixture
def denied(mesh: Any, topic: str) -> str:
    """The id of a denial, as the caller was told it."""
    status, problem = mesh.publish(f"forbidden.{topic}", 1)
    assert status == 403
    return str(problem["decision_id"])


def test_a_denial_is_listed_with_its_rule_and_found_by_its_id(
    mesh: Any, in_mesh: Any, denied: str, topic: str
) -> None:
    shown = in_mesh("decisions", "--denied", "--topic", f"forbidden.{topic}", "--action", "publish")
    (line,) = (line for line in shown.stdout.splitlines() if denied in line)
    assert line.split()[1:] == ["denied", "dev-app", "publish", f"forbidden.{topic}", "D1", denied]
    whole = in_mesh("decisions", denied)
    assert whole.returncode == 0
    assert "spiffe://sidegate-dev/app/dev" in whole.stdout
    record = json.loads(in_mesh("decisions", denied, "--json").stdout)
    assert (record["decision_id"], record["rule"]) == (denied, "D1")


def test_one_refused_publish_is_one_denial_however_it_was_sent(
    mesh: Any, in_mesh: Any, topic: str
) -> None:
    told = []
    for place in ("", "/batch", "/lines"):
        name = f"forbidden.{topic}{len(told)}"
        status, problem, _ = mesh.request("POST", f"/publish/{name}{place}", [{"message": 1}])
        assert status == 403, problem
        told.append((name, problem["decision_id"]))
    for name, decision_id in told:
        shown = in_mesh("decisions", "--topic", name, "--json")
        (record,) = json.loads(shown.stdout)["decisions"]
        assert (record["decision_id"], record["action"]) == (decision_id, "publish")


def test_allowed_ones_are_among_all_and_not_among_the_denied(
    mesh: Any, in_mesh: Any, topic: str
) -> None:
    mesh.publish(topic, 1)
    mesh.messages(topic)
    listed = json.loads(in_mesh("decisions", "--topic", topic, "--json").stdout)["decisions"]
    assert {record["action"] for record in listed if record["allowed"]} == {"replay"}
    listed = json.loads(in_mesh("decisions", "--topic", topic, "--denied", "--json").stdout)
    assert listed["decisions"] == []
    shown = in_mesh("decisions", "--topic", topic, "--denied").stdout
    assert shown == "There are none that this gatekeeper remembers.\n"


def test_the_number_is_limited(mesh: Any, in_mesh: Any, denied: str) -> None:
    listed = json.loads(in_mesh("decisions", "--limit", "1", "--json").stdout)["decisions"]
    assert len(listed) == 1
    assert in_mesh("decisions", "--limit", "0").returncode == 2


def test_an_unknown_id_is_a_failure(mesh: Any, in_mesh: Any) -> None:
    done = in_mesh("decisions", "nothing")
    assert done.returncode == 1
    assert "_audit" in done.stderr


def test_operators_and_callers_that_are_not_proven_are_shown_too(command: Any, peer: Any) -> None:
    (command.folder / "secret").write_text("s" * 32)
    base = {"at_us": 0, "decision_id": "d"}
    records = [
        {
            **base,
            "allowed": True,
            "action": "revoke",
            "principal": "operator:local",
            "revocation": {"kind": "client", "value": "x"},
        },
        {
            **base,
            "allowed": False,
            "action": "authenticate",
            "principal": "",
            "reason": "token_expired",
            "claimed_spiffe_id": "spiffe://x/y",
        },
    ]
    peer.answer("GET /decisions", 200, {"decisions": records})
    shown = command("decisions", "--admin", peer.url, "--secret", "secret").stdout.splitlines()
    assert shown[1].split()[1:] == ["allowed", "operator:local", "revoke", "client", "x", "d"]
    assert shown[2].split()[1:] == [
        *["denied", "(not", "proven)", "authenticate", "spiffe://x/y", "token_expired", "d"]
    ]
