"""What members say, and what they are told."""

from typing import Any

import orjson
import pytest

from core_log.api import member_messages
from core_log.api.member_messages import (
    RANGES_MAX,
    Ack,
    Attempts,
    Heartbeat,
    MemberOpen,
    Nack,
    Released,
    parse_first,
    parse_said,
)
from core_log.api.stream_messages import BadMessage, Credit, Open, Token
from core_log.subscriptions.subscriptions import Wanted
from core_log.subscriptions.tries import Try

ROW = {"number": 3, "at_us": 7, "status": 500, "error": "the app answered 500"}
TRIES = (Try(3, 7, 500, "the app answered 500"),)
OPEN = {"type": "open", "subscription": "mailer", "member": "mail-1", "credit_bytes": 5}


def test_an_open_is_of_a_topic_or_of_a_subscription() -> None:
    assert parse_first(orjson.dumps(OPEN)) == MemberOpen("mailer", None, "mail-1", 5, None, None)
    topic = parse_first(b'{"type":"open","topic":"orders"}')
    assert topic == Open("orders", None, "latest", 0)
    assert parse_first(b'{"type":"credit","bytes":3}') == Credit(3)


def test_an_open_may_create_and_names_the_topic_that_was_decided_about() -> None:
    create = {"topic": "orders", "from": "earliest", "mode": "fcfs"}
    message = {**OPEN, "owner": "ops", "create": create, "topic": "orders"}
    assert parse_first(orjson.dumps(message)) == MemberOpen(
        "mailer", "ops", "mail-1", 5, Wanted("mailer", "orders", "earliest", "fcfs"), "orders"
    )


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"subscription": "a b"}, "subscription: must be a name"),
        ({"member": ""}, "member: must be a name"),
        ({"credit_bytes": -1}, "credit_bytes: must be an integer"),
        ({"create": {}}, "create: topic: must be a string"),
        ({"create": 7}, "create: a subscription must be a JSON object"),
        ({"topic": "a b"}, "topic: "),
        ({"partitions": None}, "partitions: is not known here"),
    ],
)
def test_an_open_that_is_wrong_is_refused_with_every_problem(
    change: dict[str, Any], problem: str
) -> None:
    with pytest.raises(BadMessage) as caught:
        parse_first(orjson.dumps({**OPEN, **change}))
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (
            {"type": "ack", "partition": 1, "generation": 7, "ranges": [[1, 2], [5, 5]]},
            Ack(1, 7, ((1, 2), (5, 5))),
        ),
        ({"type": "ack", "partition": 0, "lease": 9, "ranges": [[0, 0]]}, Ack(0, 9, ((0, 0),))),
        (
            {"type": "nack", "partition": 0, "lease": 9, "offsets": [3], "delay_ms": 500},
            Nack(0, 9, (3,), 0.5),
        ),
        ({"type": "nack", "partition": 0, "lease": 9, "offsets": [3]}, Nack(0, 9, (3,), 0.0)),
        (
            {"type": "attempts", "partition": 0, "generation": 1, "attempts": {"17": 3}},
            Attempts(0, 1, {17: 3}),
        ),
        (
            {
                "type": "attempts",
                "partition": 0,
                "lease": 1,
                "attempts": {"17": 3, "18": 1},
                "history": {"17": [ROW]},
            },
            Attempts(0, 1, {17: 3, 18: 1}, {17: TRIES}),
        ),
        ({"type": "released", "partition": 0, "generation": 1}, Released(0, 1)),
        ({"type": "heartbeat"}, Heartbeat()),
        ({"type": "credit", "bytes": 4}, Credit(4)),
        ({"type": "token", "token": "secret"}, Token()),
    ],
)
def test_everything_that_a_member_may_say(message: dict[str, Any], said: object) -> None:
    assert parse_said(orjson.dumps(message)) == said


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (b"{", "not JSON"),
        (b"[]", "must be a JSON object"),
        (b'{"type":"open"}', "type: must be one of ack, nack"),
        (b'{"type":"ack","partition":0,"ranges":[[0,0]]}', "generation: name it, or `lease`"),
        (
            b'{"type":"ack","partition":0,"generation":1,"lease":1,"ranges":[[0,0]]}',
            "generation: name it, or `lease`",
        ),
        (b'{"type":"ack","generation":1,"ranges":[[0,0]]}', "partition: is missing"),
        (b'{"type":"ack","partition":0,"generation":1,"ranges":[]}', "ranges: must be"),
        (b'{"type":"ack","partition":0,"generation":1,"ranges":[[2,1]]}', "ranges: must be"),
        (b'{"type":"ack","partition":0,"generation":1,"ranges":[[true,1]]}', "ranges: must be"),
        (b'{"type":"ack","partition":0,"generation":1,"ranges":[[1]]}', "ranges: must be"),
        (b'{"type":"nack","partition":0,"lease":1,"offsets":[-1]}', "offsets: must be"),
        (b'{"type":"nack","partition":0,"lease":1,"offsets":[1],"delay_ms":-1}', "delay_ms"),
        (b'{"type":"attempts","partition":0,"lease":1,"attempts":{"x":1}}', "attempts: must map"),
        (b'{"type":"attempts","partition":0,"lease":1,"attempts":{"1":0}}', "attempts: must map"),
        (
            b'{"type":"attempts","partition":0,"lease":1,"attempts":{"1":1},"history":[]}',
            "history: must map offsets",
        ),
        (
            b'{"type":"attempts","partition":0,"lease":1,"attempts":{"1":1},"history":{"2":[]}}',
            "history: must map offsets that `attempts` names",
        ),
        (
            b'{"type":"attempts","partition":0,"lease":1,"attempts":{"1":1},"history":{"1":[7]}}',
            "history: a try has `number`, `at_us`, `status` and `error`",
        ),
        (b'{"type":"heartbeat","more":1}', "more: is not known here"),
        (b'{"type":"credit"}', "bytes: is missing"),
    ],
)
def test_what_is_wrong_is_named(message: bytes, problem: str) -> None:
    with pytest.raises(BadMessage) as caught:
        parse_said(message)
    assert problem in str(caught.value)


