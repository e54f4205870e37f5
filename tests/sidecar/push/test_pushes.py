"""Pushes follow the definitions: begun, replaced, ended, and begun again after a failure."""

import asyncio

import pytest


async def ask(sidecar, method, path, document=None):
    url = f"{sidecar.base}{path}"
    async with sidecar.client.request(method, url, json=document) as response:
        return response.status, await response.json(content_type=None)


@pytest.fixture
async def sidecar(mesh):
    return await mesh.sidecar()


async def begin(sidecar, hook, name="m", **changes):
    wanted = {"name": name, "topic": "t", "push": {"url": hook.url}, **changes}
    assert (await ask(sidecar, "POST", "/subscriptions", wanted))[0] == 201
    await sidecar.until(lambda: name in sidecar.assembly.pushes.running)


async def test_a_changed_definition_counts_and_a_deleted_one_ends(mesh, sidecar, hook):
    await begin(sidecar, hook)
    first = sidecar.assembly.pushes.running["m"]
    await ask(sidecar, "PATCH", "/subscriptions/m", {"push": {"url": hook.url, "body": "raw"}})
    await sidecar.until(lambda: sidecar.assembly.pushes.running.get("m") not in (None, first))
    await sidecar.publish({"topic": "t", "message": 17})
    await hook.until(1)
    assert hook.seen[0][1] == b"17"
    await sidecar.until(lambda: mesh.gatekeeper.subscriptions["m"].low[0] == 1)
    await ask(sidecar, "DELETE", "/subscriptions/m")
    await sidecar.until(lambda: not sidecar.assembly.pushes.running)
    assert (await sidecar.get("/status"))[1]["pushes"]["delivered"] == 1


async def test_a_pause_does_not_begin_anew(sidecar, hook):
    await begin(sidecar, hook)
    first = sidecar.assembly.pushes.running["m"]
    await ask(sidecar, "POST", "/subscriptions/m/pause")
    await sidecar.until(lambda: first.definition["paused"])
    assert sidecar.assembly.pushes.running["m"] is first


async def test_subscriptions_without_push_are_left_to_streams(sidecar, hook):
    await ask(sidecar, "POST", "/subscriptions", {"name": "reader", "topic": "t"})
    await begin(sidecar, hook)
    assert list(sidecar.assembly.pushes.running) == ["m"]


async def test_a_definition_of_another_version_harms_no_other(mesh, sidecar, hook):
    await begin(sidecar, hook)
    mesh.gatekeeper.subscriptions["m"].definition["settings"] = {"from": "the future"}
    mesh.gatekeeper.definitions.touch()
    await sidecar.until(lambda: "m" not in sidecar.assembly.pushes.running)
    await begin(sidecar, hook, name="other", topic="u")


async def test_after_the_gatekeepers_restart_it_goes_on(mesh, sidecar, hook):
    await begin(sidecar, hook)
    await mesh.gatekeeper.listening.stop()
    await asyncio.sleep(0.1)
    await mesh.gatekeeper.listening.start()
    await sidecar.connected()
    await sidecar.publish({"topic": "t", "message": 1})
    await hook.until(1)
    await begin(sidecar, hook, name="other", topic="u")


async def test_a_sidecar_that_is_not_to_push_does_not(mesh, hook):
    from sidecar.config import PushConfig

    sidecar = await mesh.sidecar(push=PushConfig(enabled=False))
    wanted = {"name": "m", "topic": "t", "push": {"url": hook.url}}
    assert (await ask(sidecar, "POST", "/subscriptions", wanted))[0] == 201
    await sidecar.publish({"topic": "t", "message": 1})
    await asyncio.sleep(0.1)
    assert not hook.seen
    _, state = await ask(sidecar, "GET", "/subscriptions/m")
    assert (state["delivery"]["state"], state["lag"]) == ("elsewhere", 1)
