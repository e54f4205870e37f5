"""A durable stream acknowledges what was handed over, or bounds what its app has in hand."""

import asyncio

import pytest

from sidecar.counters import Counters
from sidecar.delivery.member import MemberSession, Membership
from sidecar.delivery.shared_reader import UNBOUNDED, SharedReader
from sidecar.delivery.topic_reader import Parcel
from sidecar.uplink.backoff import Backoff

CREATE = {"topic": "orders", "from": "earliest"}


@pytest.fixture
async def sidecar(mesh):
    return await mesh.sidecar()


@pytest.fixture
async def join(mesh, open_gateway):
    opened = await open_gateway()
    readers = []

    async def join_(in_flight_max=None, create=CREATE):
        session = MemberSession(
            opened.gateway,
            opened.credentials,
            Membership("mailer", "m", create=create),
            65536,
            Backoff(0.01, 0.01),
        )
        reader = SharedReader(session, Counters(), in_flight_max)
        readers.append(reader)
        await session.open()
        reader.fake = mesh.gatekeeper.subscriptions["mailer"]
        return reader

    yield join_
    for reader in readers:
        await reader.session.close()


async def publish(sidecar, *numbers):
    for number in numbers:
        await sidecar.publish({"topic": "orders", "message": number})


async def next_parcel(events):
    while True:
        event = await anext(events)
        if isinstance(event, Parcel):
            return event


async def test_what_was_handed_over_is_acknowledged(sidecar, join):
    await publish(sidecar, 0)
    reader = await join()
    parcel = await next_parcel(reader.events())
    assert await reader.room(parcel) == UNBOUNDED
    reader.done(parcel, parcel.offsets)
    await reader.session.flush()
    assert reader.fake.low == {0: 1}
    assert reader.in_flight == 0


async def test_an_app_that_settles_by_itself_has_only_so_much_in_hand(sidecar, join):
    await publish(sidecar, *range(4))
    reader = await join(2)
    events = reader.events()
    for _ in range(2):
        parcel = await next_parcel(events)
        reader.done(parcel, parcel.offsets)
    assert reader.in_flight == 2
    waiting = asyncio.create_task(reader.room(parcel))
    await asyncio.sleep(0)
    assert not waiting.done()
    assert reader.ack(0, [(0, 0)]) == 1
    assert await waiting == 1
    assert reader.ack(0, [(0, 0)]) == 0
    assert reader.ack(1, [(1, 1)]) == 0
    await reader.session.flush()
    assert reader.fake.low == {0: 1}
    assert reader.positions == {0: 1}


async def test_what_the_app_gives_back_comes_again(sidecar, join):
    await publish(sidecar, 0)
    reader = await join(10)
    events = reader.events()
    parcel = await next_parcel(events)
    reader.done(parcel, parcel.offsets)
    assert reader.nack(0, [0, 5], 100) == [0]
    again = await next_parcel(events)
    assert (list(again.offsets), again.attempts) == ([0], {0: 1})
    assert reader.in_flight == 0
    assert reader._counters.redelivered_messages == 1


async def test_what_the_log_counts_as_done_is_in_nobodys_hands(sidecar, join):
    await publish(sidecar, 0, 1, 2)
    reader = await join(3)
    events = reader.events()
    for _ in range(3):
        parcel = await next_parcel(events)
        reader.done(parcel, parcel.offsets)
    await reader.fake.say(type="acked", partition=0, low=1, ranges=[[2, 2]])
    while reader.in_flight > 1:
        await anext(events)
    assert reader.ack(0, [(0, 2)]) == 1


async def test_what_is_lost_is_in_nobodys_hands(mesh, sidecar, join):
    await publish(sidecar, 0)
    reader = await join(1)
    events = reader.events()
    parcel = await next_parcel(events)
    reader.done(parcel, parcel.offsets)
    await mesh.gatekeeper.cut_streams()
    again = await next_parcel(events)
    assert list(again.offsets) == [0]
    assert reader.in_flight == 0
    assert await reader.room(again) == 1
    assert await reader.room(parcel) == 0


async def test_whoever_waits_for_room_is_told_when_the_partition_is_taken_away(sidecar, join):
    await publish(sidecar, 0, 1)
    reader = await join(1)
    events = reader.events()
    first = await next_parcel(events)
    reader.done(first, first.offsets)
    second = await next_parcel(events)
    waiting = asyncio.create_task(reader.room(second))
    await reader.fake.say(type="revoke", partition=0, generation=1)
    assert await waiting == 0
    reader.gave_up(second, second.offsets)
    assert reader.ack(0, [(0, 0)]) == 1
    while not any(said["type"] == "released" for said in reader.fake.said):  # noqa: ASYNC110
        await asyncio.sleep(0.005)


async def test_what_a_filter_holds_back_is_done(sidecar, join):
    await publish(sidecar, 0)
    reader = await join(1)
    parcel = await next_parcel(reader.events())
    reader.skipped(parcel, parcel.offsets)
    await reader.session.flush()
    assert reader.fake.low == {0: 1}