def test_a_message_is_bounded() -> None:
    ranges = [[n * 2, n * 2] for n in range(RANGES_MAX + 1)]
    message = {"type": "ack", "partition": 0, "generation": 1, "ranges": ranges}
    with pytest.raises(BadMessage, match=f"1 to {RANGES_MAX} pairs"):
        parse_said(orjson.dumps(message))


def test_what_members_are_told_is_json() -> None:
    texts = [
        member_messages.assign(0, 7, 17, ((19, 22),), {17: 2}, 40, {}),
        member_messages.lease(0, 91, 17, 20, [(18, 18)], {17: 1}, {}),
        member_messages.redeliver(0, 7, 15, 20, [17], {17: 2}, {}),
        member_messages.about_token("fenced", 0, "lease", 91),
        member_messages.acked(0, 21, [(17, 20)]),
        member_messages.paused(now=True),
        member_messages.paused(now=False),
    ]
    said = [orjson.loads(text) for text in texts]
    assert said[0] == {
        "type": "assign",
        "partition": 0,
        "generation": 7,
        "low": 17,
        "acked": [[19, 22]],
        "attempts": {"17": 2},
        "end_offset": 40,
    }
    assert said[1]["count"] == 3
    assert said[2]["offsets"] == [17]
    assert said[3] == {"type": "fenced", "partition": 0, "lease": 91}
    assert said[4] == {"type": "acked", "partition": 0, "low": 21, "ranges": [[17, 20]]}
    assert [each["type"] for each in said[5:]] == ["paused", "resumed"]


def test_the_history_is_told_where_there_is_one() -> None:
    history = {17: TRIES}
    texts = [
        member_messages.assign(0, 7, 17, (), {17: 3}, 40, history),
        member_messages.lease(0, 91, 17, 20, [], {17: 3}, history),
        member_messages.redeliver(0, 7, 15, 20, [17], {17: 3}, history),
    ]
    assert [orjson.loads(text)["history"] for text in texts] == [{"17": [ROW]}] * 3
