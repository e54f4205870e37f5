"""What `/status` and `/metrics` say is what happened."""

import re

import pytest


@pytest.fixture
async def sidecar(mesh):
    return await mesh.sidecar()


async def status(sidecar):
    return (await sidecar.get("/status"))[1]


async def metrics(sidecar):
    async with sidecar.client.get(f"{sidecar.base}/metrics") as response:
        text = await response.text()
    found = re.findall(r"^(sidegate_sidecar_\w+) ([0-9.e+]+)$", text, re.MULTILINE)
    return {name: float(value) for name, value in found}


async def test_a_connected_sidecar_says_where_and_that_it_has_a_token(mesh, sidecar):
    document = await status(sidecar)
    assert document["service"] == "sidecar"
    assert document["uplink"] == "connected"
    assert document["uplink_reason"] is None
    assert document["gatekeeper"] == mesh.gatekeeper.listening.url
    assert (document["token"], document["token_error"]) == ("valid", None)
    assert document["spool"]["takes_messages"] is True
    assert (await metrics(sidecar))["sidegate_sidecar_uplink_connected"] == 1


async def test_committed_messages_are_counted_once_each(mesh, sidecar):
    for number in range(3):
        await sidecar.publish({"topic": "t", "message": number})
    document = await status(sidecar)
    assert document["committed"]["messages"] == 3
    assert document["committed"]["batches"] == len(mesh.log.frames["t", 0])
    assert document["committed"]["bytes"] > 0
    assert document["queues"] == {"waiting_messages": 0, "unsettled_batches": 0, "partitions": 1}
    found = await metrics(sidecar)
    assert found["sidegate_sidecar_committed_messages_total"] == 3
    assert found["sidegate_sidecar_committed_bytes_total"] == document["committed"]["bytes"]


async def test_a_denial_is_counted_and_the_last_one_shown(sidecar):
    await sidecar.publish({"topic": "forbidden.x", "message": 1})
    document = await status(sidecar)
    assert document["denied"] == 1
    assert document["last_denial"]["decision_id"] == "d-17"
    assert document["last_denial"]["reason"] == "rule D1"
    assert (await metrics(sidecar))["sidegate_sidecar_denied_messages_total"] == 1


async def test_a_broken_link_is_shown_with_its_reason_and_what_waits_on_disk(mesh, sidecar):
    await mesh.gatekeeper.listening.stop()
    await sidecar.down()
    for number in range(3):
        assert (await sidecar.publish({"topic": "t", "message": number}))[0] == 202
    document = await status(sidecar)
    assert document["uplink"] == "down"
    assert mesh.gatekeeper.listening.url in document["uplink_reason"]
    assert document["spool"]["messages"] == 3
    assert document["spool"]["bytes"] > 0
    found = await metrics(sidecar)
    assert found["sidegate_sidecar_uplink_connected"] == 0
    assert found["sidegate_sidecar_spool_messages"] == 3
    await mesh.gatekeeper.listening.start()
    await sidecar.connected()
    await sidecar.until(lambda: sidecar.assembly.outbox.messages == 0)
    document = await status(sidecar)
    assert document["committed"]["messages"] == 3
    assert document["spool"]["oldest_age_s"] == 0


async def test_without_an_issuer_it_says_that_there_is_no_token_and_why(mesh):
    await mesh.issuer.listening.stop()
    sidecar = await mesh.sidecar(connected=False)
    await sidecar.until(lambda: sidecar.assembly.uplink.state.reason is not None)
    document = await status(sidecar)
    assert document["token"] == "none"
    assert document["token_error"]
    assert document["uplink"] == "down"


async def test_no_secret_is_shown(mesh, sidecar):
    async with sidecar.client.get(f"{sidecar.base}/status") as response:
        text = await response.text()
        assert response.headers["Cache-Control"] == "no-store"
    assert "token-1" not in text
    assert "PRIVATE" not in text
