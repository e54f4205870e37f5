"""A site answers within its limits, and ends without dropping what it accepted."""

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from hosting.logs import request_id
from hosting.metrics import HttpMetrics
from hosting.problems import ProblemTable, error_middleware
from hosting.tls import ReloadingContexts, client_context
from hosting.units import Address
from hosting.web import DRAINING, HttpLimits, HttpSite, PortTaken, peer_certificate


class Stage:
    """An application whose `/slow` answers when it is told to."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.released = asyncio.Event()
        self.cancelled = False
        self.app = web.Application(middlewares=[error_middleware(ProblemTable({}))])
        self.app.router.add_get("/slow", self.slow)
        self.app.router.add_get("/quick", self.quick)
        self.app.router.add_get("/socket", self.socket)
        self.app.router.add_get("/peer", self.peer)
        self.app.router.add_post("/body", self.body)
        self.app.router.add_get("/topics/{name}", self.quick)

    async def slow(self, _: web.Request) -> web.Response:
        self.entered.set()
        try:
            await self.released.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return web.Response(text="finished")

    async def quick(self, _: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def body(self, request: web.Request) -> web.Response:
        return web.Response(body=await request.read())

    async def peer(self, request: web.Request) -> web.Response:
        return web.Response(text=str(len(peer_certificate(request) or b"")))

    async def socket(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self.entered.set()
        await request.app[DRAINING].wait()
        await socket.close(code=1012)
        return socket


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.fixture(params=["tcp", "tls", "unix"])
async def reach(
    request: pytest.FixtureRequest,
    stage: Stage,
    serve: Any,
    call: Any,
    authority: Any,
    tmp_path: Path,
) -> Any:
    """A site of each kind, and a way to connect to it."""
    context: ssl.SSLContext | None = None
    address, settings = Address("127.0.0.1", 0), {}
    if request.param == "unix":
        address = Address(path=tmp_path / "x.sock")
    if request.param == "tls":
        files = authority.issue("server", "spiffe://example.org/server")
        settings["ssl"] = ReloadingContexts(files).server
        context = client_context(None, authority.bundle)
    site = await serve(stage.app, address, **settings)
    return site, lambda: call(site, context)


async def test_a_request_is_answered(reach: Any) -> None:
    _, connect = reach
    answer = await (await connect()).get("/quick")
    assert (answer.status, answer.body) == (200, b"ok")


async def test_what_was_accepted_is_finished_and_what_comes_later_refused(
    reach: Any, stage: Stage
) -> None:
    site, connect = reach
    working, idle = await connect(), await connect()
    assert (await idle.get("/quick")).status == 200
    await working.send(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
    await stage.entered.wait()
    drain = asyncio.create_task(site.drain())
    await stage.app[DRAINING].wait()
    refused = await idle.get("/quick")
    assert (refused.status, refused.json()["code"]) == (503, "draining")
    assert refused.headers["retry-after"] == "1"
    assert refused.headers["connection"] == "close"
    assert await idle.ended()
    assert not drain.done()
    stage.released.set()
    finished = await working.answer()
    assert (finished.status, finished.body) == (200, b"finished")
    assert finished.headers["connection"] == "close"
    await drain
    assert site.in_flight == 0


async def test_nobody_can_connect_any_more_while_draining(reach: Any) -> None:
    site, connect = reach
    await site.drain()
    with pytest.raises((ConnectionError, FileNotFoundError)):
        await connect()


async def test_stopping_closes_idle_connections(reach: Any) -> None:
    site, connect = reach
    idle = await connect()
    await idle.get("/quick")
    await site.drain()
    await site.stop()
    assert await idle.ended()


async def test_a_handler_that_outlives_the_drain_is_cancelled_by_the_stop(
    stage: Stage, serve: Any, call: Any
) -> None:
    site = await serve(stage.app, limits=HttpLimits(close_s=0.01))
    working = await call(site)
    await working.send(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
    await stage.entered.wait()
    drain = asyncio.create_task(site.drain())
    await stage.app[DRAINING].wait()
    drain.cancel()
    await site.stop()
    assert await working.ended()
    assert stage.cancelled


async def test_a_stream_learns_of_the_drain_and_ends_itself(
    stage: Stage, serve: Any, call: Any
) -> None:
    site = await serve(stage.app)
    caller = await call(site)
    await caller.send(
        b"GET /socket HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    )
    upgraded = await caller.answer()
    assert upgraded.status == 101
    assert upgraded.headers["sidegate-request-id"]
    await stage.entered.wait()
    drain = asyncio.create_task(site.drain())
    frame = await caller.reader.readexactly(4)
    assert frame == b"\x88\x02\x03\xf4"
    await caller.send(b"\x88\x82\0\0\0\0\x03\xf4")
    await drain


async def test_a_refused_request_is_not_asked_for_its_body(
    stage: Stage, serve: Any, call: Any
) -> None:
    site = await serve(stage.app)
    caller = await call(site)
    await caller.get("/quick")
    await site.drain()
    await caller.send(
        b"POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
    )
    assert (await caller.answer()).status == 503


async def test_a_taken_port_names_the_setting(stage: Stage, serve: Any) -> None:
    first = await serve(stage.app)
    second = HttpSite("second", web.Application(), first.address, setting="admin.listen")
    with pytest.raises(PortTaken, match=rf"127.0.0.1:{first.port} .*`admin.listen`"):
        await second.start()


async def test_a_site_that_could_not_start_leaves_nothing_behind(serve: Any) -> None:
    first = await serve(web.Application())
    ended = []
    app = web.Application()

    async def note(_: web.Application) -> None:
        ended.append(True)

    app.on_cleanup.append(note)
    with pytest.raises(PortTaken):
        await HttpSite("second", app, first.address).start()
    assert ended == [True]


async def test_the_port_of_a_unix_socket_is_no_question(tmp_path: Path, serve: Any) -> None:
    site = await serve(web.Application(), Address(path=tmp_path / "x.sock"))
    with pytest.raises(RuntimeError, match="no port"):
        _ = site.port


async def test_a_body_that_takes_too_long_is_408(stage: Stage, serve: Any, call: Any) -> None:
    site = await serve(stage.app, limits=HttpLimits(body_s_max=0.02, linger_s=0.01))
    caller = await call(site)
    await caller.send(b"POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n12")
    answer = await caller.answer()
    assert (answer.status, answer.json()["code"]) == (408, "request_timeout")
    assert "0.02 s" in answer.json()["detail"]
    assert await caller.ended()


async def test_a_connection_that_asks_for_nothing_is_ended(
    stage: Stage, serve: Any, call: Any
) -> None:
    site = await serve(stage.app, limits=HttpLimits(keepalive_s=0.02))
    silent, dripping = await call(site), await call(site)
    dripping.writer.write(b"GET /quick HT")
    assert await silent.ended()
    assert await dripping.ended()


async def test_a_peer_that_shakes_no_hands_is_ended(
    stage: Stage, serve: Any, call: Any, authority: Any
) -> None:
    contexts = ReloadingContexts(authority.issue("server", "spiffe://example.org/server"))
    limits = HttpLimits(tls_handshake_s=0.02)
    site = await serve(stage.app, ssl=contexts.server, limits=limits)
    assert await (await call(site)).ended()


async def test_a_connection_too_many_is_refused_and_counted(
    stage: Stage, serve: Any, call: Any
) -> None:
    registry = CollectorRegistry()
    limits = HttpLimits(connections_max=2)
    site = await serve(stage.app, limits=limits, metrics=HttpMetrics(registry))
    first, second = await call(site), await call(site)
    for caller in (first, second):
        await caller.get("/quick")
    assert await (await call(site)).ended()
    assert (
        registry.get_sample_value("sidegate_http_connections_refused_total", {"site": "test"}) == 1
    )
    await second.get("/quick", Connection="close")
    assert await second.ended()
    assert (await (await call(site)).get("/quick")).status == 200


async def test_an_encoded_body_is_refused_unread(stage: Stage, serve: Any, call: Any) -> None:
    caller = await call(await serve(stage.app))
    await caller.send(
        b"POST /body HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n12"
    )
    answer = await caller.answer()
    assert (answer.status, answer.headers["accept-encoding"]) == (415, "identity")


async def test_an_error_before_the_middlewares_is_a_problem_too(
    stage: Stage, serve: Any, call: Any
) -> None:
    caller = await call(await serve(stage.app))
    answer = await caller.get("/quick", Expect="the-impossible")
    assert (answer.status, answer.json()["code"]) == (417, "expectation_failed")


async def test_requests_are_measured_by_route_not_by_path(
    stage: Stage, serve: Any, call: Any
) -> None:
    registry = CollectorRegistry()
    caller = await call(await serve(stage.app, metrics=HttpMetrics(registry)))
    for path in ("/topics/a", "/topics/b", "/nowhere/a", "/nowhere/b"):
        await caller.get(path)
    await caller.send(b"PROPFIND /quick HTTP/1.1\r\nHost: x\r\n\r\n")
    await caller.answer()

    def count(route: str, method: str, status: str) -> float | None:
        labels = {"site": "test", "route": route, "method": method, "status": status}
        return registry.get_sample_value("sidegate_http_request_seconds_count", labels)

    assert count("/topics/{name}", "GET", "200") == 2
    assert count("none", "GET", "404") == 2
    assert count("none", "other", "405") == 1


async def test_no_answer_tells_what_the_service_runs_on(
    stage: Stage, serve: Any, call: Any
) -> None:
    site = await serve(stage.app)
    caller = await call(site)
    for path in ("/quick", "/nowhere"):
        assert (await caller.get(path)).headers["server"] == "sidegate"
    await site.drain()
    assert (await caller.get("/quick")).headers["server"] == "sidegate"


async def test_each_answer_is_a_debug_line_with_its_request_id(
    stage: Stage, serve: Any, call: Any, logged: pytest.LogCaptureFixture
) -> None:
    seen: list[str | None] = []
    logged.handler.addFilter(lambda record: seen.append(request_id.get()) or True)
    caller = await call(await serve(stage.app))
    await caller.get("/quick?token=x", Sidegate_Request_Id="r-7")
    [line] = [one for one in logged.records if one.message == "answered"]
    assert line.fields["path"] == "/quick"  # type: ignore[attr-defined]
    assert seen[-1] == "r-7"


async def test_the_callers_certificate_can_be_read(
    stage: Stage, serve: Any, call: Any, authority: Any, der_of: Any
) -> None:
    files = authority.issue("server", "spiffe://example.org/server")
    contexts = ReloadingContexts(files, client_ca=authority.bundle)
    site = await serve(stage.app, ssl=contexts.server)
    own = authority.issue("client", "spiffe://example.org/client")
    caller = await call(site, client_context(own, authority.bundle))
    assert int((await caller.get("/peer")).body) == len(der_of(own))


async def test_without_tls_there_is_no_certificate(stage: Stage, serve: Any, call: Any) -> None:
    assert (await (await call(await serve(stage.app))).get("/peer")).body == b"0"


def test_an_idle_connection_lives_15_s_at_most() -> None:
    with pytest.raises(ValueError, match=r"at most 15"):
        HttpLimits(keepalive_s=60)


async def test_a_site_that_tells_about_the_service_serves_to_the_end(
    stage: Stage, serve: Any, call: Any
) -> None:
    site = await serve(stage.app, serves_while_draining=True)
    await site.drain()
    assert (await (await call(site)).get("/quick")).status == 200


class Greeter(asyncio.Protocol):
    """Answers connections that begin with `hi` itself, and hands the others to the site."""

    def __init__(self, make: Callable[[], asyncio.Protocol]) -> None:
        self._make = make
        self._transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        transport = cast(asyncio.Transport, self._transport)
        if data.startswith(b"hi"):
            transport.write(b"hello")
            transport.close()
            return
        behind = self._make()
        transport.set_protocol(behind)
        behind.connection_made(transport)
        behind.data_received(data)


async def test_what_stands_before_a_site_may_answer_or_hand_on(
    stage: Stage, serve: Any, call: Any
) -> None:
    site = await serve(stage.app, front=lambda make: lambda: Greeter(make))
    greeted = await call(site)
    await greeted.send(b"hi\r\n")
    assert await greeted.reader.read() == b"hello"
    handed_on = await call(site)
    assert (await handed_on.get("/quick")).body == b"ok"
    await site.drain()
    assert (await handed_on.get("/quick")).status == 503
