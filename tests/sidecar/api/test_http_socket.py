"""A subscriber's WebSocket delivers, and does what its app says about the messages."""

import asyncio
import contextlib
import json

import aiohttp
import pytest


@pytest.fixture
async def sidecar(mesh):
    return await mesh.sidecar()


async def publish(sidecar, *numbers, topic="orders", **fields):
    for number in numbers:
        status, _ = await sidecar.publish({"topic": topic, "message": number, **fields})
        assert status == 200


def connect(sidecar, topic="orders", **query):
    return sidecar.client.ws_connect(f"{sidecar.base}/subscribe/{topic}", params=query)


async def take(socket, count):
    return [await socket.receive_json(timeout=60) for _ in range(count)]


def messages(envelopes):
    return [each["message"] for each in envelopes]


async def until(what):
    while not what():  # noqa: ASYNC110 - the fake's own state
        await asyncio.sleep(0.005)


async def test_history_then_live(sidecar):
    await publish(sidecar, 0, 1)
    async with connect(sidecar, **{"from": "earliest"}) as socket:
        assert messages(await take(socket, 2)) == [0, 1]
        await publish(sidecar, 2)
        (envelope,) = await take(socket, 1)
        assert (envelope["offset"], envelope["message"]) == (2, 2)


async def test_messages_of_every_length_arrive_whole(sidecar):
    lengths = [0, 1, 50, 125, 126, 127, 1000, 65000, 65536, 70000, 100000]
    await publish(sidecar, *["é" * length for length in lengths])
    async with connect(sidecar, **{"from": "earliest"}) as socket:
        assert [len(each) for each in messages(await take(socket, len(lengths)))] == lengths


async def test_what_is_acknowledged_does_not_come_again_and_what_is_given_back_does(mesh, sidecar):
    await publish(sidecar, 0, 1, 2)
    query = {"subscription": "m", "from": "earliest", "ack": "manual"}
    async with connect(sidecar, **query) as socket:
        assert messages(await take(socket, 3)) == [0, 1, 2]
        await socket.send_json({"type": "ack", "partition": 0, "ranges": [[0, 1]]})
        await socket.send_json({"type": "nack", "partition": 0, "offset": 2, "delay_ms": 0})
        (again,) = await take(socket, 1)
        assert (again["message"], again["attempt"]) == (2, 2)
        await socket.send_json({"type": "ack", "offset": 2})
        await until(lambda: mesh.gatekeeper.subscriptions["m"].low == {0: 3})


async def test_no_more_is_in_flight_than_the_app_asked_for(sidecar):
    await publish(sidecar, 0, 1, 2)
    query = {"subscription": "m", "from": "earliest", "ack": "manual", "max_in_flight": 1}
    async with connect(sidecar, **query) as socket:
        for number in range(3):
            assert messages(await take(socket, 1)) == [number]
            with contextlib.suppress(TimeoutError):
                pytest.fail(f"one more: {await socket.receive(timeout=0.05)}")
            await socket.send_json({"type": "ack", "offset": number})


async def test_what_was_handed_over_is_acknowledged_by_itself(mesh, sidecar):
    await publish(sidecar, 0)
    async with connect(sidecar, subscription="m", **{"from": "earliest"}) as socket:
        await take(socket, 1)
        await until(lambda: mesh.gatekeeper.subscriptions["m"].low == {0: 1})
        await socket.send_json({"type": "ack", "offset": 0})
        (answer,) = await take(socket, 1)
        assert (answer["type"], answer["field"]) == ("error", "type")


async def test_a_client_that_goes_in_the_middle_leaves_its_messages_to_others(mesh, sidecar):
    await publish(sidecar, 0, 1)
    query = {"subscription": "m", "from": "earliest", "ack": "manual"}
    async with connect(sidecar, **query) as socket:
        assert messages(await take(socket, 2)) == [0, 1]
        await socket.send_json({"type": "ack", "offset": 0})
        socket._response.connection.transport.abort()
    await until(lambda: mesh.gatekeeper.subscriptions["m"].low == {0: 1})
    await until(lambda: not mesh.gatekeeper.subscriptions["m"].members)
    async with connect(sidecar, **query) as socket:
        (again,) = await take(socket, 1)
        assert (again["message"], again["attempt"]) == (1, 2)


