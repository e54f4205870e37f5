"""What members may say: read strictly, written anew."""

import json
from typing import Any

import pytest

from gatekeeper.api.member_messages import (
    ITEMS_MAX,
    TRIES_MAX,
    MemberOpen,
    Said,
    parse_first,
    parse_said,
)
from gatekeeper.api.stream_messages import Credit, Open, Token
from gatekeeper.errors import BadRequest

OPEN = {"type": "open", "subscription": "mailer", "member": "m-1"}
FAILED = {"type": "attempts", "partition": 0, "lease": 7, "attempts": {"17": 3}}
TRY = {"number": 3, "at_us": 7, "status": 500, "error": "the app answered 500"}


def test_an_open_is_of_a_topic_or_of_a_subscription() -> None:
    assert isinstance(parse_first('{"type":"open","topic":"orders"}'), Open)
    assert parse_first(json.dumps(OPEN)) == MemberOpen("mailer", None, "m-1", 0, None)


def test_the_core_gets_the_owner_and_the_topic_that_were_decided_about() -> None:
    create = {"topic": "orders", "from": {"offsets": {"0": 1}}, "settings": {"a": 1}}
    opening = parse_first(json.dumps({**OPEN, "credit_bytes": 5, "create": create}))
    assert isinstance(opening, MemberOpen)
    assert opening.start == {"offsets": {"0": 1}}
    assert json.loads(opening.to_core("billing", "orders")) == {
        "type": "open",
        "subscription": "mailer",
        "owner": "billing",
        "member": "m-1",
        "credit_bytes": 5,
        "create": create,
        "topic": "orders",
    }


@pytest.mark.parametrize(
    "change",
    [
        {"subscription": "a/b"},
        {"member": ""},
        {"member": "a b"},
        {"owner": 7},
        {"credit_bytes": -1},
        {"create": []},
        {"create": {"topic": "a b"}},
        {"create": {"topic": "orders", "from": "soon"}},
        {"create": {"topic": "orders", "owner": "x"}},
        {"topic": "orders"},
        {"more": 1},
    ],
)
def test_an_open_that_is_wrong_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        parse_first(json.dumps({**OPEN, **change}))


@pytest.mark.parametrize(
    "message",
    [
        {"type": "ack", "partition": 0, "generation": 7, "ranges": [[1, 2], [4, 4]]},
        {"type": "ack", "partition": 0, "lease": 7, "ranges": [[1, 2]]},
        {"type": "nack", "partition": 0, "lease": 7, "offsets": [1], "delay_ms": 5},
        {"type": "attempts", "partition": 1, "generation": 7, "attempts": {"17": 3}},
        {**FAILED, "history": {"17": [TRY, {**TRY, "number": 2, "status": None}]}},
        {"type": "released", "partition": 0, "generation": 7},
        {"type": "heartbeat"},
    ],
)
def test_what_a_member_says_reaches_the_core_as_it_was_meant(message: dict[str, Any]) -> None:
    said = parse_said(json.dumps(message))
    assert isinstance(said, Said)
    assert json.loads(said.to_core()) == message


def test_credit_and_tokens_are_those_of_every_stream() -> None:
    assert parse_said('{"type":"credit","bytes":3}') == Credit(3)
    assert parse_said('{"type":"token","token":"x"}') == Token("x")


@pytest.mark.parametrize(
    "text",
    [
        '{"type":"open"}',
        '{"type":"ack","partition":0,"generation":1,"generation":2,"ranges":[[0,0]]}',
        '{"type":"ack","partition":0,"generation":1,"lease":1,"ranges":[[0,0]]}',
        '{"type":"ack","partition":0,"generation":1,"ranges":[]}',
        '{"type":"ack","partition":0,"generation":1,"ranges":[[2,1]]}',
        '{"type":"ack","partition":0,"generation":1,"ranges":[[0,1.5]]}',
        '{"type":"ack","partition":0,"generation":1,"ranges":[[0]]}',
        '{"type":"ack","partition":-1,"generation":1,"ranges":[[0,0]]}',
        '{"type":"ack","partition":0,"ranges":[[0,0]]}',
        '{"type":"nack","partition":0,"lease":1,"offsets":[true]}',
        '{"type":"nack","partition":0,"lease":1,"offsets":[1],"delay_ms":-1}',
        '{"type":"attempts","partition":0,"lease":1,"attempts":{"a":1}}',
        '{"type":"attempts","partition":0,"lease":1,"attempts":{"1":0}}',
        '{"type":"attempts","partition":0,"lease":1,"attempts":{}}',
        '{"type":"heartbeat","more":1}',
    ],
)
def test_what_could_be_read_in_two_ways_is_refused(text: str) -> None:
    with pytest.raises(BadRequest):
        parse_said(text)


@pytest.mark.parametrize(
    ("history", "problem"),
    [
        ([], "history: must be an object of offsets that `attempts` names"),
        ({"18": [TRY]}, "history: must be an object of offsets that `attempts` names"),
        ({"17": []}, "history: each offset must have a list of 1 to 100"),
        ({"17": [TRY] * (TRIES_MAX + 1)}, "history: each offset must have a list of 1 to 100"),
        ({"17": TRY}, "history: each offset must have a list of 1 to 100"),
        ({"17": ["x"]}, "history: a try has number, at_us, status and error"),
        ({"17": [{**TRY, "body": "x"}]}, "history: a try has number, at_us, status and error"),
        ({"17": [{**TRY, "number": 0}]}, "history.number: must be a whole number from 1"),
        ({"17": [{**TRY, "at_us": 1.5}]}, "history.at_us: must be a whole number"),
        ({"17": [{**TRY, "status": 1000}]}, "history.status: must be a whole number"),
        ({"17": [{**TRY, "error": 7}]}, "history.error: must be a string"),
        ({"17": [{**TRY, "error": "ü" * 101}]}, "history.error: must be a string of at most 200"),
    ],
)
def test_a_history_that_is_wrong_is_refused_with_what_is_wrong(history: Any, problem: str) -> None:
    with pytest.raises(BadRequest) as caught:
        parse_said(json.dumps({**FAILED, "history": history}))
    assert problem in str(caught.value)


def test_a_message_is_bounded() -> None:
    message = {"type": "ack", "partition": 0, "lease": 1, "ranges": [[0, 0]] * (ITEMS_MAX + 1)}
    with pytest.raises(BadRequest, match=f"1 to {ITEMS_MAX}"):
        parse_said(json.dumps(message))
