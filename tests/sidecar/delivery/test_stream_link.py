"""A link speaks the wire's framing, and tells a loss from a refusal."""

import pytest

from log_format.frame import Frame
from sidecar.delivery.stream_link import Misunderstood, StreamLink, parse_control, stream_end
from sidecar.errors import (
    Denied,
    GatekeeperRefused,
    OverQuota,
    SubscriptionConflict,
    UnknownSubscription,
    UnknownTopic,
)
from sidecar.uplink.gateway import Unreachable

OPENING = {"topic": "orders", "partitions": None, "from": "earliest"}


@pytest.fixture
async def link(open_gateway):
    opened = await open_gateway()
    link = StreamLink(opened.gateway, opened.credentials, 64 * 1024)
    yield link
    await link.close()


async def test_an_opened_link_gives_frames_and_control_messages(mesh, link):
    sidecar = await mesh.sidecar()
    await sidecar.publish({"topic": "orders", "message": 1})
    opened = await link.open(OPENING)
    assert opened["partitions"] == [{"partition": 0, "offset": 0, "end_offset": 1}]
    assert link.connected
    assert isinstance(await link.receive(), Frame)
    assert (await link.receive())["type"] == "heartbeat"
    await link.close()
    assert not link.connected
    with pytest.raises(Unreachable, match="closed"):
        await link.receive()


async def test_a_refused_opening_leaves_no_connection(link):
    with pytest.raises(Denied):
        await link.open({**OPENING, "topic": "forbidden.x"})
    assert not link.connected


async def test_a_cut_connection_is_a_reason_to_open_again(mesh, link):
    await link.open(OPENING)
    await mesh.gatekeeper.cut_streams()

    async def listen():
        while True:
            await link.receive()

    with pytest.raises(Unreachable):
        await listen()
    await link.send({"type": "credit", "bytes": 1})


@pytest.mark.parametrize("text", ["[1]", "{", "1", '"x"'])
def test_what_is_no_object_is_no_control_message(text):
    with pytest.raises(Unreachable):
        parse_control(text)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("denied", Denied),
        ("unknown_topic", UnknownTopic),
        ("unknown_partition", UnknownTopic),
        ("deleted", UnknownTopic),
        ("topic_deleted", UnknownTopic),
        ("over_quota", OverQuota),
        ("bad_request", GatekeeperRefused),
        ("unknown_subscription", UnknownSubscription),
        ("subscription_deleted", UnknownSubscription),
        ("subscription_exists", SubscriptionConflict),
        ("not_durable", SubscriptionConflict),
        ("member_replaced", SubscriptionConflict),
        ("bad_message", Misunderstood),
        ("lease_expired", Unreachable),
        ("subscription_changed", Unreachable),
        ("draining", Unreachable),
        ("token_expired", Unreachable),
        ("", Unreachable),
    ],
)
def test_each_end_is_either_final_or_a_reason_to_open_again(code, kind):
    error = stream_end({"type": "end", "code": code, "detail": "why"})
    assert type(error) is kind
    assert "why" in str(error)


def test_a_denial_brings_its_decision_and_reason_along():
    error = stream_end({"code": "denied", "decision_id": "d", "reason": "r", "other": 1})
    assert isinstance(error, Denied)
    assert error.members == {"decision_id": "d", "reason": "r"}