async def test_a_seek_goes_back_and_a_pause_holds_everything(sidecar):
    await publish(sidecar, 0, 1)
    async with connect(sidecar) as socket:
        await socket.send_json({"type": "seek", "to": "earliest"})
        assert messages(await take(socket, 2)) == [0, 1]
        await socket.send_json({"type": "pause"})
        await socket.send_json({"type": "nope"})
        await take(socket, 1)
        await publish(sidecar, 2)
        with pytest.raises(TimeoutError):
            await socket.receive(timeout=0.1)
        await socket.send_json({"type": "seek", "to": "offset:1"})
        await socket.send_json({"type": "resume"})
        assert messages(await take(socket, 2)) == [1, 2]


async def test_a_seek_of_a_named_subscription_moves_it_for_all(mesh, sidecar):
    await publish(sidecar, 0, 1)
    async with connect(sidecar, subscription="m") as socket:
        await socket.send_json({"type": "seek", "to": "offset:1"})
        assert messages(await take(socket, 1)) == [1]
        assert ("POST", "/v1/subscriptions/m/seek") in mesh.gatekeeper.requests
        del mesh.gatekeeper.subscriptions["m"]
        await socket.send_json({"type": "seek", "to": "earliest"})
        (answer,) = await take(socket, 1)
        assert (answer["type"], answer["detail"]) == ("error", "404 unknown_subscription: no m")


@pytest.mark.parametrize(
    ("frame", "field"),
    [
        ("{", "frame"),
        ('{"type":"nope"}', "type"),
        ('{"type":"ack","offset":"x"}', "offset"),
        ('{"type":"seek","to":"nowhere"}', "to"),
        ('{"type":"ack","offset":0}', "type"),
    ],
)
async def test_a_bad_frame_is_answered_with_the_field_and_the_socket_stays(sidecar, frame, field):
    async with connect(sidecar) as socket:
        await socket.send_str(frame)
        (answer,) = await take(socket, 1)
        assert (answer["type"], answer["status"], answer["field"]) == ("error", 400, field)
        await publish(sidecar, 1)
        assert messages(await take(socket, 1)) == [1]


async def test_an_acknowledgement_of_what_is_not_in_hand_says_so(sidecar):
    async with connect(sidecar, subscription="m", ack="manual") as socket:
        await socket.send_json({"type": "ack", "offset": 17})
        (answer,) = await take(socket, 1)
        assert answer["field"] == "offset"
        assert "in hand" in answer["detail"]


async def test_refusals_come_before_the_upgrade(sidecar):
    for topic, query, status in (("forbidden.x", {}, 403), ("orders", {"filter": "("}, 400)):
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await connect(sidecar, topic, **query)
        assert caught.value.status == status


async def test_an_end_says_why_before_it_closes(mesh, sidecar):
    async with connect(sidecar) as socket:
        await mesh.gatekeeper.say(type="end", code="topic_deleted", detail="gone")
        (last,) = await take(socket, 1)
        assert (last["type"], last["code"], last["detail"]) == ("end", "unknown_topic", "gone")
        await socket.receive()
        assert socket.close_code == 1011


async def test_a_sidecar_that_goes_says_so(sidecar):
    async with connect(sidecar) as socket:
        sidecar.assembly.service.ask_to_stop()
        await socket.receive()
        assert socket.close_code == 1001


async def test_a_gap_is_told(mesh, sidecar):
    async with connect(sidecar) as socket:
        await mesh.gatekeeper.say(
            type="gap", partition=0, first_offset=0, next_offset=5, code="expired", detail="old"
        )
        (gap,) = await take(socket, 1)
        assert gap == {
            "type": "gap", "partition": 0, "first_offset": 0, "next_offset": 5,
            "code": "expired", "detail": "old",
        }  # fmt: skip


async def test_an_echo_gives_back_what_was_sent_as_it_was_sent(sidecar):
    async with connect(sidecar, echo="true") as socket:
        for text in ("hello", "", '{"a": 1}', "é" * 70_000):
            await socket.send_str(text)
            assert (await socket.receive(timeout=60)).data == text
        for data in (b"\x00\xff", b"", b"text"):
            await socket.send_bytes(data)
            message = await socket.receive(timeout=60)
            assert (message.type, message.data) == (aiohttp.WSMsgType.BINARY, data)
    _, page = await sidecar.get("/messages/orders")
    assert len(page["messages"]) == 7


async def test_an_echo_that_may_not_publish_is_refused(sidecar):
    with pytest.raises(aiohttp.WSServerHandshakeError):
        await connect(sidecar, "_audit", echo="true")


async def test_frames_beyond_the_limit_close_the_socket(sidecar):
    async with connect(sidecar) as socket:
        await socket.send_str(json.dumps({"type": "ack", "offsets": [0] * 200_000}))
        await socket.receive()
        assert socket.close_code == 1009
