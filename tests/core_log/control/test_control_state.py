"""The control state is a fold over records, and a snapshot folds to the same state."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core_log.api.stream_messages import FromOffsets, FromTime
from core_log.control.channels import Channel
from core_log.control.control_state import (
    EMPTY,
    BadRecord,
    Cause,
    ChannelDeleted,
    ChannelPut,
    ControlState,
    Fact,
    Record,
    Revoked,
    SubscriptionDeleted,
    SubscriptionPut,
    TopicDeleted,
    TopicPut,
    Versions,
    apply,
    decode_record,
    encode_record,
    snapshot,
)
from core_log.control.revocations import KEPT_AFTER_END_US, Revocation
from core_log.control.topics import Definition, Retention, Topic
from core_log.subscriptions.subscriptions import Subscription

NAMES = st.sampled_from(["orders", "payments", "orders.dead", "_audit"])
TOPICS = st.builds(
    lambda name, version, first: Topic(
        Definition(name, partitions=2, retention=Retention(5, None)), 7, version, (first, 0)
    ),
    NAMES,
    st.integers(1, 1000),
    st.integers(0, 99),
)
REVOCATIONS = st.builds(
    Revocation,
    st.sampled_from(["token_id", "client", "certificate"]),
    st.sampled_from(["a", "b", "c"]),
    st.none() | st.just("https://issuer.example"),
    st.none() | st.integers(50, 150),
    st.none() | st.just("leaked"),
    st.integers(0, 10),
    st.integers(1, 1000),
)
OWNERS = st.sampled_from(["billing", "spiffe://example/mail"])
SUBSCRIPTIONS = st.builds(
    Subscription,
    id=st.integers(1, 1000),
    owner=OWNERS,
    name=st.sampled_from(["mailer", "audit.1"]),
    topic=NAMES,
    mode=st.sampled_from(["ordered", "fcfs"]),
    start=st.sampled_from(["earliest", "latest", FromOffsets({0: 7}), FromTime(5)]),
    lease_ms=st.integers(1_000, 600_000),
    push=st.booleans(),
    settings=st.sampled_from([b"{}", b'{"filter":"true"}']),
    lows=st.lists(st.integers(0, 99), max_size=3).map(tuple),
    created_us=st.integers(0, 99),
    version=st.integers(1, 1000),
    paused=st.booleans(),
)
CHANNELS = st.builds(
    Channel,
    owner=OWNERS,
    id=st.sampled_from(["mail", "sms"]),
    name=st.just("Mail"),
    host=st.just("localhost"),
    port=st.integers(1, 65_535),
    path=st.just("/in"),
    tls=st.booleans(),
    version=st.integers(1, 1000),
)
FACTS: st.SearchStrategy[Fact] = (
    st.builds(TopicPut, TOPICS)
    | st.builds(TopicDeleted, NAMES)
    | st.builds(Revoked, REVOCATIONS)
    | st.builds(SubscriptionPut, SUBSCRIPTIONS)
    | st.builds(SubscriptionDeleted, OWNERS, st.sampled_from(["mailer", "audit.1"]))
    | st.builds(ChannelPut, CHANNELS)
    | st.builds(ChannelDeleted, OWNERS, st.sampled_from(["mail", "sms"]))
    | st.builds(Versions, st.integers(0, 2000), st.integers(0, 1000))
)


def test_topics_come_change_and_go() -> None:
    topic = Topic(Definition("orders"), 1, 1, (0,))
    state = apply(EMPTY, [TopicPut(topic)])
    assert state.topics == {"orders": topic}
    grown = replace(topic, definition=Definition("orders", 2), version=2, first_offsets=(0, 0))
    assert apply(state, [TopicPut(grown)]).topics == {"orders": grown}
    gone = apply(state, [TopicDeleted("orders")])
    assert gone.topics == {}
    assert gone.version == 2, "a deletion has a version of its own"


def test_a_topic_takes_its_subscriptions_with_it() -> None:
    mine = Subscription(2, "o", "s", "orders", "ordered", "latest", 1000, False, b"{}", (0,), 1, 2)
    other = replace(mine, name="t", topic="payments", version=3)
    state = apply(EMPTY, [SubscriptionPut(mine), SubscriptionPut(other), TopicDeleted("orders")])
    assert state.subscriptions == {("o", "t"): other}
    assert apply(state, [SubscriptionDeleted("o", "t")]).subscriptions == {}


def test_what_does_not_change_is_not_copied() -> None:
    state = apply(EMPTY, [TopicPut(Topic(Definition("orders"), 1, 1, (0,)))])
    channel = Channel("o", "mail", "Mail", "localhost", 1, "/", False, 2)
    assert apply(state, [ChannelPut(channel)]).topics is state.topics


def test_applying_leaves_the_old_state_as_it_was() -> None:
    state = apply(EMPTY, [TopicPut(Topic(Definition("orders"), 1, 1, (0,)))])
    apply(state, [TopicDeleted("orders")])
    assert "orders" in state.topics
    assert ControlState() == EMPTY


def test_a_later_revocation_of_the_same_takes_the_place_of_the_first() -> None:
    first = Revocation("client", "x", None, 100, None, 1, 1)
    later = replace(first, until_us=None, version=2)
    state = apply(EMPTY, [Revoked(first), Revoked(later)])
    assert list(state.revocations.values()) == [later]
    assert state.revocations_version == 2


@given(st.lists(FACTS), st.integers(0, 20))
def test_facts_may_be_applied_in_any_portions(facts: list[Fact], cut: int) -> None:
    assert apply(EMPTY, facts) == apply(apply(EMPTY, facts[:cut]), facts[cut:])


@given(st.lists(FACTS), st.integers(0, 200).map(lambda us: us + KEPT_AFTER_END_US))
def test_a_snapshot_folds_to_the_state_without_what_may_be_forgotten(
    facts: list[Fact], now_us: int
) -> None:
    state = apply(EMPTY, facts)
    again = apply(EMPTY, snapshot(state, now_us=now_us))
    assert again.topics == state.topics
    assert again.subscriptions == state.subscriptions
    assert again.channels == state.channels
    assert again.version == state.version
    assert again.revocations_version == state.revocations_version
    assert again.revocations == {
        key: each for key, each in state.revocations.items() if not each.forgettable(now_us)
    }


@given(FACTS, st.none() | st.just("billing"), st.none() | st.just("d-1"))
def test_a_record_reads_back_as_itself(
    fact: Fact, principal: str | None, decision: str | None
) -> None:
    record = Record(fact, 12, Cause(principal, decision))
    assert decode_record(encode_record(record)) == record


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"not json", "can't be read"),
        (b"[]", "must be a JSON object"),
        (b'{"record":"planet","at_us":1}', "run that version"),
        (b'{"record":"subscription","at_us":1}', "must be a JSON object"),
        (b'{"record":"channel","at_us":1,"channel":{}}', "destination_port: is missing"),
        (b'{"record":"topic","at_us":1,"topic":{}}', "name"),
        (b'{"record":"topic_deleted","at_us":1,"name":"a b"}', "topic"),
        (b'{"record":"revoked","at_us":1,"revocation":{}}', "kind"),
        (b'{"record":"topic_deleted","at_us":1,"name":"a","more":1}', "more: is not known here"),
    ],
)
def test_a_record_that_is_not_understood_is_never_skipped(data: bytes, problem: str) -> None:
    with pytest.raises(BadRecord) as caught:
        decode_record(data)
    assert problem in str(caught.value)
