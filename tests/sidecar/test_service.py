"""The sidecar as an app sees it, against a gatekeeper and an issuer that are bytes only."""

import asyncio
import json
import stat

import aiohttp

from hosting.units import Address


async def test_a_published_message_is_committed_and_answers_where_it_is(mesh):
    sidecar = await mesh.sidecar()
    status, answer = await sidecar.publish({"topic": "orders", "message": {"order_id": 101}})
    assert status == 200
    assert answer["topic"] == "orders"
    assert (answer["partition"], answer["offset"]) == (0, 0)
    assert answer["durability"] == "committed"
    assert answer["id"].endswith("-0")
    assert mesh.log.values("orders") == [b'{"order_id": 101}']


async def test_messages_are_read_back_in_pages_and_past_the_end_is_empty(mesh):
    sidecar = await mesh.sidecar()
    for number in range(5):
        await sidecar.publish({"topic": "orders", "message": number, "key": "k"})
    status, page = await sidecar.get("/messages/orders", offset=1, limit=3)
    assert status == 200
    assert [each["message"] for each in page["messages"]] == [1, 2, 3]
    assert page["next_offset"] == 4
    first = page["messages"][0]
    assert first["offset"] == 1
    assert first["key"] == "k"
    assert first["principal"] == "app"
    assert first["headers"] == {}
    assert (await sidecar.get("/messages/orders", offset=99))[1] == {
        "messages": [],
        "next_offset": 99,
    }


async def test_sse_delivers_history_then_live_and_resumes_behind_the_last_event_id(mesh):
    sidecar = await mesh.sidecar()
    await sidecar.publish({"topic": "orders", "message": 0})
    url = f"{sidecar.base}/subscribe/orders"
    async with sidecar.client.get(url, params={"from": "earliest"}) as response:
        assert response.content_type == "text/event-stream"
        await sidecar.publish({"topic": "orders", "message": 1})
        events = await read_events(response, 2)
    assert [json.loads(data)["message"] for _, data in events] == [0, 1]
    await sidecar.publish({"topic": "orders", "message": 2})
    headers = {"Last-Event-ID": events[0][0]}
    async with sidecar.client.get(url, headers=headers) as response:
        again = await read_events(response, 2)
    assert [json.loads(data)["message"] for _, data in again] == [1, 2]


async def test_a_stream_goes_on_exactly_where_it_was_when_the_uplink_breaks(mesh):
    sidecar = await mesh.sidecar()
    async with sidecar.client.get(f"{sidecar.base}/subscribe/orders") as response:
        await sidecar.publish({"topic": "orders", "message": 0})
        assert len(await read_events(response, 1)) == 1
        await mesh.gatekeeper.cut_streams()
        await sidecar.publish({"topic": "orders", "message": 1})
        await sidecar.publish({"topic": "orders", "message": 2})
        events = await read_events(response, 2)
    assert [json.loads(data)["message"] for _, data in events] == [1, 2]


async def test_a_denial_is_403_with_its_decision_id_and_the_next_message_goes_through(mesh):
    sidecar = await mesh.sidecar()
    status, answer = await sidecar.publish({"topic": "forbidden.x", "message": 1})
    assert status == 403
    assert answer["decision_id"] == "d-17"
    assert answer["code"] == "denied"
    document = (await sidecar.get("/status"))[1]
    assert document["denied"] == 1
    assert document["last_denial"]["topic"] == "forbidden.x"
    assert (await sidecar.publish({"topic": "orders", "message": 1}))[0] == 200


async def test_an_answer_that_was_lost_is_found_again_and_nothing_is_doubled(mesh):
    sidecar = await mesh.sidecar()
    await sidecar.publish({"topic": "orders", "message": 0})
    mesh.gatekeeper.failures += ["drop", "lose"]
    status, answer = await sidecar.publish({"topic": "orders", "message": 1}, ack="core")
    assert status == 200
    assert answer["offset"] == 1
    assert mesh.log.values("orders") == [b"0", b"1"]


async def test_while_the_uplink_is_down_ack_core_is_503_at_once_and_never_sent(mesh):
    sidecar = await mesh.sidecar()
    await mesh.gatekeeper.listening.stop()
    await sidecar.down()
    status, answer = await sidecar.publish({"topic": "orders", "message": 1}, ack="core")
    assert status == 503
    assert answer["code"] == "uplink_down"
    await mesh.gatekeeper.listening.start()
    await sidecar.connected()
    assert (await sidecar.publish({"topic": "orders", "message": 2}, ack="core"))[0] == 200
    assert mesh.log.values("orders") == [b"2"]


async def test_no_answer_in_time_is_504_and_keeps_its_place_before_the_next_message(mesh):
    sidecar = await mesh.sidecar()
    await sidecar.publish({"topic": "orders", "message": 0})
    mesh.gatekeeper.hang = asyncio.Event()
    status, answer = await sidecar.publish(
        {"topic": "orders", "message": 1}, ack="core", timeout_ms=50
    )
    assert (status, answer["code"]) == (504, "in_doubt")
    later = asyncio.create_task(sidecar.publish({"topic": "orders", "message": 2}, ack="core"))
    mesh.gatekeeper.hang.set()
    assert (await later)[0] == 200
    assert mesh.log.values("orders") == [b"0", b"1", b"2"]


async def read_events(response, count):
    """The next events as (id, data)."""
    events, identity = [], ""
    while len(events) < count:
        line = (await response.content.readline()).decode().rstrip("\n")
        if line.startswith("id: "):
            identity = line[4:]
        elif line.startswith("data: "):
            events.append((identity, line[6:]))
    return events


async def test_a_unix_socket_serves_everything_and_is_for_its_owner_only(mesh, tmp_path):
    path = tmp_path / "run" / "sidecar.sock"
    sidecar = await mesh.sidecar(listen=Address(path=path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(path))) as client:
        # The fast way in, and aiohttp's.
        for headers in ({}, {"Expect": "100-continue"}):
            body = b'{"topic":"t","message":1}'
            url = "http://localhost/publish?ack=core"
            async with client.post(url, data=body, headers=headers) as response:
                assert (response.status, (await response.json())["durability"]) == (
                    200,
                    "committed",
                )
        async with client.ws_connect("http://localhost/publish/t/stream") as socket:
            await socket.send_str("2")
            assert json.loads((await socket.receive()).data)["offset"] == 2
        async with client.get("http://localhost/subscribe/t?from=earliest") as response:
            assert len(await read_events(response, 3)) == 3
        async with client.get("http://evil.example/status") as response:
            assert response.status == 403
    await sidecar.client.close()
    assert mesh.log.values("t") == [b"1", b"1", b"2"]
