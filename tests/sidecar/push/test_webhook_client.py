"""Whatever an app does, a delivery ends in time and is judged by its status alone."""

import asyncio
import socket
import time
import tracemalloc

import pytest
from aiohttp import web

from sidecar.errors import ForbiddenDestination
from sidecar.push.destination import DestinationGuard, is_this_machines, parse_target
from sidecar.push.webhook_client import WebhookClient
from sidecar.push.webhook_connection import BODY_S_MAX


def guard(*allow, ports=(), endpoints=()):
    return DestinationGuard(
        allow or ("loopback",),
        own_ports=lambda: ports,
        own_endpoints=endpoints,
        is_local=is_this_machines,
    )


@pytest.fixture
async def client():
    made = WebhookClient(guard(), connections_max=8, context=None)
    await made.start()
    yield made
    await made.stop()


async def send(client, url, *, timeout_s=30.0, method="POST", body=b"{}"):
    headers = {"Content-Type": "application/json"}
    return await client.post(parse_target(url), method, headers, body, timeout_s)


class RawApp:
    """An app at the byte level: reads a request's head and does what it likes."""

    def __init__(self, behave):
        self._behave = behave
        self.requests = 0

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/"
        return self

    async def __aexit__(self, *_):
        self._server.close()

    async def _serve(self, reader, writer):
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                self.requests += 1
                await self._behave(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@pytest.mark.parametrize("status", [200, 201, 202, 204])
async def test_two_hundreds_are_delivered(client, hook, status):
    hook.answers = [status]
    verdict = await send(client, hook.url)
    assert (verdict.delivered, verdict.status) == (True, status)


@pytest.mark.parametrize("status", [400, 404, 410, 500, 503])
async def test_others_are_not_and_say_why(client, hook, status):
    hook.answers = [web.Response(status=status, text="out of\norder")]
    verdict = await send(client, hook.url)
    assert (verdict.delivered, verdict.reached, verdict.status) == (False, True, status)
    assert "out of order" in verdict.error


async def test_redirects_are_not_followed(client, hook):
    hook.answers = [web.Response(status=307, headers={"Location": hook.url + "/elsewhere"})]
    verdict = await send(client, hook.url)
    assert not verdict.delivered
    assert "redirects" in verdict.error
    assert len(hook.seen) == 1


async def test_an_app_that_sends_without_end_costs_no_memory(client):
    async def flood(_, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n")
        chunk = bytes(1 << 20)
        for _ in range(1024):
            writer.write(chunk)
            await writer.drain()

    async with RawApp(flood) as app:
        tracemalloc.start()
        verdict = await send(client, app.url)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert verdict.delivered
    assert peak < 16 << 20


async def test_an_app_that_hangs_fails_in_time(client, hook):
    async def hang(_):
        await asyncio.sleep(60)

    hook.answers = [hang]
    began = time.monotonic()
    verdict = await send(client, hook.url, timeout_s=1.0)
    assert time.monotonic() - began < 50
    assert (verdict.delivered, verdict.reached) == (False, True)
    assert "1000 ms" in verdict.error


async def test_an_app_that_drips_its_head_fails_in_time(client):
    async def drip(_, writer):
        for byte in b"HTTP/1.1 200 OK\r\n" * 1000:
            writer.write(bytes([byte]))
            await asyncio.sleep(0.02)

    async with RawApp(drip) as app:
        verdict = await send(client, app.url, timeout_s=0.2)
    assert not verdict.delivered


async def test_an_app_that_drips_its_body_is_judged_by_its_status(client):
    async def drip(_, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        while True:
            writer.write(b"x")
            await asyncio.sleep(0.05)

    async with RawApp(drip) as app:
        began = time.monotonic()
        verdict = await send(client, app.url)
    assert verdict.delivered
    assert time.monotonic() - began < BODY_S_MAX + 60


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 2", b"nonsense\r\n\r\n", b"\x16\x03\x01\x00"])
async def test_an_app_that_resets_or_talks_nonsense_has_failed(client, answer):
    async def reset(_, writer):
        writer.write(answer)
        linger = b"\x01\x00\x00\x00\x00\x00\x00\x00"
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()

    async with RawApp(reset) as app:
        verdict = await send(client, app.url)
        assert (verdict.delivered, verdict.reached) == (False, True)
        assert app.requests == 1


async def test_a_put_is_not_repeated_by_the_library_when_a_kept_connection_breaks(client):
    answers = [b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"]

    async def once(reader, writer):
        await reader.readexactly(2)
        if answers:
            writer.write(answers.pop())
        else:
            writer.transport.abort()

    async with RawApp(once) as app:
        assert (await send(client, app.url, method="PUT")).delivered
        assert not (await send(client, app.url, method="PUT")).delivered
        assert app.requests == 2


async def test_where_nothing_listens_nothing_was_reached(client):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        verdict = await send(client, f"http://127.0.0.1:{port}/")
    assert (verdict.delivered, verdict.reached) == (False, False)


async def test_an_address_is_judged_at_every_send(hook):
    client = WebhookClient(guard("10.0.0.0/8"), connections_max=1, context=None)
    await client.start()
    for host in ("127.0.0.1", "localhost"):
        verdict = await send(client, f"http://{host}:{hook.port}/")
        assert not verdict.reached
        assert "push.allow" in verdict.error
    assert not hook.seen
    await client.stop()


async def test_a_name_is_resolved_judged_and_called(client, hook):
    assert (await send(client, f"http://localhost:{hook.port}/x")).delivered
    assert hook.seen[0][0].headers["Host"] == f"localhost:{hook.port}"


async def test_own_ports_are_refused_whatever_the_list_says(hook):
    for made in (
        WebhookClient(guard(ports=[hook.port]), connections_max=1, context=None),
        WebhookClient(guard(endpoints=[("localhost", hook.port)]), connections_max=1, context=None),
    ):
        await made.start()
        for host in ("127.0.0.1", "localhost"):
            with pytest.raises(ForbiddenDestination):
                await made.check(parse_target(f"http://{host}:{hook.port}/"))
            assert not (await send(made, f"http://{host}:{hook.port}/")).reached
        await made.stop()
    assert not hook.seen


async def test_a_name_that_cannot_be_judged_is_refused_unless_the_list_has_it():
    target = parse_target("http://does-not-exist.invalid/")
    client = WebhookClient(guard(), connections_max=1, context=None)
    with pytest.raises(ForbiddenDestination, match=r"push\.allow"):
        await client.check(target)
    await WebhookClient(guard("*.invalid"), connections_max=1, context=None).check(target)


async def test_before_its_start_and_after_its_stop_nothing_is_sent():
    client = WebhookClient(guard(), connections_max=1, context=None)
    assert not (await send(client, "http://127.0.0.1:1/")).reached


async def test_connections_are_kept_and_closed_when_idle(client, hook):
    for _ in range(3):
        assert (await send(client, hook.url)).delivered
    ports = {request.transport.get_extra_info("peername") for request, _ in hook.seen[-1:]}
    assert len(client._idle) == 1
    (idle,) = client._idle.values()
    assert len(idle) == len(ports) == 1
    idle[0].idle_since -= 60
    client._sweep()
    assert not client._idle


async def test_no_header_can_smuggle_another(client, hook):
    with pytest.raises(ValueError, match="line end"):
        await client.post(parse_target(hook.url), "POST", {"X": "a\r\nY: b"}, b"", 1.0)
    assert not hook.seen


async def test_https_is_verified_by_the_name_that_was_asked_for(mesh):
    import ssl

    gatekeeper = mesh.gatekeeper.listening
    trusting = ssl.create_default_context(cafile=mesh.authority.ca)
    trusting.load_cert_chain(mesh.folder / "app.pem", mesh.folder / "app.key")
    for context, reached in ((trusting, True), (None, False)):
        client = WebhookClient(guard(), connections_max=1, context=context)
        await client.start()
        verdict = await send(client, f"https://localhost:{gatekeeper.port}/v1/append")
        assert (verdict.reached, verdict.status) == ((True, 401) if reached else (False, None))
        await client.stop()
