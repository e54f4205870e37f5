"""What a push names becomes a target; a channel that changes is followed."""

import pytest

from sidecar.errors import BadDestination, UnknownChannel
from sidecar.push.destinations import CHANNEL_FRESH_S, Destinations, target_of_channel
from sidecar.push.push_settings import Push
from sidecar.push.subscription_wire import SubscriptionWire

MAIL = {"destination_host": "localhost", "destination_port": 8025, "path": "/in", "tls": False}


def test_a_channel_is_a_url_in_parts():
    assert target_of_channel(MAIL).url == "http://localhost:8025/in"
    assert target_of_channel({**MAIL, "tls": True}).url == "https://localhost:8025/in"
    assert target_of_channel({**MAIL, "destination_host": "::1"}).url == "http://[::1]:8025/in"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("destination_host", "a@b"),
        ("destination_host", "a/b"),
        ("destination_host", ""),
        ("path", "x"),
    ],
)
def test_a_channel_that_is_none_is_refused_by_field(field, value):
    with pytest.raises(BadDestination) as caught:
        target_of_channel({**MAIL, field: value})
    assert caught.value.members["field"] == field


async def test_a_channel_is_asked_for_again_after_a_while(mesh, open_gateway):
    opened, now = await open_gateway(), [0.0]
    wire = SubscriptionWire(opened.gateway)
    found = Destinations(wire, lambda: now[0])
    push = Push(channel="mail")
    with pytest.raises(UnknownChannel):
        await found.of(push)
    await wire.create_channel({"id": "mail", **MAIL})
    assert (await found.of(push)).port == 8025
    await wire.put_channel("mail", {**MAIL, "destination_port": 8026})
    assert (await found.of(push)).port == 8025
    now[0] = CHANNEL_FRESH_S + 0.1
    assert (await found.of(push)).port == 8026
    await wire.put_channel("mail", {**MAIL, "destination_port": 8027})
    found.forget("mail")
    assert (await found.of(push)).port == 8027
