"""Requests to the core over kept connections: one after another, replaced when dead, bounded."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatekeeper.core.core_requests import CoreLost, CoreRequests, UnixDialer, parse_head

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
HEAD = b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n"


async def request_of(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0])
    return head + await reader.readexactly(length)


def answer(body: bytes, *headers: str) -> bytes:
    lines = ["HTTP/1.1 200 OK", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


@pytest.fixture
async def serve(tmp_path: Path) -> AsyncIterator[Callable[..., Awaitable[CoreRequests]]]:
    """Serves bytes on a Unix socket; gives a pool of connections to it."""
    servers: list[asyncio.Server] = []
    pools: list[CoreRequests] = []
    connections: set[asyncio.Task[None]] = set()

    async def start(talk: Serve, connections_max: int = 4) -> CoreRequests:
        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            connections.add(task)
            try:
                await talk(reader, writer)
            except (asyncio.IncompleteReadError, ConnectionError):
                pass
            finally:
                connections.discard(task)
                writer.close()

        path = tmp_path / "core.sock"
        path.unlink(missing_ok=True)
        servers.append(await asyncio.start_unix_server(connected, path))
        dialer = UnixDialer(path)
        pool = CoreRequests(dialer, connections_max=connections_max, connect_timeout_s=1.0)
        pools.append(pool)
        return pool

    yield start
    for pool in pools:
        pool.close()
    for server in servers:
        server.close()
    for task in list(connections):
        task.cancel()
    await asyncio.gather(*connections, return_exceptions=True)


async def test_requests_follow_each_other_on_one_connection(
    serve: Callable[..., Awaitable[CoreRequests]],
) -> None:
    opened: list[int] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opened.append(1)
        while True:
            writer.write(answer((await request_of(reader))[-2:]))

    pool = await serve(talk)
    for body in (b"aa", b"bb", b"cc"):
        reply = await pool.ask(HEAD, [body], 1.0)
        assert (reply.status, reply.body) == (200, body)
    assert opened == [1]


async def test_an_answer_may_come_in_pieces_of_any_size(
    serve: Callable[..., Awaitable[CoreRequests]],
) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await request_of(reader)
            for byte in answer(b"whole"):
                writer.write(bytes([byte]))
                await asyncio.sleep(0)

    pool = await serve(talk)
    for _ in range(2):
        assert (await pool.ask(HEAD, [b"aa"], 5.0)).body == b"whole"


async def test_a_kept_connection_that_died_is_replaced_without_an_error(
    serve: Callable[..., Awaitable[CoreRequests]],
) -> None:
    opened: list[int] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opened.append(1)
        await request_of(reader)
        writer.write(answer(b"once"))
        if len(opened) == 1:
            await request_of(reader)  # closed without an answer to the second

    pool = await serve(talk)
    assert (await pool.ask(HEAD, [b"aa"], 1.0)).body == b"once"
    assert (await pool.ask(HEAD, [b"aa"], 1.0)).body == b"once"
    assert opened == [1, 1]


async def test_a_new_connection_that_dies_is_an_error_and_not_tried_for_ever(
    serve: Callable[..., Awaitable[CoreRequests]],
) -> None:
    opened: list[int] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opened.append(1)
        await request_of(reader)

    pool = await serve(talk)
    with pytest.raises(CoreLost):
        await pool.ask(HEAD, [b"aa"], 1.0)
    assert opened == [1]


async def test_close_in_an_answer_is_obeyed(
    serve: Callable[..., Awaitable[CoreRequests]],
) -> None:
    opened: list[int] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opened.append(1)
        await request_of(reader)
        writer.write(answer(b"bye", "Connection: close"))
        await reader.read()

    pool = await serve(talk)
    for _ in range(2):
        assert (await pool.ask(HEAD, [b"aa"], 1.0)).body == b"bye"
    assert opened == [1, 1]


@pytest.mark.parametrize(
    "bad",
    [
        b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n",
        b"HTTP/1.1 abc OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab",
        b"x" * 20_000,
    ],
)
async def test_an_answer_that_is_none_ends_the_connection(
    serve: Callable[..., Awaitable[CoreRequests]], bad: bytes
) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_of(reader)
        writer.write(bad)
        await reader.read()

    pool = await serve(talk)
    with pytest.raises(CoreLost):
        await pool.ask(HEAD, [b"aa"], 1.0)


async def test_silence_ends_in_time_and_the_late_answer_reaches_nobody(
    serve: Callable[..., Awaitable[CoreRequests]],
) -> None:
    late = asyncio.Event()
    bodies: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        body = (await request_of(reader))[-2:]
        bodies.append(body)
        if body == b"aa":
            await late.wait()
        writer.write(answer(body))
        await reader.read()

    pool = await serve(talk)
    with pytest.raises(CoreLost, match="in time"):
        await pool.ask(HEAD, [b"aa"], 0.05)
    late.set()
    assert (await pool.ask(HEAD, [b"bb"], 30.0)).body == b"bb"


async def test_connections_are_bounded_and_requests_wait_for_one(
    serve: Callable[..., Awaitable[CoreRequests]],
) -> None:
    now, most = 0, 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal now, most
        while True:
            body = (await request_of(reader))[-2:]
            now += 1
            most = max(most, now)
            await asyncio.sleep(0.01)
            now -= 1
            writer.write(answer(body))

    pool = await serve(talk, connections_max=2)
    bodies = [f"{number:02d}".encode() for number in range(10)]
    replies = await asyncio.gather(*(pool.ask(HEAD, [body], 30.0) for body in bodies))
    assert [reply.body for reply in replies] == bodies
    assert most == 2


async def test_a_large_body_waits_for_a_slow_reader(
    serve: Callable[..., Awaitable[CoreRequests]],
) -> None:
    size = 8_000_000
    head = f"POST / HTTP/1.1\r\nContent-Length: {size}\r\n\r\n".encode()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        got = await request_of(reader)
        writer.write(answer(str(len(got) - len(head)).encode()))
        await reader.read()

    pool = await serve(talk)
    pieces = [memoryview(bytes(100_000))] * 80
    assert (await pool.ask(head, pieces, 30.0)).body == str(size).encode()


async def test_nobody_there_is_an_error_at_once(tmp_path: Path) -> None:
    dialer = UnixDialer(tmp_path / "none.sock")
    pool = CoreRequests(dialer, connections_max=1, connect_timeout_s=1.0)
    with pytest.raises(CoreLost):
        await pool.ask(HEAD, [b"aa"], 1.0)


@given(st.binary(max_size=200))
def test_no_head_crashes_the_parser(head: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - any of its reasons
        parse_head(head)


@pytest.mark.parametrize(
    ("head", "parsed"),
    [
        (b"HTTP/1.1 503 No\r\nContent-Length: 7\r\nA: b", (503, 7, True)),
        (b"HTTP/1.1 200 OK\r\nA: b\r\ncontent-length:\t0", (200, 0, True)),
        (b"HTTP/1.1 200\r\nContent-Length: 1 \r\nconnection: Close", (200, 1, False)),
    ],
)
def test_a_head_is_read(head: bytes, parsed: tuple[int, int, bool]) -> None:
    assert parse_head(head) == parsed


@pytest.mark.parametrize(
    "lines",
    [
        b"",
        b"Content-Length: -1",
        b"Content-Length: 1x",
        b"Content-Length: 1\r\nContent-Length: 1",
        b"Content-Length: 1\r\nTransfer-Encoding: chunked",
        b"Content-Length: 1\r\ntransfer-encoding : chunked",
        b"X-Content-Length: 1",
    ],
)
def test_a_head_whose_length_is_in_doubt_is_refused(lines: bytes) -> None:
    with pytest.raises(ValueError, match="how long it is"):
        parse_head(b"HTTP/1.1 200 OK\r\n" + lines)


async def test_a_request_does_not_wait_for_a_connection_beyond_its_time(
    serve: Callable[..., Awaitable[CoreRequests]],
) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    pool = await serve(silent, connections_max=1)
    first = asyncio.create_task(pool.ask(HEAD, [b"aa"], 0.3))
    await asyncio.sleep(0)
    with pytest.raises(CoreLost, match="connections_max"):
        await pool.ask(HEAD, [b"bb"], 0.05)
    with pytest.raises(CoreLost, match="in time"):
        await first
