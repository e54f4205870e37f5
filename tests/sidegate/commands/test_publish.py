import json
from typing import Any

import pytest

ANSWER = {
    "topic": "orders",
    "partition": 0,
    "offset": 7,
    "id": "i",
    "durability": "committed",
}


@pytest.fixture
def sidecar(peer: Any) -> Any:
    peer.answer("POST /publish", 200, ANSWER)
    return peer


@pytest.mark.parametrize(
    ("argument", "sent"),
    [
        ('{"order_id": 101}', {"order_id": 101}),
        ("101", 101),
        ("hello", "hello"),
        ("null", None),
        ("{broken", "{broken"),
    ],
)
def test_a_message_is_json_or_else_text(
    command: Any, sidecar: Any, argument: str, sent: object
) -> None:
    result = command("publish", "orders", argument, "--url", sidecar.url)
    assert result.returncode == 0, result.stderr
    assert result.stdout == "orders partition 0 offset 7 committed\n"
    assert sidecar.asked[0].document == {"topic": "orders", "message": sent}


def test_text_stays_text_when_asked_for(command: Any, sidecar: Any) -> None:
    command("publish", "orders", "101", "--text", "--url", sidecar.url)
    assert sidecar.asked[0].document["message"] == "101"


def test_key_headers_id_and_ack_are_sent_along(command: Any, sidecar: Any) -> None:
    options = ["--key", "k", "--header", "a=1", "--header", "b=x=y", "--id", "i", "--ack", "core"]
    command("publish", "orders", "1", *options, "--url", sidecar.url)
    (asked,) = sidecar.asked
    assert asked.path == "/publish?ack=core"
    assert asked.document == {
        "topic": "orders",
        "message": 1,
        "key": "k",
        "id": "i",
        "headers": {"a": "1", "b": "x=y"},
    }


def test_each_line_of_standard_input_is_a_message(command: Any, sidecar: Any) -> None:
    result = command("publish", "orders", "-", "--url", sidecar.url, stdin='{"n":1}\n\r\ntwo\n3')
    assert result.returncode == 0
    assert [asked.document["message"] for asked in sidecar.asked] == [{"n": 1}, "two", 3]
    assert len(result.stdout.splitlines()) == 3


def test_json_prints_the_sidecars_answer(command: Any, sidecar: Any) -> None:
    result = command("publish", "orders", "1", "--json", "--url", sidecar.url)
    assert json.loads(result.stdout) == ANSWER


def test_a_spooled_message_has_no_offset_to_show(command: Any, peer: Any) -> None:
    peer.answer("POST /publish", 202, {"topic": "orders", "id": "i", "durability": "spooled"})
    result = command("publish", "orders", "1", "--url", peer.url)
    assert result.stdout == "orders spooled\n"


@pytest.mark.parametrize("options", [["--header", "novalue"], ["--header", "=x"]])
def test_a_header_without_name_or_value_is_a_usage_error(
    command: Any, sidecar: Any, options: list[str]
) -> None:
    assert command("publish", "orders", "1", *options, "--url", sidecar.url).returncode == 2
    assert sidecar.asked == []


def test_one_id_for_many_messages_is_a_usage_error(command: Any, sidecar: Any) -> None:
    assert command("publish", "orders", "-", "--id", "i", "--url", sidecar.url).returncode == 2
