"""Connections to a gatekeeper, against a TLS server that says whatever bytes a test wants."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from sidecar.uplink.wire import CONNECTIONS_MAX, Unreachable, Wire

SERVER_ID = "spiffe://test/wire-server"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Server:
    """One TLS server; `serve` decides what a connection does."""

    def __init__(self) -> None:
        self.serve: Serve = answer_all
        self.connections = 0
        self.port = 0

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await self.serve(reader, writer)
        writer.transport.abort()


async def answer_all(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK)


def say(data: bytes) -> Serve:
    """Answer the first request with these bytes, then close."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(data)
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    return serve


@pytest.fixture
async def server(authority: Any) -> AsyncIterator[Server]:
    server = Server()
    context = authority.server_context(authority.issue("wire-server", SERVER_ID))
    listening = await asyncio.start_server(server.connected, "127.0.0.1", 0, ssl=context)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()


@pytest.fixture
def client_context(authority: Any) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authority.ca)
    context.load_cert_chain(*authority.issue("wire-client", "spiffe://test/wire-client"))
    return context


@pytest.fixture
async def wires(
    server: Server, client_context: ssl.SSLContext
) -> AsyncIterator[Callable[..., Wire]]:
    made: list[Wire] = []

    def make(server_id: str = SERVER_ID, on_lost: Callable[[], None] = lambda: None) -> Wire:
        url = f"https://127.0.0.1:{server.port}"
        made.append(Wire(url, client_context, server_id, on_lost))
        return made[-1]

    yield make
    for wire in made:
        wire.abort()


async def ask(wire: Wire, timeout_s: float = 30.0) -> bytes:
    head = b"GET /v1/status HTTP/1.1\r\n" + wire.host_header + b"\r\n"
    return (await wire.exchange(head, (), timeout_s)).body


async def test_requests_one_after_the_other_share_a_connection(server, wires) -> None:
    wire = wires()
    assert [await ask(wire) for _ in range(3)] == [b"ok"] * 3
    assert server.connections == 1


async def test_requests_at_the_same_time_have_connections_of_their_own_up_to_the_limit(
    server, wires
) -> None:
    held: list[asyncio.StreamWriter] = []
    full = asyncio.Event()

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        held.append(writer)
        if len(held) == CONNECTIONS_MAX:
            full.set()
        await full.wait()
        writer.write(OK)
        await answer_all(reader, writer)

    server.serve = hold
    wire = wires()
    async with asyncio.TaskGroup() as group:
        asked = [group.create_task(ask(wire)) for _ in range(CONNECTIONS_MAX + 5)]
    assert {task.result() for task in asked} == {b"ok"}
    assert server.connections == CONNECTIONS_MAX


async def test_the_body_follows_the_head_as_it_is(server, wires) -> None:
    got: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        got.set_result(await reader.readexactly(6))
        writer.write(OK)
        await reader.read()

    server.serve = take
    wire = wires()
    await wire.exchange(b"POST / HTTP/1.1\r\nContent-Length: 6\r\n\r\n", [b"abc", b"", b"def"], 30)
    assert await got == b"abcdef"


async def test_a_server_with_another_identity_is_sent_nothing(server, wires) -> None:
    heard: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def listen(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        try:
            heard.set_result(await reader.read())
        except ConnectionError:
            heard.set_result(b"")

    server.serve = listen
    with pytest.raises(Unreachable, match="the server is spiffe://test/wire-server") as failed:
        await ask(wires("spiffe://test/gatekeeper"))
    assert not failed.value.sent
    assert await heard == b""


async def test_where_nobody_listens_nothing_was_sent(client_context) -> None:
    listening = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    listening.close()
    await listening.wait_closed()
    wire = Wire(f"https://127.0.0.1:{port}", client_context, SERVER_ID, lambda: None)
    with pytest.raises(Unreachable) as failed:
        await ask(wire)
    assert not failed.value.sent


BROKEN = {
    "nothing": b"",
    "half a head": b"HTTP/1.1 200 OK\r\nContent-Le",
    "half a body": b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf",
    "half a chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhalf",
    "no HTTP": b"SSH-2.0-OpenSSH\r\n\r\n",
    "more than the answer": OK + OK,
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=list(BROKEN))
async def test_an_answer_that_is_not_whole_leaves_the_request_in_doubt(server, wires, data) -> None:
    server.serve = say(data)
    wire = wires()
    with pytest.raises(Unreachable) as failed:
        await ask(wire)
    assert failed.value.sent, "it may have been done"
    server.serve = answer_all
    assert await ask(wire) == b"ok", "and the next request gets an answer of its own"
    assert server.connections == 2


async def test_an_answer_without_a_length_ends_with_its_connection(server, wires) -> None:
    server.serve = say(b"HTTP/1.1 200 OK\r\n\r\nuntil the end")
    assert await ask(wires()) == b"until the end"


async def test_a_connection_that_the_server_wants_closed_is_not_used_again(server, wires) -> None:
    server.serve = say(OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
    lost: list[bool] = []
    wire = wires(on_lost=lambda: lost.append(True))
    assert [await ask(wire), await ask(wire)] == [b"ok", b"ok"]
    assert server.connections == 2
    assert not lost, "an announced end is no loss"


async def test_no_answer_in_time_is_in_doubt_and_its_late_answer_is_nobodys(server, wires) -> None:
    release = asyncio.Event()

    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if server.connections == 1:
            await release.wait()
            writer.write(OK.replace(b"ok", b"NO"))
        else:
            writer.write(OK)
        await reader.read()

    server.serve = late
    wire = wires()
    with pytest.raises(Unreachable, match="no answer within") as failed:
        await ask(wire, timeout_s=0.01)
    assert failed.value.sent
    release.set()
    assert await ask(wire) == b"ok"


async def test_a_request_that_is_cancelled_takes_its_connection_with_it(server, wires) -> None:
    asked = asyncio.Event()

    async def hang(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.set()
        await reader.read()

    server.serve = hang
    wire = wires()
    task = asyncio.create_task(ask(wire))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    server.serve = answer_all
    assert await ask(wire) == b"ok"
    assert server.connections == 2


@pytest.mark.parametrize("unasked", [b"", OK])
async def test_an_idle_connection_that_ends_or_speaks_unasked_is_lost_at_once(
    server, wires, unasked
) -> None:
    end = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK)
        await end.wait()
        writer.write(unasked)
        await writer.drain()
        if unasked:
            await reader.read()

    server.serve = serve
    lost = asyncio.Event()
    wire = wires(on_lost=lost.set)
    assert await ask(wire) == b"ok"
    end.set()
    await lost.wait()
    server.serve = answer_all
    assert await ask(wire) == b"ok"
    assert server.connections == 2


async def test_a_closed_wire_lets_a_request_finish_and_an_aborted_one_does_not(
    server, wires
) -> None:
    asked, release = asyncio.Event(), asyncio.Event()

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.set()
        await release.wait()
        writer.write(OK)
        await reader.read()

    server.serve = hold
    wire = wires()
    task = asyncio.create_task(ask(wire))
    await asked.wait()
    wire.close()
    release.set()
    assert await task == b"ok"

    asked.clear()
    release.clear()
    wire = wires()
    task = asyncio.create_task(ask(wire))
    await asked.wait()
    wire.abort()
    with pytest.raises(Unreachable) as failed:
        await task
    assert failed.value.sent
    release.set()
