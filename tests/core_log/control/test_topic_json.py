"""Topics as JSON: strict on the way in, the same on the way back."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core_log.control.topic_json import (
    parse_change,
    parse_definition,
    parse_topic_record,
    topic_json,
    topic_record,
)
from core_log.control.topics import (
    PARTITIONS_MAX,
    BadTopic,
    Change,
    Definition,
    Retention,
    Topic,
)

LIMIT = st.none() | st.integers(1, 2**53 - 1)
NAMES = st.from_regex(
    r"_?[A-Za-z0-9][A-Za-z0-9_-]{0,20}(\.[A-Za-z0-9_-]{1,9}){0,3}", fullmatch=True
)


@st.composite
def topics(draw: st.DrawFn) -> Topic:
    memory = draw(st.booleans())
    partitions = draw(st.integers(1, 5))
    definition = Definition(
        draw(NAMES),
        partitions,
        draw(st.sampled_from(["key", "round_robin", "sticky"])),
        Retention() if memory else Retention(draw(LIMIT), draw(LIMIT)),
        "memory" if memory else "disk",
        draw(st.sampled_from(["broadcast", "fcfs"])),
    )
    first = draw(st.lists(st.integers(0, 2**50), min_size=partitions, max_size=partitions))
    return Topic(definition, draw(st.integers(0, 2**52)), draw(st.integers(1, 99)), tuple(first))


@given(topics())
def test_a_record_reads_back_as_the_same_topic(topic: Topic) -> None:
    assert parse_topic_record(orjson.loads(orjson.dumps(topic_record(topic)))) == topic


@given(topics())
def test_what_the_wire_shows_can_be_sent_to_create_the_same(topic: Topic) -> None:
    shown = topic_json(topic)
    assert shown.pop("created_us") == topic.created_us
    assert shown.pop("version") == topic.version
    if topic.name.startswith("_"):
        with pytest.raises(BadTopic, match="kept for the system"):
            parse_definition(shown)
    else:
        assert parse_definition(shown) == topic.definition


def test_everything_but_the_name_has_a_default() -> None:
    assert parse_definition({"name": "orders"}) == Definition("orders")


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ([], "a topic must be a JSON object"),
        ({}, "name: must be a string"),
        ({"name": "a b"}, "name: may hold letters"),
        ({"name": "_audit"}, "kept for the system"),
        ({"name": "a", "partitions": 0}, f"between 1 and {PARTITIONS_MAX}"),
        ({"name": "a", "partitions": True}, "partitions"),
        ({"name": "a", "strategy": "random"}, "strategy: must be one of key, round_robin, sticky"),
        ({"name": "a", "strategy": None}, "strategy: must be one of"),
        ({"name": "a", "retention": 5}, "retention: must be an object"),
        ({"name": "a", "retention": {"age_ms": 0}}, "retention.age_ms: must be an integer"),
        ({"name": "a", "retention": {"days": 1}}, "retention.days: is not known here"),
        ({"name": "a", "storage": "tape"}, "storage: must be one of disk, memory"),
        ({"name": "a", "storage": "memory", "retention": {"bytes": 1}}, "stores nothing"),
        ({"name": "a", "delivery": "pigeon"}, "delivery: must be one of broadcast, fcfs"),
        ({"name": "a", "partition": 2}, "partition: is not known here"),
    ],
)  # fmt: skip
def test_a_bad_definition_is_refused_with_the_reason(value: object, problem: str) -> None:
    with pytest.raises(BadTopic) as caught:
        parse_definition(value)
    assert problem in str(caught.value)


def test_all_problems_of_a_definition_come_at_once() -> None:
    with pytest.raises(BadTopic) as caught:
        parse_definition({"name": "", "partitions": -1, "storage": "tape", "odd": 1})
    assert str(caught.value).count(";") >= 3


def test_a_change_holds_only_what_is_given() -> None:
    assert parse_change({}) == Change()
    assert parse_change({"partitions": 3, "retention": {"age_ms": None, "bytes": 9}}) == Change(
        partitions=3, retention={"age_ms": None, "bytes": 9}
    )
    assert parse_change({"retention": {"bytes": 9}}) == Change(retention={"bytes": 9})
    assert parse_change({"retention": {"age_ms": None}}) == Change(retention={"age_ms": None})


@pytest.mark.parametrize("fixed", ["name", "storage"])
def test_name_and_storage_are_fixed_at_creation(fixed: str) -> None:
    with pytest.raises(BadTopic, match=f"{fixed}: is fixed"):
        parse_change({fixed: "disk"})


def test_a_record_with_offsets_for_other_partitions_is_refused() -> None:
    record = topic_record(Topic(Definition("a", 2), 1, 1, (0, 0)))
    with pytest.raises(BadTopic, match="one offset per partition"):
        parse_topic_record({**record, "first_offsets": [0]})
