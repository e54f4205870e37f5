"""What a subscription may be, and what create and alter decide."""

from dataclasses import replace

import pytest

from core_log.api.stream_messages import FromOffsets
from core_log.control.topics import Definition, Topic
from core_log.subscriptions import subscriptions
from core_log.subscriptions.subscriptions import (
    OWNER_SETTINGS_BYTES_MAX,
    SETTINGS_BYTES_MAX,
    Alteration,
    NotDurable,
    Subscription,
    SubscriptionChanged,
    SubscriptionExists,
    TooManySubscriptions,
    Wanted,
    alter,
    check_room,
    check_version,
    compare,
    create,
    mode_of,
)

ORDERS = Topic(Definition("orders", partitions=2), 1, 1, (0, 5))
WANTED = Wanted("mailer", "orders")


def make(wanted: Wanted = WANTED) -> Subscription:
    return create(wanted, "billing", ORDERS, lows=(3,), now_us=9, version=4)


def test_a_new_subscription_has_its_version_as_its_id_for_life() -> None:
    made = make()
    assert (made.id, made.version, made.key, made.mode) == (4, 4, ("billing", "mailer"), "ordered")
    altered = alter(made, Alteration(push=True), if_version=4, version=9)
    assert altered == replace(made, push=True, version=9)


@pytest.mark.parametrize(
    ("delivery", "wanted", "mode"),
    [("broadcast", None, "ordered"), ("fcfs", None, "fcfs"), ("fcfs", "ordered", "ordered")],
)
def test_the_topic_suggests_the_mode(delivery: str, wanted: str | None, mode: str) -> None:
    topic = replace(ORDERS, definition=replace(ORDERS.definition, delivery=delivery))
    assert mode_of(replace(WANTED, mode=wanted), topic) == mode


def test_a_memory_topic_can_not_be_subscribed_to_durably() -> None:
    topic = replace(ORDERS, definition=replace(ORDERS.definition, storage="memory"))
    with pytest.raises(NotDurable, match="stores nothing"):
        mode_of(WANTED, topic)


def test_partitions_that_came_later_begin_with_their_first_message() -> None:
    assert [make().low(partition, ORDERS) for partition in (0, 1)] == [3, 5]


def test_the_same_again_is_no_change_and_another_is_refused_with_what_differs() -> None:
    compare(make(), WANTED, ORDERS)
    compare(replace(make(), paused=True), WANTED, ORDERS)
    other = replace(WANTED, start=FromOffsets({0: 1}), lease_ms=2000, settings=b'{"a":1}')
    with pytest.raises(SubscriptionExists) as caught:
        compare(make(), other, ORDERS)
    assert caught.value.members["differs"] == ["from", "lease_ms", "settings"]


@pytest.mark.parametrize(
    ("limit", "owner", "whose"),
    [
        ("OWNER_SUBSCRIPTIONS_MAX", "billing", "billing has 2"),
        ("SUBSCRIPTIONS_MAX", "ops", "this core has 2"),
    ],
)
def test_subscriptions_are_limited_for_each_and_for_all(
    monkeypatch: pytest.MonkeyPatch, limit: str, owner: str, whose: str
) -> None:
    others = [replace(make(), owner=owner, name=name) for name in "ab"]
    check_room(others, make())
    monkeypatch.setattr(subscriptions, limit, 2)
    with pytest.raises(TooManySubscriptions, match=whose):
        check_room(others, make())
    monkeypatch.setattr(subscriptions, limit, 3)
    check_room([*others, make()], make())


def test_settings_are_limited_all_together() -> None:
    large = bytes(SETTINGS_BYTES_MAX)
    count = OWNER_SETTINGS_BYTES_MAX // SETTINGS_BYTES_MAX
    others = [replace(make(), name=f"s{n}", settings=large) for n in range(count - 1)]
    check_room(others, replace(make(), settings=large))
    with pytest.raises(TooManySubscriptions, match="settings of all subscriptions of billing"):
        check_room([*others, replace(make(), name="x", settings=large)], make())


def test_an_alteration_of_nothing_is_none() -> None:
    assert alter(make(), Alteration(), if_version=None, version=9) is None
    assert alter(make(), Alteration(mode="ordered", paused=False), if_version=4, version=9) is None


def test_another_version_than_the_callers_is_refused() -> None:
    with pytest.raises(SubscriptionChanged) as caught:
        alter(make(), Alteration(push=True), if_version=3, version=9)
    assert caught.value.members["version"] == 4
    check_version(make(), None)
