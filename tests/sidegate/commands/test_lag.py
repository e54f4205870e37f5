import json
from typing import Any

import pytest

BEHIND = {
    "name": "mailer", "owner": "shop", "topic": "orders", "state": "active", "lag": 7,
    "in_flight": 1, "members": [{}], "cursors": [],
    "delivery": {"state": "retrying", "last_error": "the app answered 500"},
}  # fmt: skip
IDLE = {**BEHIND, "name": "reader", "state": "idle", "lag": 0, "members": [], "delivery": None}


@pytest.fixture
def sidecar(peer: Any) -> Any:
    peer.answer("GET /subscriptions", 200, {"version": 1, "subscriptions": [IDLE, BEHIND]})
    peer.answer("GET /subscriptions/mailer", 200, BEHIND)
    peer.answer("GET /subscriptions/reader", 200, IDLE)
    return peer


def test_the_furthest_behind_comes_first_with_its_reason(command: Any, sidecar: Any) -> None:
    lines = command("lag", "--url", sidecar.url).stdout.splitlines()
    assert lines[1].split()[:6] == ["mailer", "orders", "7", "1", "1", "retrying"]
    assert lines[1].endswith("the app answered 500")
    assert lines[2].split() == ["reader", "orders", "0", "1", "0", "idle"]


def test_some_can_be_named_and_json_is_for_programs(command: Any, sidecar: Any) -> None:
    result = command("lag", "reader", "--json", "--url", sidecar.url)
    (row,) = json.loads(result.stdout)["subscriptions"]
    assert (row["name"], row["lag"]) == ("reader", 0)


def test_none_says_so(command: Any, peer: Any) -> None:
    peer.answer("GET /subscriptions", 200, {"version": 1, "subscriptions": []})
    assert command("lag", "--url", peer.url).stdout == "There are no subscriptions.\n"
