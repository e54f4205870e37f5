"""Messages as apps read them over HTTP: pages, single ones, and live."""

import asyncio
import json

import msgspec
import pytest

from sidecar.api.api_types import Envelope, MessageList
from sidecar.config import LimitsConfig


@pytest.fixture
async def sidecar(mesh):
    return await mesh.sidecar()


async def read_events(response, count):
    """The next events as (id, envelope)."""
    events, identity = [], ""
    while len(events) < count:
        line = await response.content.readline()
        assert line, "the stream ended"
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name == "id":
            identity = value
        elif name == "data":
            events.append((identity, json.loads(value)))
    return events


async def test_what_is_given_out_is_what_the_openapi_types_say(sidecar):
    await sidecar.publish({"topic": "t", "message": {"a": 1}, "key": "k", "headers": {"h": "v"}})
    await sidecar.publish({"topic": "t", "data_base64": "AP8=", "content_type": "text/plain"})
    async with sidecar.client.get(f"{sidecar.base}/messages/t") as response:
        page = msgspec.json.decode(await response.read(), type=MessageList)
    assert [each.offset for each in page.messages] == [0, 1]
    assert page.messages[0].message == {"a": 1}
    assert page.messages[1].data_base64 == "AP8="
    assert page.messages[1].content_type == "text/plain"
    async with sidecar.client.get(f"{sidecar.base}/messages/t/0/1") as response:
        assert msgspec.json.decode(await response.read(), type=Envelope) == page.messages[1]


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("/messages/t?limit=0", "limit"),
        ("/messages/t?limit=10001", "limit"),
        ("/messages/t?offset=-1", "offset"),
        ("/messages/t?offset=x", "offset"),
        ("/messages/t?partition=2147483648", "partition"),
        ("/messages/t?limit=1&limit=2", "twice"),
        ("/messages/t?nope=1", "nope"),
        ("/messages/a%20b", "topic"),
        ("/messages/t/x/0", "partition"),
        ("/messages/t/0/-1", "offset"),
        ("/messages/t/0/9223372036854775808", "offset"),
        ("/messages/t/0/0?x=1", "x"),
        ("/subscribe/a%20b", "topic"),
        ("/subscribe/t?form=earliest", "form"),
    ],
)
async def test_a_wrong_parameter_is_400_with_its_name(sidecar, path, names):
    async with sidecar.client.get(f"{sidecar.base}{path}") as response:
        assert response.status == 400
        assert names in (await response.json(content_type=None))["detail"]


async def test_an_event_id_names_where_to_go_on_in_every_partition(mesh, sidecar):
    mesh.log.topic("t", partitions=2, strategy="round_robin")
    for number in range(4):
        await sidecar.publish({"topic": "t", "message": number})
    url = f"{sidecar.base}/subscribe/t?from=earliest"
    async with sidecar.client.get(url) as response:
        events = await read_events(response, 3)
    async with sidecar.client.get(url, headers={"Last-Event-ID": events[-1][0]}) as response:
        rest = await read_events(response, 1)
    seen = [event["message"] for _, event in [*events, *rest]]
    assert sorted(seen) == [0, 1, 2, 3]
    assert len(set(seen)) == 4


async def test_a_reader_that_got_nothing_yet_already_knows_where_it_stands(sidecar):
    await sidecar.publish({"topic": "t", "message": 0})
    comes_back = {"Sec-Fetch-Mode": "cors"}
    url = f"{sidecar.base}/subscribe/t"
    async with sidecar.client.get(url, headers=comes_back) as response:
        assert response.headers["Cache-Control"] == "no-store"
        assert await response.content.readline() == b"retry: 1000\n"
        assert await response.content.readline() == b"event: position\n"
        assert await response.content.readline() == b"id: 0-1\n"


async def test_a_batch_of_many_is_many_events_each_with_its_own_position(mesh, sidecar):
    await asyncio.gather(*(sidecar.publish({"topic": "t", "message": n}) for n in range(30)))
    async with sidecar.client.get(f"{sidecar.base}/subscribe/t?from=earliest") as response:
        events = await read_events(response, 30)
    assert [identity for identity, _ in events] == [f"0-{n + 1}" for n in range(30)]
    assert [event["offset"] for _, event in events] == list(range(30))
    assert (await sidecar.get("/status"))[1]["delivered"] == 30


async def test_a_start_in_the_middle_of_a_batch_gives_nothing_before_it(sidecar):
    await asyncio.gather(*(sidecar.publish({"topic": "t", "message": n}) for n in range(10)))
    async with sidecar.client.get(f"{sidecar.base}/subscribe/t?from=offset:7") as response:
        events = await read_events(response, 3)
    assert [event["offset"] for _, event in events] == [7, 8, 9]


async def test_a_quiet_stream_shows_that_it_lives(sidecar):
    async with sidecar.client.get(f"{sidecar.base}/subscribe/t") as response:
        while await response.content.readline() != b": heartbeat\n":
            pass


async def test_an_offset_without_a_partition_is_refused_where_there_are_several(mesh, sidecar):
    mesh.log.topic("t", partitions=2)
    status, problem = await sidecar.get("/subscribe/t", **{"from": "offset:0"})
    assert status == 400
    assert problem["field"] == "partition"
    url = f"{sidecar.base}/subscribe/t?from=offset:0&partition=1"
    await sidecar.publish({"topic": "t", "message": 5, "key": "b"})
    await sidecar.publish({"topic": "t", "message": 6, "key": "a"})
    async with sidecar.client.get(url) as response:
        ((identity, event),) = await read_events(response, 1)
        assert (identity, event["partition"]) == ("1-1", 1)


async def test_a_denied_subscription_is_403_with_its_decision(sidecar):
    status, problem = await sidecar.get("/subscribe/forbidden.x")
    assert (status, problem["code"], problem["decision_id"]) == (403, "denied", "d1")


async def test_so_many_subscriptions_are_open_and_no_more(mesh):
    sidecar = await mesh.sidecar(limits=LimitsConfig(streams_max=1))
    async with sidecar.client.get(f"{sidecar.base}/subscribe/t") as response:
        await response.content.readline()
        status, problem = await sidecar.get("/subscribe/t")
        assert status == 429
        assert "limits.streams_max" in problem["detail"]
        assert (await sidecar.get("/status"))[1]["streams"] == 1
    while (await sidecar.get("/status"))[1]["streams"]:
        pass
    async with sidecar.client.get(f"{sidecar.base}/subscribe/t") as response:
        assert response.status == 200


async def test_a_subscription_ends_when_the_sidecar_does(mesh, sidecar):
    async with sidecar.client.get(f"{sidecar.base}/subscribe/t") as response:
        await response.content.readline()
        sidecar.assembly.service.ask_to_stop()
        # It ends as a whole answer does, not as a broken connection.
        await response.content.read()
        assert response.content.at_eof()
