"""A stream's text messages: read strictly, written anew, tokens kept back."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatekeeper.api.stream_messages import (
    CREDIT_BYTES_MAX,
    Credit,
    Open,
    Token,
    end_message,
    parse_next,
    parse_open,
)
from gatekeeper.errors import BadRequest

SOUND = {"type": "open", "topic": "orders", "partitions": None, "from": "latest"}


def open_with(**changed: Any) -> str:
    return json.dumps({**SOUND, **changed})


def test_an_open_message_becomes_the_same_message_for_the_core() -> None:
    text = open_with(partitions=[0, 2], **{"from": {"offsets": {"0": 17}}}, credit_bytes=5)
    parsed = parse_open(text)
    assert parsed == Open("orders", (0, 2), {"offsets": {"0": 17}}, 5)
    assert json.loads(parsed.to_core()) == json.loads(text)


@pytest.mark.parametrize(
    "start", ["earliest", "latest", {"offsets": {"0": 0, "12": 5}}, {"time_us": 7}]
)
def test_every_start_of_the_wire_passes(start: Any) -> None:
    parsed = parse_open(open_with(**{"from": start}))
    assert json.loads(parsed.to_core())["from"] == start
    assert parsed.from_latest == (start == "latest")


def test_a_stream_begins_at_the_end_unless_told_otherwise() -> None:
    assert parse_open('{"type":"open","topic":"orders"}').from_latest


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"type":"credit","bytes":1}',
        '{"type":"open"}',
        open_with(topic="../x"),
        open_with(topic=7),
        open_with(partitions=[]),
        open_with(partitions=[0, 0]),
        open_with(partitions=[-1]),
        open_with(partitions=[True]),
        open_with(partitions="0"),
        open_with(**{"from": "now"}),
        open_with(**{"from": {}}),
        open_with(**{"from": {"offsets": {}}}),
        open_with(**{"from": {"offsets": {"x": 1}}}),
        open_with(**{"from": {"offsets": {"01": 1}}}),
        open_with(**{"from": {"offsets": {"0": -1}}}),
        open_with(**{"from": {"offsets": {"0": 1}, "time_us": 1}}),
        open_with(**{"from": {"time_us": 1.5}}),
        open_with(credit_bytes=-1),
        open_with(credit_bytes=CREDIT_BYTES_MAX + 1),
        open_with(principal="root"),
        '{"type":"open","topic":"a","topic":"b"}',
    ],
)
def test_an_open_message_that_is_not_of_the_wire_is_refused(text: str) -> None:
    with pytest.raises(BadRequest):
        parse_open(text)


def test_credit_passes_and_a_token_does_not_reach_anybody() -> None:
    credit = parse_next('{"type":"credit","bytes":10}')
    assert isinstance(credit, Credit)
    assert json.loads(credit.to_core()) == {"type": "credit", "bytes": 10}
    token = parse_next('{"type":"token","token":"secret"}')
    assert isinstance(token, Token)
    assert token.token == "secret"
    assert "secret" not in repr(token)
    assert not hasattr(token, "to_core")


@pytest.mark.parametrize(
    "text",
    [
        '{"type":"open","topic":"orders"}',
        '{"type":"ack"}',
        '{"type":"credit"}',
        '{"type":"credit","bytes":0}',
        '{"type":"credit","bytes":1,"more":1}',
        '{"type":"token"}',
        '{"type":"token","token":""}',
        '{"type":"token","token":"' + "x" * 20_000 + '"}',
    ],
)
def test_a_later_message_that_is_not_of_the_wire_is_refused(text: str) -> None:
    with pytest.raises(BadRequest):
        parse_next(text)


@given(st.text(max_size=60))
def test_no_text_crashes_the_parsers(text: str) -> None:
    for parse in (parse_open, parse_next):
        with pytest.raises(BadRequest):
            parse(text)


def test_the_last_message_says_why() -> None:
    said = json.loads(end_message("denied", "no", {"decision_id": "x"}))
    assert said == {"type": "end", "code": "denied", "detail": "no", "decision_id": "x"}
