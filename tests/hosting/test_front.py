"""What stands before a site answers what it understands, and hands on the rest with every byte."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from aiohttp import web

from hosting.front import AHEAD_BYTES_MAX, HEAD_BYTES_MAX, Front, FrontConnection
from hosting.web import DRAINING


@dataclass(frozen=True)
class Plan:
    content_length: int


class Echo(Front[Plan]):
    """Answers `POST /echo` with its body in capitals; waits for `go_on` before it does."""

    HEAD = re.compile(rb"POST /echo HTTP/1\.1\r\nContent-Length: (\d+)(?:\r\nX: .*)?")

    def __init__(self, draining: asyncio.Event, **settings: Any) -> None:
        super().__init__(
            begins=b"POST /echo", draining=draining, **{"connections_max": 10, **settings}
        )
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.served: list[bytes] = []
        self.drops = 0
        self.strangers = False
        self._tasks: set[asyncio.Task[None]] = set()

    def admits(self, transport: asyncio.Transport) -> object | None:
        return None if self.strangers else "a friend"

    def plan(self, head: bytes, connection: FrontConnection[Plan]) -> Plan | None:
        assert connection.caller == "a friend"
        match = self.HEAD.fullmatch(head)
        return None if match is None else Plan(int(match[1]))

    def dropped(self, plan: Plan) -> None:
        self.drops += 1

    def serve(self, connection: FrontConnection[Plan], plan: Plan, body: bytes) -> None:
        assert len(body) == plan.content_length
        self.served.append(body)
        task = asyncio.ensure_future(self._answer(connection, body))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, connection: FrontConnection[Plan], body: bytes) -> None:
        await self.go_on.wait()
        connection.answer(self.encode(b"200 OK", b"text/plain", body.upper(), "an-id"))


def request(body: bytes, more: bytes = b"") -> bytes:
    return b"POST /echo HTTP/1.1\r\nContent-Length: %d%s\r\n\r\n%s" % (len(body), more, body)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a state of the front's own; the test's timeout is the limit."""
    while not condition():  # noqa: ASYNC110 - no event tells of it
        await asyncio.sleep(0.001)


Stand = Callable[..., Awaitable[tuple[Echo, Any]]]


@pytest.fixture
async def stand(serve: Any) -> Any:
    """A front before a site whose application answers everything with what it got."""
    fronts: list[Echo] = []

    async def start(**settings: Any) -> tuple[Echo, Any]:
        async def site_answer(request: web.Request) -> web.Response:
            return web.Response(body=b"the site got " + await request.read())

        app = web.Application()
        app.router.add_route("*", "/{path:.*}", site_answer)
        front = Echo(app.setdefault(DRAINING, asyncio.Event()), **settings)
        site = await serve(app, front=front.wrap)
        await front.start()
        fronts.append(front)
        return front, site

    yield start
    for front in fronts:
        await front.stop()


async def test_requests_that_it_understands_are_answered_one_after_the_other(
    stand: Stand, call: Any
) -> None:
    front, site = await stand()
    caller = await call(site)
    await caller.send(request(b"one") + request(b"two") + request(b""))
    for wanted in (b"ONE", b"TWO", b""):
        answer = await caller.answer()
        assert (answer.status, answer.body) == (200, wanted)
        assert answer.headers["server"] == "sidegate"
        assert answer.headers["sidegate-request-id"] == "an-id"
        assert answer.headers["date"].endswith("GMT")
    assert front.served == [b"one", b"two", b""]


async def test_a_request_that_comes_byte_by_byte_is_served_whole(stand: Stand, call: Any) -> None:
    front, site = await stand()
    caller = await call(site)
    for byte in request(b"piecemeal") + request(b"again"):
        await caller.send(bytes([byte]))
        await asyncio.sleep(0)
    assert [(await caller.answer()).body for _ in range(2)] == [b"PIECEMEAL", b"AGAIN"]
    assert front.served == [b"piecemeal", b"again"]


async def test_a_large_body_comes_back_whole(stand: Stand, call: Any) -> None:
    _, site = await stand()
    caller = await call(site)
    body = b"abcdefgh" * 200_000
    sending = asyncio.create_task(caller.send(request(body) + request(b"next")))
    assert (await caller.answer()).body == body.upper()
    assert (await caller.answer()).body == b"NEXT"
    await sending


