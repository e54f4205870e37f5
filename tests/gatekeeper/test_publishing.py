"""Appends through a running gatekeeper, byte by byte to a core that checks what arrives."""

from collections.abc import Callable
from typing import Any


async def test_an_allowed_batch_reaches_the_core_with_signed_provenance(
    mesh: Any, frame: Callable[..., bytes]
) -> None:
    caller = mesh.caller()
    status, answer = await caller.append(frame("orders.eu"))
    assert status == 200
    assert answer["results"][0]["base_offset"] == 0
    (kept,) = mesh.core.frames("orders.eu")
    provenance = kept.envelope.provenance
    assert provenance.principal == "billing"
    assert provenance.thumbprint == caller.leaf.thumbprint
    assert provenance.policy_hash == mesh.gatekeeper.policies.policy.hash


async def test_a_stream_and_a_read_thin(mesh: Any, frame: Callable[..., bytes]) -> None:
    writer = mesh.caller()
    reader = mesh.caller("reader", "reader")
    async with reader.stream(topic="orders.eu", **{"from": "latest"}) as socket:
        opened = await socket.receive_json()
        assert opened["type"] == "opened"
        status, answer = await writer.append(frame("orders.eu"))
        got = await socket.receive_bytes()
        assert got == mesh.core.stored["orders.eu", 0][0]
    status, body, answer = await reader.ask("GET", "/v1/read?topic=orders.eu&offset=0")
    assert (status, body) == (200, got)
    print(answer.headers)
    print(mesh.core.records())
    print(await reader.ask("GET", "/v1/whoami"))
    print(await reader.append(frame("orders.eu")))
    print(await reader.ask("GET", "/v1/read?topic=other&offset=0"))
