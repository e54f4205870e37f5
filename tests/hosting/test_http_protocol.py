"""What is not HTTP is refused in our words, and never repeated."""

import asyncio
from typing import Any

import pytest
from aiohttp import web

from hosting.http_protocol import Connections, caller_gone
from hosting.web import HttpLimits


@pytest.fixture
async def caller(serve: Any, call: Any) -> Any:
    limits = HttpLimits(request_line_bytes_max=1000, header_bytes_max=1000, headers_max=8)
    return await call(await serve(web.Application(), limits=limits))


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400, "malformed_request"),
        (b"nonsense\r\n\r\n", 400, "malformed_request"),
        (b"GET / HTTP/1.1\r\nHost x\r\n\r\n", 400, "malformed_request"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nA: b\nc\r\n\r\n", 400, "malformed_request"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400, "malformed_request"),
        (
            b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            400,
            "malformed_request",
        ),
        (b"GET /" + b"a" * 2000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 431, "headers_too_large"),
        (b"GET / HTTP/1.1\r\nA: " + b"b" * 2000 + b"\r\n\r\n", 431, "headers_too_large"),
    ],
)
async def test_what_is_not_http_is_a_problem_and_ends_the_connection(
    sent: bytes, status: int, code: str, caller: Any
) -> None:
    await caller.send(sent)
    answer = await caller.answer()
    assert (answer.status, answer.json()["code"]) == (status, code)
    assert answer.headers["content-type"] == "application/problem+json"
    assert await caller.ended()


async def test_too_many_headers_are_refused(caller: Any) -> None:
    lines = b"".join(b"A%d: b\r\n" % number for number in range(20))
    await caller.send(b"GET / HTTP/1.1\r\n" + lines + b"\r\n")
    assert (await caller.answer()).status in {400, 431}


async def test_what_was_sent_is_neither_repeated_nor_logged(
    caller: Any, logged: pytest.LogCaptureFixture
) -> None:
    await caller.send(b"GET / HTTP/1.1\r\nAuthorization Bearer s3cr3t-t0ken\r\n\r\n")
    assert b"s3cr3t" not in (await caller.answer()).body
    assert logged.records
    assert "s3cr3t" not in logged.text


async def test_an_answer_that_is_none_is_an_unexpected_error(serve: Any, call: Any) -> None:
    app = web.Application()

    async def forgets(_: web.Request) -> None:
        return None

    app.router.add_get("/", forgets)
    caller = await call(await serve(app))
    answer = await caller.get("/")
    assert (answer.status, answer.json()["code"]) == (500, "internal")


def test_connections_are_counted_up_to_their_limit() -> None:
    refused = []
    connections = Connections(1, lambda: refused.append(True))
    assert [connections.admit(), connections.admit()] == [True, False]
    connections.release()
    assert connections.admit()
    assert (connections.count, refused) == (1, [True])


async def test_a_handler_learns_that_its_caller_has_left(serve: Any, call: Any) -> None:
    app, began, ended = web.Application(), asyncio.Event(), asyncio.Event()

    async def waits(request: web.Request) -> web.Response:
        assert not caller_gone(request).is_set()
        began.set()
        await caller_gone(request).wait()
        ended.set()
        return web.Response()

    app.router.add_get("/", waits)
    caller = await call(await serve(app))
    await caller.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    await began.wait()
    caller.writer.close()
    await ended.wait()
