"""The text messages of a stream: strict on the way in, exact on the way out."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core_log.api import stream_messages
from core_log.api.stream_messages import (
    CREDIT_BYTES_MAX,
    BadMessage,
    Credit,
    FromOffsets,
    FromTime,
    Open,
    Token,
    parse_message,
)
from core_log.control.topic_log import Extent


def parsed(**message: object) -> object:
    return parse_message(orjson.dumps(message))


def test_an_open_message_says_what_to_read_and_from_where() -> None:
    assert parsed(type="open", topic="orders") == Open("orders", None, "latest", 0)
    assert parsed(
        type="open", topic="orders", partitions=[1, 0, 1], **{"from": "earliest"}, credit_bytes=9
    ) == Open("orders", (1, 0), "earliest", 9)
    assert parsed(
        type="open", topic="_audit", partitions=None, **{"from": {"offsets": {"0": 17, "3": 0}}}
    ) == Open("_audit", None, FromOffsets({0: 17, 3: 0}), 0)
    assert parsed(type="open", topic="orders", **{"from": {"time_us": 5}}) == Open(
        "orders", None, FromTime(5), 0
    )


def test_credit_and_token() -> None:
    assert parsed(type="credit", bytes=5) == Credit(5)
    assert parsed(type="token", token="secret") == Token()
    assert "secret" not in repr(parsed(type="token", token="secret"))


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ({}, "type: must be one of open, credit, token"),
        ({"type": "ack"}, "type: must be one of"),
        ({"type": "open"}, "topic: must be a string"),
        ({"type": "open", "topic": "a b"}, "topic: may hold letters"),
        ({"type": "open", "topic": "a", "partitions": []}, "partitions: must be null"),
        ({"type": "open", "topic": "a", "partitions": [True]}, "partitions"),
        ({"type": "open", "topic": "a", "partitions": [1024]}, "partitions"),
        ({"type": "open", "topic": "a", "from": "middle"}, "from: must be"),
        ({"type": "open", "topic": "a", "from": {}}, "from: must be"),
        ({"type": "open", "topic": "a", "from": {"time_us": -1}}, "from.time_us"),
        ({"type": "open", "topic": "a", "from": {"offsets": {"x": 1}}}, "from.offsets"),
        ({"type": "open", "topic": "a", "from": {"offsets": {"0": -1}}}, "from.offsets"),
        ({"type": "open", "topic": "a", "from": {"offsets": 5}}, "from.offsets"),
        ({"type": "open", "topic": "a", "credit_bytes": -1}, "credit_bytes"),
        ({"type": "open", "topic": "a", "group": "g"}, "group: is not known here"),
        ({"type": "credit"}, "bytes: is missing"),
        ({"type": "credit", "bytes": 0}, "bytes: must be an integer between 1"),
        ({"type": "credit", "bytes": CREDIT_BYTES_MAX + 1}, "bytes"),
    ],
)
def test_a_bad_message_is_refused_with_the_reason(message: dict[str, object], problem: str) -> None:
    with pytest.raises(BadMessage) as caught:
        parse_message(orjson.dumps(message))
    assert problem in str(caught.value)


@given(st.text() | st.binary())
def test_no_text_breaks_the_parser(text: str | bytes) -> None:
    try:
        parse_message(text)
    except BadMessage:
        return


def test_answers_have_the_members_that_the_wire_promises() -> None:
    begins = [(3, Extent(0, 1, 9))]
    partition = {"partition": 0, "offset": 3, "end_offset": 9}
    assert orjson.loads(stream_messages.opened("a", begins)) == {
        "type": "opened",
        "topic": "a",
        "partitions": [partition],
    }
    added = orjson.loads(stream_messages.partitions_added("a", begins))
    assert added == {"type": "partitions", "topic": "a", "partitions": [partition]}
    assert orjson.loads(stream_messages.heartbeat({0: 5, 1: 6})) == {
        "type": "heartbeat",
        "end_offsets": {"0": 5, "1": 6},
    }
    assert orjson.loads(stream_messages.gap(0, 1, 5, "damaged", "why")) == {
        "type": "gap",
        "partition": 0,
        "first_offset": 1,
        "next_offset": 5,
        "code": "damaged",
        "detail": "why",
    }
    assert orjson.loads(stream_messages.end("draining", "why")) == {
        "type": "end",
        "code": "draining",
        "detail": "why",
    }
