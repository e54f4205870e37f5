import datetime as dt
import json
from typing import Any

from sidegate.commands.whoami import render

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
TOLD: dict[str, Any] = {
    "principal": "payments",
    "spiffe_id": "spiffe://sidegate-dev/app/payments",
    "thumbprint": "00",
    "issuer": "https://127.0.0.1:8446",
    "client_id": "payments",
    "subject": "payments",
    "token_id": "t-17",
    "scopes": ["log.publish"],
    "expires_at": NOW.timestamp() + 90,
    "gatekeeper": "spiffe://sidegate-dev/gatekeeper",
    "policy_hash": "abcd",
    "allowed": [
        {"action": "publish", "on": "payments.>", "rule": "r", "max_age_s": None},
        {"action": "replay", "on": "payments.>", "rule": "r", "max_age_s": 60.0},
        {"action": "subscribe", "on": "orders", "rule": "r", "max_age_s": 600.0},
    ],
    "denied": [{"actions": ["publish"], "on": "x.>", "rule": "D1", "reason": "closed"}],
    "complete": True,
}


def test_everything_about_the_caller_is_shown() -> None:
    lines = [" ".join(line.split()) for line in render(TOLD, NOW).splitlines()]
    assert lines[1:] == [
        "SPIFFE id spiffe://sidegate-dev/app/payments",
        "issuer https://127.0.0.1:8446",
        "client payments",
        "scopes log.publish",
        "token t-17, for another 1 min 30 s, until 2026-01-01T00:01:30Z",
        "gatekeeper spiffe://sidegate-dev/gatekeeper",
        "policy abcd",
        "may publish, replay (60 s back) on payments.>",
        "subscribe on orders",
        "never publish on x.> (D1: closed)",
    ]
    assert "payments" in lines[0]


def test_a_caller_without_rules_may_nothing_and_a_cut_list_says_so() -> None:
    shown = render({**TOLD, "allowed": [], "denied": [], "complete": False}, NOW)
    assert "nothing: no rule names it" in shown
    assert shown.endswith("too many rules to list")


def test_a_token_that_has_ended_says_when() -> None:
    after = NOW + dt.timedelta(minutes=5)
    assert "expired at 2026-01-01T00:01:30Z" in render(TOLD, after)


def test_the_sidecar_of_the_mesh_is_asked_by_default(mesh: Any, in_mesh: Any) -> None:
    done = in_mesh("whoami")
    assert done.returncode == 0, done.stderr
    assert "spiffe://sidegate-dev/app/dev" in done.stdout
    assert "publish, subscribe, replay, share, admin on >" in done.stdout
    assert "D1" in done.stdout
    told = json.loads(in_mesh("whoami", "--json", "--url", mesh.url).stdout)
    assert told["principal"] == told["client_id"] == "dev-app"
    assert told["expires_at"] > dt.datetime.now(dt.UTC).timestamp()


def test_the_answer_has_the_members_that_the_api_describes(mesh: Any) -> None:
    from sidecar.api.api_types import WhoAmI

    _, told, _ = mesh.request("GET", "/whoami")
    assert set(told) == set(WhoAmI.__struct_fields__)


def test_without_a_sidecar_it_could_not_run(command: Any) -> None:
    done = command("whoami", "--url", "http://127.0.0.1:1")
    assert done.returncode == 2
    assert "make up" in done.stderr