@pytest.mark.parametrize(
    "other",
    [
        b"POST /else HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
        b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
        b"PUT /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    ],
)
async def test_at_the_first_other_request_the_site_takes_over_with_every_byte(
    stand: Stand, call: Any, other: bytes
) -> None:
    front, site = await stand()
    caller = await call(site)
    await caller.send(request(b"mine") + other + other)
    assert (await caller.answer()).body == b"MINE"
    assert (await caller.answer()).body == b"the site got abc"
    assert (await caller.answer()).body == b"the site got abc"
    assert not front.connections


async def test_a_head_that_never_ends_is_the_sites_to_refuse(stand: Stand, call: Any) -> None:
    _, site = await stand()
    whole = await call(site)
    await whole.send(request(b"x", b"\r\nHost: x\r\nX: " + b"y" * HEAD_BYTES_MAX))
    assert (await whole.answer()).body == b"the site got x"
    endless = await call(site)
    await endless.send(b"POST /echo HTTP/1.1\r\nX: " + b"y" * 100_000)
    assert (await endless.answer()).status in (400, 431)


async def test_strangers_and_those_too_many_are_the_sites(stand: Stand, call: Any) -> None:
    front, site = await stand(connections_max=1)
    first, second = await call(site), await call(site)
    await first.send(request(b"in"))
    assert (await first.answer()).body == b"IN"
    await second.send(request(b"out"))
    assert (await second.answer()).status == 400, "without a Host, aiohttp refuses it"
    front.strangers = True
    front.connections_max = 10
    stranger = await call(site)
    assert (await stranger.get("/")).body == b"the site got "


async def test_draining_finishes_what_was_taken_and_refuses_the_next(
    stand: Stand, call: Any
) -> None:
    front, site = await stand()
    front.go_on.clear()
    caller = await call(site)
    await caller.send(request(b"taken"))
    await until(lambda: bool(front.served))
    drain = asyncio.create_task(front.drain())
    await caller.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    await asyncio.sleep(0)
    assert not drain.done()
    front.go_on.set()
    assert (await caller.answer()).body == b"TAKEN"
    await drain
    assert (await caller.answer()).status == 503


async def test_a_caller_that_goes_while_it_is_served_does_not_hold_up_the_drain(
    stand: Stand, call: Any
) -> None:
    front, site = await stand()
    front.go_on.clear()
    caller = await call(site)
    await caller.send(request(b"taken"))
    await until(lambda: bool(front.served))
    caller.writer.close()
    await front.drain()
    front.go_on.set()


async def test_a_body_that_does_not_come_in_time_is_refused_and_given_up(
    stand: Stand, call: Any
) -> None:
    front, site = await stand(body_s_max=0.0)
    caller = await call(site)
    await caller.send(b"POST /echo HTTP/1.1\r\nContent-Length: 10\r\n\r\nhalf")
    answer = await caller.answer()
    assert (answer.status, answer.json()["code"]) == (408, "request_timeout")
    assert await caller.ended()
    assert front.drops == 1
    assert front.served == []


async def test_a_caller_that_goes_before_its_body_is_forgotten(stand: Stand, call: Any) -> None:
    front, site = await stand()
    caller = await call(site)
    await caller.send(b"POST /echo HTTP/1.1\r\nContent-Length: 10\r\n\r\nhalf")
    await until(lambda: any(connection._plan for connection in front.connections))
    caller.writer.close()
    await until(lambda: front.drops > 0)
    assert not front.connections


async def test_a_caller_that_sends_far_ahead_has_to_wait(stand: Stand, call: Any) -> None:
    front, site = await stand()
    front.go_on.clear()
    caller = await call(site)
    count = 60
    body = b"z" * (AHEAD_BYTES_MAX // 4)
    sending = asyncio.create_task(caller.send(request(body) * count))
    await until(lambda: bool(front.served))
    (connection,) = front.connections
    await until(lambda: connection._paused)
    assert len(connection._buffer) < len(body) * count
    front.go_on.set()
    for _ in range(count):
        assert (await caller.answer()).body == body.upper()
    await sending
