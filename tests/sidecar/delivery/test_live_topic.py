"""One stream serves all readers that have caught up, and ends with the last of them."""

import asyncio

import pytest

from sidecar.delivery.live_topic import LiveTopics
from sidecar.delivery.start import Start
from sidecar.delivery.topic_stream import Gap, TopicStream
from sidecar.errors import UnknownTopic


@pytest.fixture
async def live(open_gateway):
    opened = await open_gateway()
    stream = TopicStream(
        opened.gateway, opened.credentials, "orders", Start("earliest", None), 65536
    )
    await stream.open()
    topics = LiveTopics({})
    live = topics.adopt(stream)
    live.topics = topics
    topics.join(live)
    yield live
    if live.readers:
        await topics.leave(live)


async def test_what_comes_is_kept_for_everybody(mesh, live):
    sidecar = await mesh.sidecar()
    await sidecar.publish({"topic": "orders", "message": 1})
    while live.recent.end == 0:
        await live.changed()
    entry = live.recent.at(0)
    assert (entry.partition, entry.first, entry.next_offset) == (0, 0, 1)
    assert list(entry.item.columns().value) == [b"1"]
    assert live.topic == "orders"


async def test_gaps_are_kept_and_heartbeats_counted(mesh, live):
    await mesh.gatekeeper.say(
        type="gap", partition=0, first_offset=0, next_offset=9, code="damaged", detail="rot"
    )
    while live.recent.end == 0 or live.beats == 0:
        await live.changed()
    assert live.recent.at(0).item == Gap(0, 0, 9, "damaged", "rot")


async def test_new_partitions_begin_where_the_log_says(mesh, live):
    await mesh.gatekeeper.say(
        type="partitions", topic="orders", partitions=[{"partition": 1, "offset": 4}]
    )
    while 1 not in live.recent.begins:
        await live.changed()
    assert live.recent.begins == {0: 0, 1: 4}


async def test_an_end_for_good_is_everybodys_and_nobody_joins_any_more(mesh, live):
    await mesh.gatekeeper.say(type="end", code="topic_deleted", detail="gone")
    while live.error is None:
        await live.changed()
    assert isinstance(live.error, UnknownTopic)
    assert live.topics.get("orders") is None


async def test_the_last_reader_closes_it(mesh, live):
    topics = live.topics
    topics.join(live)
    await topics.leave(live)
    assert topics.get("orders") is live
    await topics.leave(live)
    assert topics.get("orders") is None
    while mesh.gatekeeper._sockets:  # noqa: ASYNC110 - the fake's own state
        await asyncio.sleep(0.005)
