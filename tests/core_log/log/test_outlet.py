"""The WebSocket outlet: whole messages that any WebSocket client reads, and a bounded buffer."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import ClientSession, WSMsgType, web

from core_log.log.outlet import BUFFER_BYTES_MAX, WebSocketOutlet

LENGTHS = [0, 1, 125, 126, 127, 65535, 65536, 300_000]


class Server:
    """A WebSocket server that hands its outlet to the test."""

    def __init__(self) -> None:
        self.outlets: asyncio.Queue[WebSocketOutlet] = asyncio.Queue()
        self.done = asyncio.Event()

    async def serve(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(compress=False)
        writer = await socket.prepare(request)
        await self.outlets.put(WebSocketOutlet(request, writer))
        await self.done.wait()
        return socket


@pytest.fixture
async def server(aiohttp_server: Any) -> AsyncIterator[Any]:
    server = Server()
    app = web.Application()
    app.router.add_get("/", server.serve)
    server.url = (await aiohttp_server(app)).make_url("/")  # type: ignore[attr-defined]
    yield server
    server.done.set()


async def test_messages_of_every_length_arrive_whole_and_in_order(server: Any) -> None:
    async with ClientSession() as session, session.ws_connect(server.url) as reader:
        outlet = await server.outlets.get()
        outlet.send_text(b"{}")
        outlet.send_frames([bytes([n]) * length for n, length in enumerate(LENGTHS)])
        outlet.send_text("ä".encode() * 100)
        message = await reader.receive()
        assert (message.type, message.data) == (WSMsgType.TEXT, "{}")
        for number, length in enumerate(LENGTHS):
            message = await reader.receive()
            assert message.type is WSMsgType.BINARY
            assert message.data == bytes([number]) * length
        assert (await reader.receive()).data == "ä" * 100
        server.done.set()


async def test_there_is_no_room_while_the_reader_does_not_read(server: Any) -> None:
    async with ClientSession() as session, session.ws_connect(server.url, max_msg_size=0) as reader:
        outlet = await server.outlets.get()
        sent = 0
        while outlet.room:
            outlet.send_frames([b"x" * 100_000])
            sent += 1
            await asyncio.sleep(0)
        assert sent * 100_000 > BUFFER_BYTES_MAX
        waiting = asyncio.ensure_future(outlet.drained())
        for _ in range(sent):
            await reader.receive()
        await waiting
        assert outlet.room
        server.done.set()


async def test_a_lost_connection_is_an_error_for_who_waits_and_silence_for_who_sends(
    server: Any,
) -> None:
    async with ClientSession() as session:
        reader = await session.ws_connect(server.url)
        outlet = await server.outlets.get()
        while outlet.room:
            outlet.send_frames([b"x" * 100_000])
            await asyncio.sleep(0)
        waiting = asyncio.ensure_future(outlet.drained())
        await asyncio.sleep(0)
        outlet.abort()
        with pytest.raises(ConnectionError):
            await waiting
        outlet.send_frames([b"x"])
        outlet.send_text(b"x")
        await reader.close()
