"""No byte of a request goes to a server that is not who it must be."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import pytest

from hosting.connector import SpiffeConnector, WrongServer
from hosting.tls import client_context, server_context

CORE = "spiffe://example.org/core"
OTHER = "spiffe://example.org/other"


class Server:
    """Answers HTTP, and remembers every byte that it was sent."""

    def __init__(self) -> None:
        self.received = b""
        self.connections = 0
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while data := await reader.read(4096):
                self.received += data
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                await writer.drain()
        except ConnectionError:
            return
        finally:
            writer.close()


Start = Callable[[ssl.SSLContext | None], Awaitable[Server]]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    servers: list[asyncio.Server] = []

    async def begin(context: ssl.SSLContext | None) -> Server:
        server = Server()
        listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=context)
        server.port = listening.sockets[0].getsockname()[1]
        servers.append(listening)
        return server

    yield begin
    for server in servers:
        server.close()


async def get(connector: SpiffeConnector, url: str, **settings: Any) -> str:
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        session.post(url, data=b"secret body", **settings) as response,
    ):
        return await response.text()


def connector(authority: Any, *servers: str) -> SpiffeConnector:
    context = client_context(None, authority.bundle, check_hostname=False)
    return SpiffeConnector(context, servers)


async def test_the_expected_server_is_spoken_to(authority: Any, start: Start) -> None:
    server = await start(server_context(authority.issue("core", CORE)))
    url = f"https://127.0.0.1:{server.port}/"
    assert await get(connector(authority, CORE, OTHER), url) == "ok"
    assert b"secret body" in server.received


async def test_connections_to_the_expected_server_are_used_again(
    authority: Any, start: Start
) -> None:
    server = await start(server_context(authority.issue("core", CORE)))
    async with aiohttp.ClientSession(connector=connector(authority, CORE)) as session:
        for _ in range(3):
            async with session.get(f"https://127.0.0.1:{server.port}/") as response:
                await response.read()
    assert server.connections == 1


@pytest.mark.parametrize(
    ("uris", "reason"),
    [((OTHER,), "expected"), ((), "no SPIFFE id"), ((CORE, OTHER), "no SPIFFE id")],
)
async def test_another_server_of_the_same_authority_gets_not_a_byte(
    uris: tuple[str, ...], reason: str, authority: Any, start: Start
) -> None:
    server = await start(server_context(authority.issue("other", *uris)))
    with pytest.raises(WrongServer, match=reason):
        await get(connector(authority, CORE), f"https://127.0.0.1:{server.port}/")
    assert server.received == b""


async def test_a_server_of_another_authority_gets_not_a_byte(
    new_authority: Callable[[str], Any], start: Start
) -> None:
    ours, theirs = new_authority("ours"), new_authority("theirs")
    server = await start(server_context(theirs.issue("core", CORE)))
    with pytest.raises(aiohttp.ClientConnectorCertificateError):
        await get(connector(ours, CORE), f"https://127.0.0.1:{server.port}/")
    assert server.received == b""


async def test_a_server_without_tls_gets_not_a_byte(authority: Any, start: Start) -> None:
    server = await start(None)
    with pytest.raises(WrongServer, match="https"):
        await get(connector(authority, CORE), f"http://127.0.0.1:{server.port}/")
    assert server.received == b""


@pytest.mark.parametrize("own", [False, "context"])
async def test_a_request_can_not_switch_the_check_off(
    own: bool | str, authority: Any, start: Start
) -> None:
    server = await start(server_context(authority.issue("core", CORE)))
    choice = client_context(None, authority.bundle) if own else False
    with pytest.raises(WrongServer, match="context of its own"):
        await get(connector(authority, CORE), f"https://127.0.0.1:{server.port}/", ssl=choice)
    assert server.received == b""


async def test_a_websocket_is_checked_like_any_request(authority: Any, start: Start) -> None:
    server = await start(server_context(authority.issue("other", OTHER)))
    async with aiohttp.ClientSession(connector=connector(authority, CORE)) as session:
        with pytest.raises(WrongServer):
            await session.ws_connect(f"https://127.0.0.1:{server.port}/")
    assert server.received == b""


async def test_a_refused_server_does_not_use_up_the_connections(
    authority: Any, start: Start
) -> None:
    server = await start(server_context(authority.issue("other", OTHER)))
    context = client_context(None, authority.bundle, check_hostname=False)
    async with aiohttp.ClientSession(
        connector=SpiffeConnector(context, [CORE], limit=1)
    ) as session:
        for _ in range(3):
            with pytest.raises(WrongServer):
                await session.get(f"https://127.0.0.1:{server.port}/")


async def test_a_context_that_checks_no_certificate_is_refused() -> None:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with pytest.raises(ValueError, match="must require"):
        SpiffeConnector(context, [CORE])


async def test_an_expected_id_that_is_none_is_refused(authority: Any) -> None:
    with pytest.raises(ValueError, match="begin"):
        connector(authority, "core")
