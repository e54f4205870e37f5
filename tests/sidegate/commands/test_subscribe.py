import json
from typing import Any

from sidegate.commands.subscribe import readable

ENVELOPE = {
    "topic": "orders",
    "partition": 0,
    "offset": 7,
    "timestamp": "2026-01-01T00:00:00.000000Z",
    "id": "i",
    "key": None,
    "headers": {},
    "message": {"order_id": 101},
    "principal": "dev-app",
}
EVENT = f"id: 0:7\ndata: {json.dumps(ENVELOPE)}\n\n".encode()


def test_messages_are_printed_as_readable_lines_until_the_count(command: Any, peer: Any) -> None:
    peer.stream = EVENT * 5
    result = command("subscribe", "orders", "--from", "earliest", "--count", "2", "--url", peer.url)
    assert result.returncode == 0
    line = 'orders/0 7 2026-01-01T00:00:00.000000Z by dev-app {"order_id": 101}'
    assert result.stdout.splitlines() == [line, line]
    assert peer.asked[0].path == "/subscribe/orders?from=earliest"


def test_json_prints_the_envelopes_as_they_come(command: Any, peer: Any) -> None:
    peer.stream = EVENT
    result = command("subscribe", "orders", "--json", "--count", "1", "--url", peer.url)
    assert json.loads(result.stdout) == ENVELOPE
    assert peer.asked[0].path == "/subscribe/orders"


def test_signs_of_life_and_other_events_are_not_messages(command: Any, peer: Any) -> None:
    peer.stream = b": alive\n\nevent: heartbeat\ndata: {}\n\n" + EVENT
    result = command("subscribe", "orders", "--json", "--count", "1", "--url", peer.url)
    assert len(result.stdout.splitlines()) == 1


def test_a_stream_that_ends_is_a_failure(command: Any, peer: Any) -> None:
    peer.stream = EVENT
    result = command("subscribe", "orders", "--url", peer.url)
    assert result.returncode == 1
    assert "ended the stream" in result.stderr


def test_a_refused_subscription_says_why(command: Any, peer: Any) -> None:
    peer.answer("GET /subscribe/forbidden.x", 403, {"title": "Denied", "detail": "rule D1"})
    result = command("subscribe", "forbidden.x", "--url", peer.url)
    assert result.returncode == 1
    assert "Denied: rule D1" in result.stderr


def test_a_key_and_a_payload_that_is_no_json_are_shown() -> None:
    binary = {name: value for name, value in ENVELOPE.items() if name != "message"}
    text = readable({**binary, "key": "k", "content_type": "image/png", "data_base64": "AAAA"})
    assert text.endswith("key=k image/png (base64) AAAA")
