"""The publish WebSocket: a frame is a message, answers come in order."""

import asyncio
import json

import pytest


@pytest.fixture
async def sidecar(mesh):
    return await mesh.sidecar()


async def test_each_frame_is_a_message_and_is_answered_in_order(mesh, sidecar):
    async with sidecar.client.ws_connect(f"{sidecar.base}/publish/t/stream?ack=core") as socket:
        for number in range(500):
            await socket.send_str(json.dumps({"n": number}))
        answers = [json.loads((await socket.receive()).data) for _ in range(500)]
    assert [each["offset"] for each in answers] == list(range(500))
    assert {each["durability"] for each in answers} == {"committed"}
    assert [json.loads(value)["n"] for value in mesh.log.values("t")] == list(range(500))


async def test_text_that_is_not_json_and_binary_frames_keep_their_bytes(sidecar):
    async with sidecar.client.ws_connect(f"{sidecar.base}/publish/t/stream") as socket:
        await socket.send_str("plain")
        await socket.send_bytes(b"\x00\x01")
        for _ in range(2):
            await socket.receive()
    first, second = (await sidecar.get("/messages/t"))[1]["messages"]
    assert (first["data_base64"], first["content_type"]) == (
        "cGxhaW4=",
        "text/plain; charset=utf-8",
    )
    assert (second["data_base64"], second["content_type"]) == ("AAE=", "application/octet-stream")


async def test_a_refusal_is_an_answer_in_its_place_and_the_stream_goes_on(mesh, sidecar):
    async with sidecar.client.ws_connect(f"{sidecar.base}/publish/t/stream") as socket:
        await socket.send_str("1")
        assert json.loads((await socket.receive()).data)["offset"] == 0
        mesh.gatekeeper.failures += ["denied"]
        await socket.send_str("2")
        refused = json.loads((await socket.receive()).data)
        await socket.send_str("3")
        assert json.loads((await socket.receive()).data)["offset"] == 1
    assert (refused["status"], refused["code"], refused["decision_id"]) == (403, "denied", "d-17")


async def test_what_was_sent_before_the_close_is_still_answered(mesh, sidecar):
    mesh.log.topic("t")
    mesh.gatekeeper.hang = asyncio.Event()
    async with sidecar.client.ws_connect(f"{sidecar.base}/publish/t/stream") as socket:
        await socket.send_str("1")
        await sidecar.until(lambda: bool(mesh.gatekeeper.appends))
        mesh.gatekeeper.hang.set()
        assert json.loads((await socket.receive()).data)["offset"] == 0


async def test_a_plain_request_is_told_to_upgrade_and_a_foreign_page_is_refused(sidecar):
    status, problem = await sidecar.get("/publish/t/stream")
    assert (status, problem["code"]) == (426, "upgrade_required")
    url = f"{sidecar.base}/publish/t/stream"
    async with sidecar.client.get(
        url,
        headers={
            "Origin": "https://evil.example",
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
            "Sec-WebSocket-Version": "13",
        },
    ) as response:
        assert response.status == 403
