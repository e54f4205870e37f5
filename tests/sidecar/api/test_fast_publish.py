"""The fast path's own part in the life of the service."""

import asyncio
from typing import Any


async def test_a_draining_sidecar_refuses_new_work_and_finishes_what_it_had_accepted(
    mesh: Any,
) -> None:
    sidecar = await mesh.sidecar()
    await sidecar.publish({"topic": "orders", "message": "before"})
    mesh.gatekeeper.hang = asyncio.Event()
    accepted = asyncio.create_task(sidecar.publish({"topic": "orders", "message": "accepted"}))
    await sidecar.until(lambda: len(mesh.gatekeeper.appends) == 2)

    sidecar.assembly.service.ask_to_stop()
    await sidecar.until(lambda: sidecar.assembly.service.phase.value == "draining")
    status, answer = await sidecar.publish({"topic": "orders", "message": "new"})
    assert status == 503, answer
    assert answer["code"] == "draining"
    assert (await sidecar.get("/messages/orders"))[0] == 503

    mesh.gatekeeper.hang.set()
    assert (await accepted)[0] == 200
    assert mesh.log.values("orders") == [b'"before"', b'"accepted"']
