"""The front door closes in order: no new connections, streams ended, answers finished."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest


async def test_what_was_accepted_is_answered_and_nothing_new_is_taken(
    mesh: Any, frame: Callable[..., bytes], wait_until: Any
) -> None:
    mesh.core.hold = asyncio.Event()
    caller = mesh.caller()
    pending = asyncio.create_task(caller.append(frame("orders.eu")))
    await wait_until(lambda: mesh.gatekeeper.intake.in_flight > 0)
    port = mesh.port
    mesh.service.ask_to_stop()
    await wait_until(lambda: mesh.gatekeeper.dispatch.draining)
    await asyncio.sleep(0)
    with pytest.raises(OSError):  # noqa: PT011 - refused or reset, as the system likes
        await asyncio.open_connection("127.0.0.1", port, ssl=mesh.tls(mesh.leaf()))
    mesh.core.hold.set()
    status, answer = await pending
    assert status == 200
    assert "error" not in answer["results"][0]


async def test_an_idle_connection_does_not_hold_up_the_stop(mesh: Any, wait_until: Any) -> None:
    caller = mesh.caller()
    assert (await caller.ask("GET", "/v1/whoami"))[0] == 200
    mesh.service.ask_to_stop()
    await wait_until(lambda: len(mesh.gatekeeper.connections) == 0, timeout_s=3.0)
