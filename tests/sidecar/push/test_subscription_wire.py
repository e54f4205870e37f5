"""Subscriptions on the wire: refusals become typed errors, and a path means one thing only."""

import orjson
import pytest

from sidecar.errors import (
    BadRequest,
    Denied,
    SubscriptionConflict,
    UnknownChannel,
    UnknownSubscription,
    UplinkDown,
)
from sidecar.push.subscription_wire import SubscriptionWire, check_name, refusal
from sidecar.uplink.gateway import Answer


def answer(status, code):
    return Answer(status, {}, orjson.dumps({"code": code, "detail": "why"}), reusable=True)


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (404, "unknown_subscription", UnknownSubscription),
        (404, "unknown_channel", UnknownChannel),
        (409, "subscription_exists", SubscriptionConflict),
        (412, "subscription_changed", SubscriptionConflict),
        (400, "bad_subscription", BadRequest),
        (403, "denied", Denied),
        (503, "unavailable", UplinkDown),
    ],
)
def test_a_refusal_is_an_error_of_its_kind(status, code, kind):
    assert type(refusal(answer(status, code))) is kind
    if kind is SubscriptionConflict:
        assert refusal(answer(status, code)).members["reason"] == code


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "a%2fb", "-a", "a b", "ä", "a" * 129, "a?b"]
)
def test_a_name_that_a_path_cannot_carry_is_refused(name):
    with pytest.raises(BadRequest):
        check_name(name)


async def test_an_alteration_is_of_the_version_that_was_seen(open_gateway):
    wire = SubscriptionWire((await open_gateway()).gateway)
    status, made = await wire.create({"name": "a", "topic": "t"})
    assert status == 201
    altered = await wire.alter("a", {"lease_ms": 5000}, version=made["version"])
    assert altered["lease_ms"] == 5000
    with pytest.raises(SubscriptionConflict):
        await wire.alter("a", {"lease_ms": 6000}, version=made["version"])


async def test_news_come_when_something_changes(open_gateway):
    import asyncio

    wire = SubscriptionWire((await open_gateway()).gateway)
    before = await wire.list()
    waiting = asyncio.create_task(wire.changes(before["version"]))
    await wire.create({"name": "a", "topic": "t"})
    assert [each["name"] for each in (await waiting)["subscriptions"]] == ["a"]


async def test_an_owner_is_a_principals_name(open_gateway):
    wire = SubscriptionWire((await open_gateway()).gateway)
    with pytest.raises(BadRequest, match="owner"):
        await wire.list("a\nb")
