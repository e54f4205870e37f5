"""Subscriptions as JSON."""

from dataclasses import replace

import orjson
import pytest

from core_log.api.stream_messages import FromOffsets, FromTime
from core_log.subscriptions.subscription_json import (
    parse_alteration,
    parse_subscription_record,
    parse_wanted,
    start_json,
    subscription_json,
    subscription_record,
)
from core_log.subscriptions.subscriptions import (
    SETTINGS_BYTES_MAX,
    Alteration,
    BadSubscription,
    Subscription,
    Wanted,
)

MADE = Subscription(
    id=4,
    owner="billing",
    name="mailer",
    topic="orders",
    mode="ordered",
    start=FromOffsets({0: 17}),
    lease_ms=30_000,
    push=True,
    settings=b'{"filter":"true"}',
    lows=(17, 0),
    created_us=9,
    version=12,
    paused=True,
)


def test_a_minimal_request_gets_the_defaults() -> None:
    assert parse_wanted({"name": "mailer", "topic": "orders"}) == (Wanted("mailer", "orders"), None)


def test_a_full_request() -> None:
    value = {
        "name": "mailer",
        "owner": "ops",
        "topic": "orders",
        "from": {"time_us": 5},
        "mode": "fcfs",
        "lease_ms": 1_000,
        "push": True,
        "settings": {"b": 1, "a": [None]},
    }
    wanted, owner = parse_wanted(value)
    assert owner == "ops"
    assert wanted == Wanted(
        "mailer", "orders", FromTime(5), "fcfs", 1_000, push=True, settings=b'{"a":[null],"b":1}'
    )


def test_where_the_name_stands_elsewhere_it_is_not_asked_for() -> None:
    assert parse_wanted({"topic": "orders"}, name="mailer")[0] == Wanted("mailer", "orders")
    with pytest.raises(BadSubscription, match="owner: is not known here"):
        parse_wanted({"topic": "orders", "owner": "x"}, name="mailer")


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ([], "must be a JSON object"),
        ({"topic": "orders"}, "name: must be a name"),
        ({"name": "a/b", "topic": "orders"}, "name: must be a name"),
        ({"name": "m"}, "topic: must be a string"),
        ({"name": "m", "topic": "orders", "mode": "x"}, "mode: must be one of ordered, fcfs"),
        ({"name": "m", "topic": "orders", "lease_ms": 999}, "lease_ms: must be an integer between"),
        ({"name": "m", "topic": "orders", "push": 1}, "push: must be true or false"),
        ({"name": "m", "topic": "orders", "settings": []}, "settings: must be an object"),
        ({"name": "m", "topic": "orders", "from": "soon"}, "from: must be"),
        ({"name": "m", "topic": "orders", "paused": True}, "paused: is not known here"),
        (
            {"name": "m", "topic": "orders", "settings": {"a": "x" * SETTINGS_BYTES_MAX}},
            "settings: must be at most 32768 bytes",
        ),
    ],
)
def test_what_is_wrong_is_named(value: object, problem: str) -> None:
    with pytest.raises(BadSubscription) as caught:
        parse_wanted(value)
    assert problem in str(caught.value)


def test_a_change_names_what_changes_and_refuses_what_is_fixed() -> None:
    assert parse_alteration({"push": False, "settings": {}}) == Alteration(
        push=False, settings=b"{}"
    )
    with pytest.raises(BadSubscription, match=r"from: is fixed .* move it with seek; paused:"):
        parse_alteration({"from": "latest", "paused": True})


@pytest.mark.parametrize("start", ["earliest", "latest", FromTime(3), FromOffsets({1: 2})])
def test_a_record_reads_back_as_itself(start: object) -> None:
    made = replace(MADE, start=start)
    assert parse_subscription_record(orjson.loads(orjson.dumps(subscription_record(made)))) == made
    assert start_json(made.start) == orjson.loads(orjson.dumps(subscription_json(made)))["from"]


def test_the_wire_shows_the_definition_and_not_the_books() -> None:
    assert orjson.loads(orjson.dumps(subscription_json(MADE))) == {
        "name": "mailer",
        "owner": "billing",
        "topic": "orders",
        "mode": "ordered",
        "from": {"offsets": {"0": 17}},
        "lease_ms": 30_000,
        "paused": True,
        "push": True,
        "settings": {"filter": "true"},
        "created_us": 9,
        "version": 12,
    }


def test_a_record_that_is_damaged_is_refused() -> None:
    with pytest.raises(BadSubscription, match="lows: must be a list of offsets"):
        parse_subscription_record(subscription_record(MADE) | {"lows": [-1], "settings": {}})
