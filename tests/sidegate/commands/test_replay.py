import json
from typing import Any

import pytest


@pytest.fixture
def sidecar(peer: Any) -> Any:
    peer.answer("GET /subscriptions/mailer", 200, {"name": "mailer", "topic": "orders"})
    started = {"subscription": "mailer.replay-1", "topic": "orders", "messages_max": 5}
    peer.answer("POST /subscriptions/mailer/replay", 201, started)
    return peer


def replay(command: Any, url: str, *more: str, topic: str = "orders") -> Any:
    return command("replay", topic, "--from", "offset:2", "--to-subscription", "mailer", *more,
                   "--url", url)  # fmt: skip


def test_a_range_goes_to_one_subscription(command: Any, sidecar: Any) -> None:
    result = replay(command, sidecar.url, "--to", "offset:7", "--wait")
    assert result.returncode == 0, result.stderr
    assert "Up to 5 messages of orders go to mailer again" in result.stdout
    assert sidecar.asked[1].document == {"from": "offset:2", "to": "offset:7"}
    assert sidecar.asked[2].path == "/subscriptions/mailer.replay-1"


def test_json_is_for_programs(command: Any, sidecar: Any) -> None:
    result = replay(command, sidecar.url, "--json", "--partition", "1")
    assert json.loads(result.stdout)["messages_max"] == 5
    assert sidecar.asked[1].document == {"from": "offset:2", "partition": 1}


def test_the_topic_must_be_the_subscriptions(command: Any, sidecar: Any) -> None:
    result = replay(command, sidecar.url, topic="others")
    assert result.returncode == 1
    assert "mailer is a subscription on orders, not others" in result.stderr
    assert len(sidecar.asked) == 1


def test_an_empty_range_says_so(command: Any, sidecar: Any) -> None:
    nothing = {"subscription": None, "topic": "orders", "messages_max": 0}
    sidecar.answer("POST /subscriptions/mailer/replay", 200, nothing)
    assert "nothing of orders" in replay(command, sidecar.url).stdout
