"""The client of the core: who it speaks to, what it sends, and what it makes of a broken core."""

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gatekeeper.config import CoreConfig
from gatekeeper.core.core_connectors import SocketConnectors, core_client
from gatekeeper.core.core_requests import UnixDialer
from gatekeeper.core.upstream import CoreClient, OnBehalf, header_text
from gatekeeper.errors import CoreUnavailable

BEHALF = OnBehalf("billing", "d", "r")


async def test_a_server_that_is_not_the_core_gets_nothing(mesh: Any) -> None:
    """The core's address is taken by a server of the same CA that is somebody else."""
    seen: list[str] = []

    async def swallow(request: web.Request) -> web.Response:
        seen.append(request.path)
        return web.json_response({})

    leaf = mesh.root.leaf("spiffe://example/impostor", eku=None)
    path = mesh.folder / "impostor.pem"
    path.write_bytes(leaf.pem + leaf.key_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", swallow)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    port = runner.addresses[0][1]
    config = CoreConfig(url=f"https://127.0.0.1:{port}", spiffe_id="spiffe://example/core")
    client = core_client(config, mesh.gatekeeper.contexts)
    with pytest.raises(CoreUnavailable):
        await client.append([b"secret frames"], BEHALF)
    with pytest.raises(CoreUnavailable):
        await client.ask("GET", "/v1/status", BEHALF)
    with pytest.raises(CoreUnavailable):
        async with client.stream(BEHALF):
            pass
    assert seen == []
    assert "impostor" in str(client.last_error)
    await client.stop()
    await runner.cleanup()


async def serve_unix(path: Path, handler: Any) -> web.AppRunner:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.UnixSite(runner, path).start()
    return runner


def unix_client(path: Path, **changed: Any) -> CoreClient:
    limits = {"connections_max": 2, "connect_timeout_s": 1.0, "answer_timeout_s": 1.0}
    connectors, dialer = SocketConnectors(path), UnixDialer(path)
    return CoreClient("http://core", connectors, dialer, **{**limits, **changed})


async def test_a_core_behind_a_unix_socket_is_spoken_to_alike(tmp_path: Path) -> None:
    async def echo(request: web.Request) -> web.Response:
        assert request.headers["Sidegate-Principal"] == "billing"
        assert "Authorization" not in request.headers
        return web.Response(body=await request.read(), headers={"Server": "x", "ETag": '"1"'})

    runner = await serve_unix(tmp_path / "core.sock", echo)
    client = unix_client(tmp_path / "core.sock")
    assert client.last_error is not None
    answer = await client.append([b"a" * 10, memoryview(b"b" * 300_000), b"c"], BEHALF)
    assert answer.body == b"a" * 10 + b"b" * 300_000 + b"c"
    assert client.last_error is None
    asked = await client.ask("GET", "/v1/topics/a", BEHALF)
    assert asked.headers == {"ETag": '"1"'}
    await client.stop()
    await runner.cleanup()


async def test_redirects_are_not_followed(tmp_path: Path) -> None:
    asked: list[str] = []

    async def redirect(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.Response(status=307, headers={"Location": "http://core/elsewhere"})

    runner = await serve_unix(tmp_path / "core.sock", redirect)
    client = unix_client(tmp_path / "core.sock")
    assert (await client.append([b"x"], BEHALF)).status == 307
    assert asked == ["/v1/append"]
    await client.stop()
    await runner.cleanup()


async def test_a_core_that_is_silent_or_gone_is_unavailable(tmp_path: Path) -> None:
    async def silent(request: web.Request) -> web.Response:
        await asyncio.sleep(60)
        return web.Response()

    runner = await serve_unix(tmp_path / "core.sock", silent)
    client = unix_client(tmp_path / "core.sock", answer_timeout_s=0.1)
    with pytest.raises(CoreUnavailable) as caught:
        await client.append([b"x"], BEHALF)
    assert caught.value.headers["Retry-After"] == "1"
    await runner.cleanup()
    with pytest.raises(CoreUnavailable):
        await client.ask("GET", "/v1/status", BEHALF)
    with pytest.raises(CoreUnavailable):
        async with client.stream(BEHALF):
            pass
    await client.stop()


async def test_an_answer_without_end_is_cut(tmp_path: Path) -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b"x" * 1_000_000)
        except ConnectionError:
            return response

    runner = await serve_unix(tmp_path / "core.sock", endless)
    client = unix_client(tmp_path / "core.sock", answer_timeout_s=10.0)
    with pytest.raises(CoreUnavailable):
        await client.ask("GET", "/v1/topics", BEHALF)
    assert "over" in str(client.last_error)
    await client.stop()
    await runner.cleanup()


async def test_a_renewed_certificate_makes_new_connections(mesh: Any) -> None:
    caller = mesh.caller()
    assert (await caller.ask("GET", "/v1/status"))[0] == 200
    pool = mesh.gatekeeper.core._pool
    before = pool.session()
    leaf = mesh.root.leaf("spiffe://example/gatekeeper", eku=None)
    (mesh.folder / "gatekeeper.pem").write_bytes(leaf.pem)
    (mesh.folder / "gatekeeper.key").write_bytes(leaf.key_pem)
    assert mesh.gatekeeper.contexts.poll()
    assert (await caller.ask("GET", "/v1/status"))[0] == 200
    assert pool.session() is not before


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("billing", "billing"),
        ("spiffe://example/app", "spiffe://example/app"),
        ("a\r\nSidegate-Principal: root", "a%0D%0ASidegate-Principal: root"),
        ("größe", "gr%C3%B6%C3%9Fe"),
        ("", ""),
    ],
)
def test_no_name_can_end_a_line(name: str, sent: str) -> None:
    assert header_text(name) == sent
    assert OnBehalf(name, "", "").headers()["Sidegate-Principal"] == sent
