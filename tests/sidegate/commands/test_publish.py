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
        ("[info] started", "[info] started"),
    ],
)
def test_a_message_is_json_or_else_text(
    command: Any, sidecar: Any, argument: str, sent: object
) -> None:
    result = command("publish", "orders", argument, "--url", sidecar.url)
    assert result.returncode == 0, result.stderr
    assert result.stdout == "orders partition 0 offset 7 committed\n"
    assert sidecar.asked[0].document == {"topic": "orders", "message": sent}


@pytest.mark.parametrize("argument", ["{broken", "{'order_id': 101}", '["a",', "[{]"])
def test_json_with_a_mistake_is_not_published(command: Any, sidecar: Any, argument: str) -> None:
    result = command("publish", "orders", argument, "--url", sidecar.url)
    assert result.returncode == 2
    assert "begins like JSON and is none" in result.stderr
    assert "--text" in result.stderr
    lines = command("publish", "orders", "-", "--url", sidecar.url, stdin=f"1\n{argument}\n2\n")
    assert lines.returncode == 1
    assert "line 2 begins like JSON" in lines.stderr
    assert [asked.document["message"] for asked in sidecar.asked] == [1]
    command("publish", "orders", argument, "--text", "--url", sidecar.url)
    assert sidecar.asked[-1].document["message"] == argument


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


def test_a_receipt_is_printed_alone_so_that_it_can_go_into_a_file(
    command: Any, sidecar: Any
) -> None:
    receipt = {"format": "sidegate-proof/1", "offset": 7}
    sidecar.answer("POST /publish", 200, {**ANSWER, "receipt": receipt})
    result = command("publish", "orders", "1", "--receipt", "--ack", "core", "--url", sidecar.url)
    assert (result.returncode, json.loads(result.stdout)) == (0, receipt)
    assert sidecar.asked[0].path == "/publish?ack=core&receipt=1"


def test_a_receipt_that_does_not_come_is_a_failure_with_the_place_to_ask_again(
    command: Any, sidecar: Any
) -> None:
    missing = {"receipt": None, "reason": "no checkpoint yet", "receipt_url": "/receipt/orders/0/7"}
    sidecar.answer("POST /publish", 200, {**ANSWER, **missing})
    result = command("publish", "orders", "1", "--receipt", "--url", sidecar.url)
    assert (result.returncode, result.stdout) == (1, "")
    assert "no checkpoint yet" in result.stderr
    assert "/receipt/orders/0/7" in result.stderr
