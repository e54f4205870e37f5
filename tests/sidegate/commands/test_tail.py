import json
from typing import Any

import click

from sidegate.commands.tail import coloured, line

ENVELOPE = {
    "topic": "orders",
    "partition": 0,
    "offset": 7,
    "timestamp": "2026-01-01T12:34:56.789000Z",
    "id": "i",
    "key": "eu",
    "headers": {"h": "v"},
    "message": {"order_id": 101},
    "principal": "shop",
}
EVENT = f"id: 0-8\ndata: {json.dumps(ENVELOPE)}\n\n".encode()


def test_it_follows_with_its_filter_until_the_count(command: Any, peer: Any) -> None:
    peer.stream = EVENT * 3
    result = command(
        "tail", "orders", "--filter", "message.n > 1", "--from", "earliest", "--count", "2",
        "--url", peer.url,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    row = '12:34:56.789 orders/0 7 eu shop {"order_id": 101}'
    assert result.stdout.splitlines() == [row, row]
    assert peer.asked[0].path == "/subscribe/orders?from=earliest&filter=message.n+%3E+1"


def test_a_lost_stream_is_opened_again_behind_the_last_message(command: Any, peer: Any) -> None:
    peer.stream = EVENT
    result = command("tail", "orders", "--json", "--count", "2", "--url", peer.url)
    assert [json.loads(each) for each in result.stdout.splitlines()] == [ENVELOPE, ENVELOPE]
    assert peer.asked[1].headers["Last-Event-ID"] == "0-8"
    assert "opening it again" in result.stderr


def test_a_refusal_says_why_and_nothing_there_is_2(command: Any, peer: Any) -> None:
    peer.answer("GET /subscribe/orders", 400, {"title": "Bad", "detail": "filter: at line 1"})
    result = command("tail", "orders", "--filter", "1 +", "--url", peer.url)
    assert (result.returncode, "at line 1" in result.stderr) == (1, True)
    assert command("tail", "orders", "--url", "http://127.0.0.1:1").returncode == 2


def test_names_and_values_have_colours_of_their_own() -> None:
    text = coloured({"a": ["b", 1.5, True, None]})
    assert click.unstyle(text) == '{"a": ["b", 1.5, true, null]}'
    assert click.style('"a"', fg="blue") in text
    assert click.style('"b"', fg="green") in text
    assert click.style("1.5", fg="yellow") in text


def test_headers_are_shown_when_asked_for() -> None:
    assert '{"h": "v"}' in click.unstyle(line(json.dumps(ENVELOPE), headers=True))
    assert '{"h": "v"}' not in click.unstyle(line(json.dumps(ENVELOPE)))


def test_a_message_cannot_command_the_terminal() -> None:
    evil = {**ENVELOPE, "key": "\x1b[2J", "message": "\x1b]0;x\x07\x9b2J", "principal": "\x1bc"}
    shown = click.unstyle(line(json.dumps(evil)))
    assert not any(each in shown for each in "\x1b\x07\x9b")


def test_bytes_are_shown_as_base64() -> None:
    binary = {name: value for name, value in ENVELOPE.items() if name != "message"}
    text = line(json.dumps({**binary, "content_type": "image/png", "data_base64": "AAAA"}))
    assert text.endswith("image/png (base64) AAAA")
