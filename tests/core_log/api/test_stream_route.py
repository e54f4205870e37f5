"""`/v1/stream`: the WebSocket, from its handshake to its end."""

import asyncio
from typing import Any

import orjson
import pytest
from aiohttp import WSMsgType, WSServerHandshakeError

from core_log.config import LimitsConfig


async def opened(core: Any, **message: Any) -> Any:
    socket = await core.open_stream(**message)
    first = await socket.receive_json()
    assert first["type"] == "opened", first
    return socket


@pytest.fixture
async def orders(start_core: Any) -> Any:
    core = await start_core()
    await core.call("POST", "/v1/topics", json={"name": "orders"})
    return core


async def ended(socket: Any) -> tuple[str, int]:
    """The code of the `end` message, and the WebSocket's close code."""
    while True:
        message = await socket.receive()
        if message.type is WSMsgType.TEXT and (end := orjson.loads(message.data))["type"] == "end":
            assert end["detail"]
            closing = await socket.receive()
            assert closing.type is WSMsgType.CLOSE
            return end["code"], closing.data
        assert message.type in (WSMsgType.TEXT, WSMsgType.BINARY), message


async def test_replay_and_live_messages_arrive_in_order(orders: Any, frames: Any) -> None:
    await orders.append(*(frames.encoded("orders", [b"%d" % n]) for n in range(10)))
    socket = await opened(orders, topic="orders", **{"from": "earliest"}, credit_bytes=10**6)
    await orders.append(*(frames.encoded("orders", [b"%d" % n]) for n in range(10, 20)))
    got = [await socket.receive_bytes() for _ in range(20)]
    assert frames.values(b"".join(got)) == [b"%d" % n for n in range(20)]
    await socket.close()


async def test_publishing_during_replay_over_the_wire_loses_and_repeats_nothing(
    orders: Any, frames: Any
) -> None:
    for start in range(0, 500, 50):
        await orders.append(
            *(frames.encoded("orders", [b"%06d" % n]) for n in range(start, start + 50))
        )
    sockets = [
        await opened(orders, topic="orders", **{"from": "earliest"}, credit_bytes=50_000)
        for _ in range(3)
    ]

    async def publish() -> None:
        for start in range(500, 1000, 10):
            await orders.append(
                *(frames.encoded("orders", [b"%06d" % n]) for n in range(start, start + 10))
            )

    async def read(socket: Any) -> list[bytes]:
        got: list[bytes] = []
        while len(got) < 1000:
            message = await socket.receive()
            if message.type is WSMsgType.BINARY:
                got.append(message.data)
                if len(got) % 20 == 0:
                    credit = sum(map(len, got[-20:]))
                    await socket.send_json({"type": "credit", "bytes": credit})
        return got

    _, *all_got = await asyncio.gather(publish(), *(read(socket) for socket in sockets))
    for got in all_got:
        assert frames.values(b"".join(got)) == [b"%06d" % n for n in range(1000)]
    for socket in sockets:
        await socket.close()


async def test_nothing_is_sent_without_credit(orders: Any, frames: Any) -> None:
    socket = await opened(orders, topic="orders", credit_bytes=0)
    await orders.append(frames.encoded("orders", [b"x"]))
    with pytest.raises(TimeoutError):
        await socket.receive(timeout=0.05)
    await socket.send_json({"type": "token", "token": "not for the core"})
    await socket.send_json({"type": "credit", "bytes": 1})
    assert frames.values(await socket.receive_bytes()) == [b"x"]
    await socket.close()


async def test_memory_topics_are_broadcast_to_who_listens(orders: Any, frames: Any) -> None:
    await orders.call("POST", "/v1/topics", json={"name": "live", "storage": "memory"})
    socket = await opened(orders, topic="live", credit_bytes=10**6)
    await orders.append(frames.encoded("live", [b"now"]))
    assert frames.values(await socket.receive_bytes()) == [b"now"]
    await socket.close()


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ({"type": "open", "topic": "nothing"}, "unknown_topic"),
        ({"type": "open", "topic": "orders", "partitions": [5]}, "unknown_partition"),
        ({"type": "open"}, "bad_message"),
        ({"type": "open", "topic": "a b"}, "bad_message"),
        ({"type": "credit", "bytes": 5}, "bad_message"),
        ({"type": "dance"}, "bad_message"),
        ([1], "bad_message"),
    ],
)
async def test_a_bad_beginning_ends_with_the_reason(
    orders: Any, message: object, code: str
) -> None:
    socket = await orders.session.ws_connect(f"{orders.url}/v1/stream")
    await socket.send_json(message)
    assert (await ended(socket))[0] == code


