"""Bodies are read within limits: each by itself, and all of them together."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import ClientSession, web

from core_log.api.problems import TABLE
from core_log.api.request_body import JSON_BYTES_MAX, Bodies, read_json
from hosting.problems import error_middleware

LIMIT = 1000


class Server:
    """Reads bodies and holds them until it is told to let go."""

    url: Any

    def __init__(self) -> None:
        self.bodies = Bodies(1500)
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.reading = asyncio.Event()

    async def read(self, request: web.Request) -> web.Response:
        async with self.bodies.read(request, LIMIT) as body:
            self.reading.set()
            await self.go_on.wait()
            return web.Response(body=body)

    async def json(self, request: web.Request) -> web.Response:
        return web.json_response(await read_json(request))


@pytest.fixture
async def server(aiohttp_server: Any) -> Server:
    server = Server()
    app = web.Application(middlewares=[error_middleware(TABLE)])
    app.router.add_post("/body", server.read)
    app.router.add_post("/json", server.json)
    server.url = (await aiohttp_server(app)).make_url("/")
    return server


async def chunks(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def test_a_body_comes_back_whole_with_and_without_a_declared_length(server: Server) -> None:
    async with ClientSession() as session:
        for data in (b"x" * LIMIT, chunks(b"ab", b"cd"), b""):
            async with session.post(server.url / "body", data=data) as answer:
                assert answer.status == 200
                assert await answer.read() in (b"x" * LIMIT, b"abcd", b"")
    assert server.bodies.bytes == 0


async def test_a_body_above_the_limit_is_refused(server: Server) -> None:
    async with ClientSession() as session:
        for data in (b"x" * (LIMIT + 1), chunks(b"x" * LIMIT, b"x")):
            async with session.post(server.url / "body", data=data) as answer:
                problem = await answer.json(content_type=None)
                assert (answer.status, problem["code"]) == (413, "too_large")
                assert problem["limit_bytes"] == LIMIT
    assert server.bodies.bytes == 0


async def test_bodies_together_are_limited_and_one_is_always_read(server: Server) -> None:
    server.go_on.clear()
    async with ClientSession() as session:
        held = asyncio.ensure_future(session.post(server.url / "body", data=b"x" * 900))
        await server.reading.wait()
        assert server.bodies.bytes == 900
        for data in (b"x" * 700, chunks(b"x" * 700)):
            async with session.post(server.url / "body", data=data) as answer:
                problem = await answer.json(content_type=None)
                assert (answer.status, problem["code"]) == (503, "overloaded")
                assert answer.headers["Retry-After"] == "1"
        server.go_on.set()
        assert (await held).status == 200
        (await held).release()
    assert server.bodies.bytes == 0


async def test_json_is_read_as_json_whatever_it_is_called(server: Server) -> None:
    async with ClientSession() as session:
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        async with session.post(server.url / "json", data=b'{"a":1}', headers=headers) as answer:
            assert await answer.json() == {"a": 1}
        async with session.post(server.url / "json", data=b"{") as answer:
            problem = await answer.json(content_type=None)
            assert (answer.status, problem["code"]) == (400, "bad_json")
        async with session.post(server.url / "json", data=b" " * (JSON_BYTES_MAX + 1)) as answer:
            assert answer.status == 413
