"""What create, alter and delete decide about topics."""

from dataclasses import replace

import pytest

from core_log.control.topics import (
    TOPICS_MAX,
    BadTopic,
    Change,
    Definition,
    Retention,
    TooManyTopics,
    Topic,
    TopicChanged,
    TopicExists,
    alter,
    check_delete,
    create,
)

ORDERS = Topic(Definition("orders", partitions=2), created_us=5, version=3, first_offsets=(0, 0))


def made(wanted: Definition, existing: Topic | None = None, topics: int = 0) -> Topic | None:
    return create(
        existing, wanted, topics=topics, now_us=9, version=4, ends=lambda partition: partition * 10
    )


def altered(change: Change, topic: Topic = ORDERS, if_version: int | None = None) -> Topic | None:
    return alter(topic, change, if_version=if_version, version=8, ends=lambda partition: 7)


def test_a_new_topic_begins_where_its_name_ended_before() -> None:
    topic = made(Definition("orders", partitions=3))
    assert topic == Topic(Definition("orders", partitions=3), 9, 4, (0, 10, 20))


def test_creating_the_same_again_changes_nothing() -> None:
    assert made(ORDERS.definition, ORDERS) is None


@pytest.mark.parametrize(
    ("wanted", "differs"),
    [
        (Definition("orders", partitions=3), ["partitions"]),
        (Definition("orders", 2, "sticky", Retention(1, 2)), ["strategy", "retention"]),
        (Definition("orders", 2, storage="memory", delivery="fcfs"), ["storage", "delivery"]),
    ],
)
def test_creating_a_different_one_names_what_differs(
    wanted: Definition, differs: list[str]
) -> None:
    with pytest.raises(TopicExists, match="sidegate topics alter orders") as caught:
        made(wanted, ORDERS)
    assert caught.value.members["differs"] == differs


def test_the_number_of_topics_is_limited_but_the_same_again_is_fine() -> None:
    with pytest.raises(TooManyTopics, match=str(TOPICS_MAX)):
        made(Definition("more"), topics=TOPICS_MAX)
    assert made(ORDERS.definition, ORDERS, topics=TOPICS_MAX) is None


def test_partitions_grow_and_the_new_ones_begin_where_the_log_ends() -> None:
    topic = altered(Change(partitions=4))
    assert topic is not None
    assert (topic.partitions, topic.first_offsets, topic.version) == (4, (0, 0, 7, 7), 8)
    assert topic.created_us == ORDERS.created_us


def test_partitions_never_shrink() -> None:
    with pytest.raises(BadTopic, match="they can only grow"):
        altered(Change(partitions=1))


def test_a_change_that_changes_nothing_is_none() -> None:
    assert altered(Change()) is None
    assert (
        altered(Change(partitions=2, strategy="key", retention={"age_ms": None, "bytes": None}))
        is None
    )


def test_retention_strategy_and_delivery_can_be_altered() -> None:
    topic = altered(Change(strategy="sticky", retention={"age_ms": 5}, delivery="fcfs"))
    assert topic is not None
    assert topic.definition == Definition(
        "orders", 2, "sticky", Retention(age_ms=5), "disk", "fcfs"
    )


@pytest.mark.parametrize(
    ("change", "left"),
    [
        ({"age_ms": 7}, Retention(age_ms=7, bytes=9)),
        ({"age_ms": None}, Retention(age_ms=None, bytes=9)),
        ({"bytes": None}, Retention(age_ms=5, bytes=None)),
        ({"age_ms": None, "bytes": None}, Retention()),
    ],
)
def test_a_retention_that_is_not_named_stays(
    change: dict[str, int | None], left: Retention
) -> None:
    both = replace(ORDERS, definition=replace(ORDERS.definition, retention=Retention(5, 9)))
    topic = altered(Change(retention=change), both)
    assert topic is not None
    assert topic.definition.retention == left


@pytest.mark.parametrize("version", [1, 2, 4])
def test_a_change_of_another_version_is_refused_with_the_current_one(version: int) -> None:
    with pytest.raises(TopicChanged, match="is at version 3"):
        altered(Change(partitions=4), if_version=version)
    with pytest.raises(TopicChanged):
        check_delete(ORDERS, if_version=version)
    assert altered(Change(partitions=4), if_version=3) is not None


def test_a_memory_topic_has_no_retention() -> None:
    memory = Topic(Definition("live", storage="memory"), 1, 1, (0,))
    with pytest.raises(BadTopic, match="stores nothing"):
        altered(Change(retention={"bytes": 1}), memory)


def test_the_systems_topics_keep_their_partitions_and_can_not_be_deleted() -> None:
    audit = Topic(Definition("_audit"), 1, 1, (0,))
    with pytest.raises(BadTopic, match="fixed"):
        altered(Change(partitions=2), audit)
    with pytest.raises(BadTopic, match="can't be deleted"):
        check_delete(audit, if_version=None)
    assert altered(Change(retention={"age_ms": 1}), audit) is not None
    check_delete(ORDERS, if_version=None)