@pytest.mark.parametrize(
    "second", [b"binary", '{"type":"open","topic":"orders"}', "{", "x" * 70_000]
)
async def test_a_bad_message_later_ends_the_stream(orders: Any, second: str | bytes) -> None:
    socket = await opened(orders, topic="orders", credit_bytes=1)
    if isinstance(second, bytes):
        await socket.send_bytes(second)
    else:
        await socket.send_str(second)
    if len(second) > 65536:
        assert (await socket.receive()).data == 1009
    else:
        assert await ended(socket) == ("bad_message", 1008)


async def test_a_stream_ends_when_its_topic_is_deleted(orders: Any) -> None:
    socket = await opened(orders, topic="orders", credit_bytes=1)
    await orders.call("DELETE", "/v1/topics/orders")
    assert await ended(socket) == ("topic_deleted", 1000)


async def test_a_stream_follows_its_topics_new_partitions(orders: Any, frames: Any) -> None:
    socket = await opened(orders, topic="orders", credit_bytes=10**6)
    await orders.call("PATCH", "/v1/topics/orders", json={"partitions": 2})
    added = await socket.receive_json()
    assert (added["type"], added["partitions"][0]["partition"]) == ("partitions", 1)
    await orders.append(frames.encoded("orders", [b"x"], partition=1))
    assert frames.values(await socket.receive_bytes()) == [b"x"]
    await socket.close()


async def test_streams_end_when_the_core_stops_and_it_stops_in_time(orders: Any) -> None:
    sockets = [await opened(orders, topic="orders", credit_bytes=1) for _ in range(3)]
    stopping = asyncio.ensure_future(orders.stop())
    for socket in sockets:
        assert await ended(socket) == ("draining", 1001)
    assert await stopping == 0


async def test_a_stream_may_make_its_topic_where_that_is_configured(start_core: Any) -> None:
    core = await start_core(auto_create_topics=True)
    socket = await opened(core, topic="fresh", credit_bytes=1)
    await socket.close()
    assert (await core.call("GET", "/v1/topics/fresh"))[0] == 200


async def test_the_number_of_streams_is_limited_and_places_become_free(start_core: Any) -> None:
    core = await start_core(limits=LimitsConfig(streams_max=1), auto_create_topics=True)
    first = await opened(core, topic="orders", credit_bytes=1)
    with pytest.raises(WSServerHandshakeError) as caught:
        await core.open_stream(topic="orders")
    assert caught.value.status == 503
    await first.close()
    async with asyncio.timeout(60):
        while True:
            try:
                again = await opened(core, topic="orders", credit_bytes=1)
                break
            except WSServerHandshakeError:
                await asyncio.sleep(0.01)
    await again.close()


async def test_a_stalled_socket_holds_up_neither_appends_nor_other_readers(
    orders: Any, frames: Any
) -> None:
    stalled = await opened(orders, topic="orders", credit_bytes=10**9)
    lively = await opened(orders, topic="orders", credit_bytes=10**9)
    # The stalled reader's client buffers a little, then its socket is full.
    for _ in range(60):
        await orders.append(frames.encoded("orders", [b"x" * 200_000]))
        await lively.receive_bytes()
    buffered = orders.core.storage.disk.status().in_flight_bytes
    assert buffered == 0
    got = [await stalled.receive_bytes() for _ in range(60)]
    assert [frames.offset(frame) for frame in got] == list(range(60))
    await stalled.close()
    await lively.close()


async def test_a_plain_request_is_no_stream(orders: Any) -> None:
    status, problem, _ = await orders.call("GET", "/v1/stream")
    assert (status, problem["code"]) == (400, "bad_request")
