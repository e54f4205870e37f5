"""A stream delivers every frame once and in order, over as many connections as it takes."""

import asyncio

import pytest

from sidecar.delivery.start import Start
from sidecar.delivery.topic_stream import Gap, TopicStream
from sidecar.errors import Denied, UplinkDown

CREDIT_BYTES = 64 * 1024


@pytest.fixture
async def sidecar(mesh):
    return await mesh.sidecar()


@pytest.fixture
async def open_stream(open_gateway):
    opened = await open_gateway()
    streams = []

    async def open_(topic="orders", origin="earliest", partitions=None, credit=CREDIT_BYTES):
        start = Start(origin, partitions)
        stream = TopicStream(opened.gateway, opened.credentials, topic, start, credit)
        streams.append(stream)
        await stream.open()
        return stream

    open_.credentials = opened.credentials
    yield open_
    for stream in streams:
        await stream.close()


async def take(events, count):
    """The next values, as (partition, offset of the first, values) a frame."""
    found = []
    async for frame in events:
        if frame is not None:
            columns = frame.columns()
            found += [int(value) for value in columns.value]
            if len(found) >= count:
                return found
    return found


async def publish(sidecar, *numbers, **fields):
    for number in numbers:
        await sidecar.publish({"topic": "orders", "message": number, **fields})


async def test_history_then_live_without_a_gap(sidecar, open_stream):
    await publish(sidecar, 0, 1)
    stream = await open_stream()
    events = stream.events()
    assert await take(events, 2) == [0, 1]
    await publish(sidecar, 2)
    assert await take(events, 1) == [2]


async def test_positions_are_known_once_it_is_open_and_follow_what_was_consumed(
    mesh, sidecar, open_stream
):
    mesh.log.topic("orders", partitions=2, strategy="round_robin")
    await publish(sidecar, 0)
    stream = await open_stream(origin="latest")
    assert stream.positions == {0: 1, 1: 0}
    events = stream.events()
    await publish(sidecar, 1)
    assert await take(events, 1) == [1]
    # A frame counts as consumed when the next one is asked for.
    assert stream.positions == {0: 1, 1: 0}
    await anext(events)
    assert stream.positions == {0: 1, 1: 1}


async def test_a_broken_connection_is_opened_again_behind_the_last_consumed_frame(
    mesh, sidecar, open_stream
):
    await publish(sidecar, 0)
    stream = await open_stream()
    events = stream.events()
    assert await take(events, 1) == [0]
    for number in range(1, 4):
        await mesh.gatekeeper.cut_streams()
        await publish(sidecar, number)
        assert await take(events, 1) == [number]


async def test_a_reader_of_what_is_new_misses_nothing_when_the_link_breaks_before_it_comes(
    mesh, sidecar, open_stream
):
    await publish(sidecar, 0)
    stream = await open_stream(origin="latest")
    await mesh.gatekeeper.cut_streams()
    await publish(sidecar, 1)
    assert await take(stream.events(), 1) == [1]


async def test_while_no_gatekeeper_is_there_it_keeps_trying_and_shows_that_it_lives(
    mesh, sidecar, open_stream
):
    await publish(sidecar, 0)
    stream = await open_stream()
    events = stream.events()
    assert await take(events, 1) == [0]
    await mesh.gatekeeper.listening.stop()
    assert await anext(events) is None
    await mesh.gatekeeper.listening.start()
    await sidecar.connected()
    await publish(sidecar, 1)
    assert await take(events, 1) == [1]


async def test_credit_is_granted_as_frames_are_consumed_so_that_it_never_stalls(
    mesh, sidecar, open_stream
):
    stream = await open_stream(credit=300)
    events = stream.events()
    await publish(sidecar, *range(10))
    assert await take(events, 10) == list(range(10))
    assert sum(mesh.gatekeeper.credits) > 0


async def test_a_fresh_token_is_handed_over_to_an_open_stream(mesh, sidecar, open_stream):
    stream = await open_stream()
    events = stream.events()
    await publish(sidecar, 0)
    await take(events, 1)
    old = open_stream.credentials.current.token
    open_stream.credentials.refused(old)
    fresh = (await open_stream.credentials.wait()).token
    assert fresh != old
    before = len(mesh.gatekeeper.tokens)
    while fresh not in mesh.gatekeeper.tokens[before:]:
        await anext(events)


async def test_a_denied_stream_is_told_at_once_with_its_decision(open_stream):
    with pytest.raises(Denied) as caught:
        await open_stream("forbidden.x")
    assert caught.value.members == {"decision_id": "d1"}


async def test_where_no_gatekeeper_is_there_the_first_open_says_so(mesh, open_stream):
    await mesh.gatekeeper.listening.stop()
    with pytest.raises(UplinkDown) as caught:
        await open_stream()
    assert caught.value.headers == {"Retry-After": "1"}


async def test_a_closed_stream_lets_the_gatekeeper_go(mesh, open_stream):
    stream = await open_stream()
    await stream.close()
    await stream.close()
    while mesh.gatekeeper._sockets:  # noqa: ASYNC110 - the fake's own state
        await asyncio.sleep(0.005)


async def test_a_gap_is_passed_on_and_reading_goes_on_behind_it(mesh, sidecar, open_stream):
    await publish(sidecar, 0)
    stream = await open_stream()
    events = stream.events()
    assert await take(events, 1) == [0]
    await mesh.gatekeeper.say(
        type="gap", partition=0, first_offset=1, next_offset=25, code="damaged", detail="rot"
    )
    gap = await anext(events)
    assert gap == Gap(0, 1, 25, "damaged", "rot")
    assert stream.positions == {0: 25}
