"""Receipts over HTTP: with a publish, and later."""

import asyncio

import pytest


@pytest.fixture
async def sidecar(mesh):
    return await mesh.sidecar()


@pytest.fixture
def proofs(mesh):
    return mesh.gatekeeper.proofs


async def post(sidecar, path, data, **query):
    url = f"{sidecar.base}{path}"
    async with sidecar.client.post(url, data=data, params=query) as response:
        return response.status, await response.json(content_type=None)


async def test_a_publish_answers_with_its_receipt(sidecar, proofs):
    await sidecar.publish({"topic": "t", "message": 1})
    await proofs.grow(2, 2)
    status, answer = await sidecar.publish({"topic": "t", "message": 2}, receipt="1")
    assert (status, answer["offset"], answer["durability"]) == (200, 1, "committed")
    receipt = answer["receipt"]
    assert (receipt["offset"], receipt["leaf"], receipt["size"]) == (1, 1, 2)
    assert receipt["format"] == "sidegate-proof/1"
    await proofs.grow(3, 3)
    status, answer = await post(sidecar, "/publish/t", b"3", receipt="1")
    assert (status, answer["receipt"]["offset"]) == (200, 2)


async def test_without_a_checkpoint_in_time_the_message_is_published_all_the_same(sidecar, proofs):
    status, answer = await sidecar.publish(
        {"topic": "t", "message": 1}, receipt="1", timeout_ms="2000"
    )
    assert (status, answer["offset"], answer["receipt"]) == (200, 0, None)
    assert "no checkpoint covers" in answer["reason"]
    assert answer["receipt_url"] == "/receipt/t/0/0"
    status, answer = await sidecar.get("/receipt/t/0/0", timeout_ms="50")
    assert (status, answer["code"]) == (404, "no_receipt")
    await proofs.grow(1, 1)
    status, answer = await sidecar.get("/receipt/t/0/0")
    assert (status, answer["offset"]) == (200, 0)


async def test_what_is_in_no_log_has_no_receipt_and_says_why(mesh, sidecar):
    mesh.gatekeeper.hang = asyncio.Event()
    status, answer = await sidecar.publish(
        {"topic": "t", "message": 1}, receipt="1", timeout_ms="200"
    )
    assert (status, answer["receipt"]) == (202, None)
    assert "ack=core" in answer["reason"]
    assert "receipt_url" not in answer
    mesh.gatekeeper.hang.set()


@pytest.mark.parametrize("ack", ["sidecar", "none"])
async def test_a_receipt_needs_the_logs_answer(sidecar, ack):
    status, answer = await sidecar.publish({"topic": "t", "message": 1}, receipt="1", ack=ack)
    assert (status, answer["code"]) == (400, "bad_parameter")


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/receipt/t/0/x", {}),
        ("/receipt/t/0/0", {"wait": "1"}),
        ("/receipt/t/0/0", {"timeout_ms": "0"}),
    ],
)
async def test_parameters_are_strict(sidecar, path, query):
    status, _answer = await sidecar.get(path, **query)
    assert status == 400


async def test_many_messages_have_no_receipt(sidecar):
    status, answer = await post(sidecar, "/publish/t/lines", b"1\n2\n", receipt="1")
    assert (status, answer["code"]) == (400, "bad_parameter")


async def test_a_denied_publish_is_denied_with_or_without_receipt(sidecar):
    status, _ = await sidecar.publish({"topic": "forbidden.t", "message": 1}, receipt="1")
    assert status == 403
