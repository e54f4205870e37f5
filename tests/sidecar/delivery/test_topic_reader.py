"""A reader gets each message once, in order, however it comes by it."""

import asyncio

import pytest

from sidecar.delivery.live_topic import LiveTopics
from sidecar.delivery.start import Start
from sidecar.delivery.topic_reader import Parcel, TopicReader
from sidecar.delivery.topic_stream import Gap, TopicStream
from sidecar.errors import UnknownTopic


@pytest.fixture
async def sidecar(mesh):
    return await mesh.sidecar()


@pytest.fixture
async def read(mesh, open_gateway):
    opened = await open_gateway()
    topics = LiveTopics({})
    readers = []

    def open_stream(topic, start):
        return TopicStream(opened.gateway, opened.credentials, topic, start, 64 * 1024)

    async def read_(origin="latest", partitions=None, topic="orders"):
        reader = TopicReader(open_stream, topics, topic, Start(origin, partitions))
        readers.append(reader)
        await reader.open()
        return reader

    read_.topics = topics
    yield read_
    for reader in readers:
        await reader.close()


async def publish(sidecar, *numbers, **fields):
    for number in numbers:
        await sidecar.publish({"topic": "orders", "message": number, **fields})


async def take(events, count):
    found = []
    while len(found) < count:
        event = await anext(events)
        if isinstance(event, Parcel):
            base = event.frame.envelope.stamp.base_offset
            values = list(event.frame.columns().value)
            found += [int(values[offset - base]) for offset in event.offsets]
    return found


def streams(mesh):
    return len(mesh.gatekeeper._sockets)


async def until(what):
    while not what():  # noqa: ASYNC110 - the fake's own state
        await asyncio.sleep(0.005)


async def test_many_readers_of_what_is_new_share_one_stream(mesh, sidecar, read):
    readers = [await read() for _ in range(5)]
    await until(lambda: streams(mesh) == 1)
    await publish(sidecar, 0, 1)
    for reader in readers:
        assert await take(reader.events(), 2) == [0, 1]
    assert read.topics.get("orders").readers == 5


async def test_history_then_live_over_the_shared_stream_without_a_gap(mesh, sidecar, read):
    await publish(sidecar, *range(4))
    first, second = await read("earliest"), await read()
    events = first.events()
    assert await take(events, 4) == [0, 1, 2, 3]
    await publish(sidecar, 4)
    assert await take(events, 1) == [4]
    assert await take(second.events(), 1) == [4]
    await publish(sidecar, 5)
    assert await take(events, 1) == [5]
    await until(lambda: streams(mesh) == 1)


async def test_messages_that_come_while_history_is_read_come_once_and_after_it(mesh, sidecar, read):
    await publish(sidecar, *range(3))
    live = await read()
    events = (await read("earliest")).events()
    found = await take(events, 1)
    await publish(sidecar, 3, 4)
    found += await take(events, 2)
    await publish(sidecar, 5)
    found += await take(events, 3)
    assert found == [0, 1, 2, 3, 4, 5]
    assert await take(live.events(), 3) == [3, 4, 5]


async def test_who_falls_behind_reads_the_log_and_misses_nothing(mesh, sidecar, read):
    slow, quick = await read(), await read()
    live = read.topics.get("orders")
    live.recent._bytes_max = 600
    slow_events, quick_events = slow.events(), quick.events()
    await publish(sidecar, 0)
    assert await take(slow_events, 1) == [0]
    await publish(sidecar, *range(1, 20))
    assert await take(quick_events, 20) == list(range(20))
    assert live.recent.start > 10
    assert await take(slow_events, 19) == list(range(1, 20))
    await publish(sidecar, 20)
    assert await take(slow_events, 1) == [20]
    assert await take(quick_events, 1) == [20]


async def test_only_the_wanted_partitions_are_read(mesh, sidecar, read):
    mesh.log.topic("orders", partitions=2, strategy="round_robin")
    everything = await read()
    only = await read(partitions=(1,))
    await publish(sidecar, 0, 1, 2, 3)
    assert sorted(await take(everything.events(), 4)) == [0, 1, 2, 3]
    assert len(await take(only.events(), 2)) == 2
    assert set(only.positions) == {1}


async def test_a_lone_reader_of_one_partition_keeps_its_own_stream(mesh, sidecar, read):
    reader = await read(partitions=(0,))
    assert read.topics.get("orders") is None
    await publish(sidecar, 7)
    assert await take(reader.events(), 1) == [7]


async def test_when_the_link_breaks_all_of_them_go_on_where_they_were(mesh, sidecar, read):
    readers = [(await read()).events() for _ in range(3)]
    await publish(sidecar, 0)
    for events in readers:
        assert await take(events, 1) == [0]
    for number in range(1, 4):
        await mesh.gatekeeper.cut_streams()
        await publish(sidecar, number)
        for events in readers:
            assert await take(events, 1) == [number]


async def test_a_seek_goes_back_and_then_on(mesh, sidecar, read):
    await publish(sidecar, 0, 1)
    reader, other = await read(), await read()
    await reader.seek(Start("earliest", None))
    assert reader.positions == {0: 0}
    assert await take(reader.events(), 2) == [0, 1]
    await publish(sidecar, 2)
    assert await take(reader.events(), 1) == [2]
    assert await take(other.events(), 1) == [2]


async def test_gaps_and_heartbeats_reach_everybody(mesh, sidecar, read):
    readers = [(await read()).events() for _ in range(2)]
    await mesh.gatekeeper.say(
        type="gap", partition=0, first_offset=0, next_offset=9, code="damaged", detail="rot"
    )
    for events in readers:
        seen = {type(await anext(events)) for _ in range(3)}
        assert seen == {Gap, type(None)}


async def test_an_end_for_good_ends_everybody(mesh, sidecar, read):
    readers = [(await read()).events() for _ in range(2)]
    await mesh.gatekeeper.say(type="end", code="topic_deleted", detail="gone")
    for events in readers:
        with pytest.raises(UnknownTopic, match="gone"):
            await take(events, 1)


async def test_the_last_to_close_gives_the_stream_back(mesh, sidecar, read):
    readers = [await read() for _ in range(3)]
    for reader in readers:
        await reader.close()
        await reader.close()
    await until(lambda: streams(mesh) == 0)
    assert read.topics.topics == {}
