import json
from typing import Any

import pytest

from sidegate.commands.subscriptions import destination, facts, path_of

DEFINITION = {
    "name": "mailer",
    "owner": "shop",
    "topic": "orders",
    "mode": "ordered",
    "from": "latest",
    "lease_ms": 30000,
    "paused": False,
    "filter": None,
    "push": {"url": "http://127.0.0.1:8025/in"},
    "retry": {},
    "dead_letter": {"topic": "orders.dead"},
    "created_us": 1,
    "version": 2,
}
STATE = {
    **DEFINITION,
    "state": "active",
    "members": [{"member": "sidecar-1", "since_us": 1, "partitions": [0], "in_flight": 1}],
    "cursors": [
        {"partition": 0, "low": 3, "acked": [], "end_offset": 10, "lag": 7, "in_flight": 1}
    ],
    "lag": 7,
    "in_flight": 1,
    "redelivered": 2,
    "expired": 0,
    "delivery": {
        "state": "unreachable",
        "in_flight": 0,
        "held": 7,
        "delivered": 3,
        "failed": 4,
        "dead_lettered": 1,
        "dropped": 0,
        "filtered": 0,
        "last_error": "connection refused",
        "last_error_at": "2026-01-01T00:00:00.000000Z",
        "last_status": None,
        "next_try": "2026-01-01T00:00:05.000000Z",
        "unreachable_since": "2026-01-01T00:00:00.000000Z",
    },
}


@pytest.fixture
def sidecar(peer: Any) -> Any:
    peer.answer("GET /subscriptions", 200, {"version": 1, "subscriptions": [DEFINITION]})
    peer.answer("POST /subscriptions", 201, DEFINITION)
    peer.answer("GET /subscriptions/mailer", 200, STATE)
    for verb in ("pause", "resume", "seek"):
        peer.answer(f"POST /subscriptions/mailer/{verb}", 200, DEFINITION)
    peer.answers["DELETE /subscriptions/mailer"] = (204, b"")
    started = {"subscription": "mailer.redrive", "topic": "orders.dead", "messages_max": 3}
    peer.answer("POST /subscriptions/mailer/redrive", 201, started)
    return peer


def test_they_are_listed_with_where_they_go(command: Any, sidecar: Any) -> None:
    result = command("subscriptions", "list", "--url", sidecar.url)
    assert result.returncode == 0
    row = result.stdout.splitlines()[1]
    assert row.split() == ["mailer", "orders", "ordered", "no", "POST", "http://127.0.0.1:8025/in"]


def test_one_is_created_with_what_was_given_and_nothing_else(command: Any, sidecar: Any) -> None:
    result = command(
        "subscriptions", "create", "mailer", "orders", "--push", "http://127.0.0.1:8025/in",
        "--method", "PUT", "--secret-file", "a", "--secret-file", "b", "--max-attempts", "3",
        "--url", sidecar.url,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert sidecar.asked[0].document == {
        "name": "mailer",
        "topic": "orders",
        "push": {"url": "http://127.0.0.1:8025/in", "method": "PUT", "secret_file": ["a", "b"]},
        "retry": {"max_attempts": 3},
    }
    assert result.stdout == "Created mailer on orders, pushed to POST http://127.0.0.1:8025/in.\n"


def test_a_push_must_go_somewhere(command: Any, sidecar: Any) -> None:
    result = command("subscriptions", "create", "m", "t", "--method", "PUT", "--url", sidecar.url)
    assert result.returncode == 2
    assert "--push URL or --channel ID" in result.stderr


def test_the_state_says_why_it_is_stuck() -> None:
    shown = dict(facts(STATE))
    assert shown["lag"] == "7 messages, 1 in flight"
    assert shown["delivery"] == "unreachable since 2026-01-01T00:00:00.000000Z"
    assert shown["last error"].startswith("connection refused at ")
    assert shown["next try"] == "2026-01-01T00:00:05.000000Z"
    assert shown["partition 0"] == "at 3 of 10, lag 7"
    assert shown["member"] == "sidecar-1, partitions 0"


def test_it_is_shown_paused_sought_and_deleted(command: Any, sidecar: Any) -> None:
    shown = command("subscriptions", "show", "mailer", "--owner", "shop", "--url", sidecar.url)
    assert "next try" in shown.stdout
    assert sidecar.asked[-1].path == "/subscriptions/mailer?owner=shop"
    assert command("subscriptions", "pause", "mailer", "--url", sidecar.url).returncode == 0
    sought = command(
        "subscriptions", "seek", "mailer", "offset:3", "--partition", "1", "--url", sidecar.url
    )
    assert sought.stdout == "mailer goes on at offset:3.\n"
    assert sidecar.asked[-1].document == {"to": "offset:3", "partition": 1}
    gone = command("subscriptions", "delete", "mailer", "--yes", "--json", "--url", sidecar.url)
    assert json.loads(gone.stdout) == {"deleted": "mailer"}


def test_redrive_says_what_it_does(command: Any, sidecar: Any) -> None:
    result = command("subscriptions", "redrive", "mailer", "--all", "--url", sidecar.url)
    assert "Up to 3 letters of orders.dead go out again" in result.stdout
    assert sidecar.asked[-1].document == {"from": "earliest"}


def test_a_refusal_says_why(command: Any, peer: Any) -> None:
    problem = {"title": "No such subscription", "detail": "shop has no other", "status": 404}
    peer.answer("POST /subscriptions/other/resume", 404, problem)
    result = command("subscriptions", "resume", "other", "--url", peer.url)
    assert result.returncode == 1
    assert "shop has no other" in result.stderr


def test_names_travel_safely_in_a_path() -> None:
    assert path_of("a/b", "seek", owner="x y") == "/subscriptions/a%2Fb/seek?owner=x+y"
    assert destination({"channel": "mail", "method": "PUT"}) == "PUT channel mail"
    assert destination(None) == ""
