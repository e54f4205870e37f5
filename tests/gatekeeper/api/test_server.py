"""The listener under attack: half-open, dripping and idle connections, and honest callers."""

import asyncio
import resource
import socket
import ssl
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hosting.listener import PortTaken

Make = Callable[..., bytes]


@pytest.fixture
def many_files() -> Iterator[None]:
    """Room for the sockets of both sides, where the system gives it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 8192 if hard == resource.RLIM_INFINITY else min(8192, hard)
    if wanted < 4096:
        pytest.skip("needs 4,096 open files; the system's hard limit is lower")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def half_open(port: int, count: int) -> list[socket.socket]:
    """Connections that never say a word."""
    loop = asyncio.get_running_loop()
    sockets = []
    for _ in range(count):
        one = socket.socket()
        one.setblocking(False)
        await loop.sock_connect(one, ("127.0.0.1", port))
        sockets.append(one)
    return sockets


async def test_honest_callers_keep_working_among_a_thousand_half_open_connections(
    new_mesh: Any, frame: Make, many_files: None
) -> None:
    mesh = await new_mesh(limits={"handshakes_max": 64, "handshake_timeout": 30.0})
    attack = await half_open(mesh.port, 1000)
    try:
        for number in range(20):
            status, answer = await mesh.caller().append(frame("orders.eu", producer_id=number))
            assert status == 200
            assert "error" not in answer["results"][0]
        assert mesh.gatekeeper.listener.handshakes <= 64
        assert mesh.gatekeeper.listener.handshakes_dropped >= 1000 - 64
    finally:
        for one in attack:
            one.close()


async def test_honest_callers_keep_working_among_a_thousand_dripping_handshakes(
    new_mesh: Any, frame: Make, many_files: None
) -> None:
    mesh = await new_mesh(limits={"handshakes_max": 128, "handshake_timeout": 30.0})
    attack = await half_open(mesh.port, 1000)

    async def drip() -> None:
        hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
        for byte in hello:
            for one in attack:
                try:
                    one.send(bytes([byte]))
                except OSError:
                    continue
            await asyncio.sleep(0.02)

    dripping = asyncio.create_task(drip())
    try:
        for number in range(10):
            status, _ = await mesh.caller().append(frame("orders.eu", producer_id=number))
            assert status == 200
    finally:
        dripping.cancel()
        await asyncio.gather(dripping, return_exceptions=True)
        for one in attack:
            one.close()


async def test_a_handshake_that_takes_too_long_is_ended(new_mesh: Any, wait_until: Any) -> None:
    mesh = await new_mesh(limits={"handshake_timeout": 0.1})
    (one,) = await half_open(mesh.port, 1)
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(60):
        assert await loop.sock_recv(one, 1) == b""
    one.close()
    await wait_until(lambda: mesh.gatekeeper.listener.handshakes == 0)
    assert mesh.gatekeeper.listener.handshakes_failed == 1


async def open_tls(mesh: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", mesh.port, ssl=mesh.tls(mesh.leaf()))


async def test_headers_that_drip_are_cut_off_in_time(new_mesh: Any) -> None:
    mesh = await new_mesh(limits={"header_timeout": 0.3})
    reader, writer = await open_tls(mesh)
    writer.write(b"GET /v1/whoami HTTP/1.1\r\n")
    lines = 0
    while not reader.at_eof() and not writer.is_closing():
        writer.write(b"X: 1\r\n")
        lines += 1
        await asyncio.sleep(0.02)
        assert lines < 250, "five seconds of dripping"
    writer.close()


async def test_an_idle_connection_is_closed_after_the_header_time(new_mesh: Any) -> None:
    mesh = await new_mesh(limits={"header_timeout": 0.2})
    reader, writer = await open_tls(mesh)
    async with asyncio.timeout(60):
        assert await reader.read() == b""
    writer.close()


async def answer_of_another(mesh: Any) -> bytes:
    try:
        reader, writer = await open_tls(mesh)
        writer.write(b"GET /v1/whoami HTTP/1.1\r\nHost: x\r\n\r\n")
        return await reader.read()
    except (ConnectionError, ssl.SSLError):
        return b""


async def test_connections_over_the_limit_are_refused_and_places_come_back(
    new_mesh: Any, wait_until: Any
) -> None:
    mesh = await new_mesh(limits={"connections_max": 2})
    first = [await open_tls(mesh) for _ in range(2)]
    await wait_until(lambda: len(mesh.gatekeeper.connections) == 2)
    assert await answer_of_another(mesh) == b""
    for _, writer in first:
        writer.close()
    await wait_until(lambda: len(mesh.gatekeeper.connections) == 0)
    assert (await mesh.caller().ask("GET", "/v1/whoami"))[0] == 200


async def test_a_taken_port_is_named_with_what_to_change(new_mesh: Any) -> None:
    mesh = await new_mesh()
    from gatekeeper.api.server import Listener, ServerLimits
    from hosting.units import Address

    other = Listener(
        mesh.gatekeeper.dispatch,
        Address.parse(f"127.0.0.1:{mesh.port}"),
        context=mesh.gatekeeper.contexts.server,
        connections=mesh.gatekeeper.connections,
        limits=ServerLimits(1.0, 1, 1.0, 1, 1),
    )
    with pytest.raises(PortTaken, match="set `listen`"):
        await other.start()


async def test_renewed_certificates_serve_the_next_handshake(mesh: Any) -> None:
    async def served() -> bytes:
        _, writer = await open_tls(mesh)
        der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        return bytes(der)

    first = await served()
    leaf = mesh.root.leaf("spiffe://example/gatekeeper", eku=None)
    (mesh.folder / "gatekeeper.pem").write_bytes(leaf.pem)
    (mesh.folder / "gatekeeper.key").write_bytes(leaf.key_pem)
    assert mesh.gatekeeper.contexts.poll()
    assert await served() == leaf.der != first
    assert (await mesh.caller().ask("GET", "/v1/status"))[0] == 200
