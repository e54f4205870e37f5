"""Whole requests to the core over kept connections, with as little between them as possible.

Every batch passes here, and a general HTTP client costs more than all decisions together, so this
speaks the little HTTP/1.1 that appends need: one request at a time on a connection, and an answer
with a Content-Length. Anything else ends the connection. The core is identified on each new one.
Knows nothing of frames, routes or callers. Lives in one event loop.
"""

import asyncio
import re
import ssl
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from hosting.spiffe import NotSpiffe, spiffe_id_of
from hosting.tls import ReloadingContexts

Buffer = bytes | memoryview

HEAD_BYTES_MAX: Final = 16 * 1024
"""The head of an answer; the core's have about 200 bytes."""
ANSWER_BYTES_MAX: Final = 4 * 1024 * 1024
"""An answer's body: the results of a thousand frames come to about 300 KiB."""
WRITE_BYTES: Final = 256 * 1024
"""Written in one piece: few calls for a usual request, bounded buffers for a large one."""
IDLE_S_MAX: Final = 10.0
"""The core closes idle connections after 15 s; ours go first, so that none is used as it closes."""
_STATUS: Final = re.compile(rb"HTTP/1\.1 (\d{3})(?: [^\r\n]*)?(?:\r\n|$)")
_LENGTH: Final = re.compile(rb"\r\nContent-Length:[ \t]*(\d{1,12})[ \t]*(?=\r\n|$)", re.IGNORECASE)
_CODING: Final = re.compile(rb"\r\nTransfer-Encoding[ \t]*:", re.IGNORECASE)
_CLOSE: Final = re.compile(rb"\r\nConnection:[^\r\n]*close", re.IGNORECASE)


class CoreLost(Exception):
    """No answer came. `fresh` tells that the connection was new, so that trying again on another
    would meet the same."""

    def __init__(self, text: str, *, fresh: bool) -> None:
        super().__init__(text)
        self.fresh = fresh


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole answer."""

    status: int
    body: bytes


class Dialer(Protocol):
    """Opens connections to the core."""

    @property
    def version(self) -> int:
        """Changes when connections made before should no longer be used."""

    async def dial(self, protocol: "CoreConnection") -> None:
        """Connect and check who answers, or raise OSError or CoreLost."""


class TcpDialer:
    """mTLS to a host and port, to a server of one SPIFFE id."""

    def __init__(self, tls: ReloadingContexts, host: str, port: int, spiffe_id: str) -> None:
        self._tls = tls
        self._host = host
        self._port = port
        self._spiffe_id = spiffe_id

    @property
    def version(self) -> int:
        """The certificate's."""
        return self._tls.version

    async def dial(self, protocol: "CoreConnection") -> None:
        """Connect; a server of another identity is left before a byte is sent."""
        transport, _ = await asyncio.get_running_loop().create_connection(
            lambda: protocol,
            self._host,
            self._port,
            ssl=self._tls.client.context,
            server_hostname=self._host,
        )
        tls = transport.get_extra_info("ssl_object")
        try:
            server = spiffe_id_of(tls.getpeercert(binary_form=True) or b"")
        except NotSpiffe as error:
            transport.abort()
            raise CoreLost(f"the core's certificate: {error}", fresh=True) from error
        if server != self._spiffe_id:
            transport.abort()
            raise CoreLost(
                f"the server is {server}, where {self._spiffe_id} is expected", fresh=True
            )


class UnixDialer:
    """A Unix socket; its file's owner and mode say who listens."""

    version = 1

    def __init__(self, path: Path) -> None:
        self._path = path

    async def dial(self, protocol: "CoreConnection") -> None:
        """Connect."""
        await asyncio.get_running_loop().create_unix_connection(lambda: protocol, str(self._path))


class Head(NamedTuple):
    """Of an answer: its status, the length of its body, and whether the connection may be kept."""

    status: int
    length: int
    keep: bool


class CoreConnection(asyncio.Protocol):
    """One connection: a request, then its answer, then the next."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.used = False
        self.idle_since_s = 0.0
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._head: Head | None = None
        self._waiter: asyncio.Future[Reply] | None = None
        self._room: asyncio.Future[None] | None = None
        self._paused = False
        self._keep = True

    @property
    def usable(self) -> bool:
        """True while another request may be sent."""
        return self._transport is not None and self._keep and not self._transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._end(CoreLost(str(exc or "the core closed the connection"), fresh=not self.used))

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        if self._room is not None and not self._room.done():
            self._room.set_result(None)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        try:
            reply = self._parsed()
        except ValueError as error:
            self._fail(str(error))
            return
        if reply is not None:
            if self._waiter is None or self._waiter.done():
                self._fail("the core answered without being asked")
                return
            self._waiter.set_result(reply)

    def _fail(self, text: str) -> None:
        self._end(CoreLost(text, fresh=True))
        self.close()

    def _end(self, lost: CoreLost) -> None:
        for waiter in (self._waiter, self._room):
            if waiter is not None and not waiter.done():
                waiter.set_exception(lost)

    def _parsed(self) -> Reply | None:
        if self._head is None:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                if len(self._buffer) > HEAD_BYTES_MAX:
                    raise ValueError("the head of the core's answer is too large")
                return None
            self._head = parse_head(bytes(self._buffer[:end]))
            del self._buffer[: end + 4]
        head = self._head
        if len(self._buffer) < head.length:
            return None
        if len(self._buffer) > head.length:
            raise ValueError("the core's answer is longer than it says")
        body = bytes(self._buffer)
        self._buffer.clear()
        self._head = None
        self._keep = head.keep
        return Reply(head.status, body)

    async def ask(self, head: bytes, buffers: Sequence[Buffer], deadline_s: float) -> Reply:
        """Send a request and wait for its whole answer. One that is cancelled, or not answered by
        the deadline, ends the connection: its answer must not be taken for the next one's."""
        transport = self._transport
        if transport is None:
            raise CoreLost("the core closed the connection", fresh=not self.used)
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        late = loop.call_at(deadline_s, self._fail, "the core did not answer in time")
        try:
            if sum(map(len, buffers)) < WRITE_BYTES:
                transport.write(b"".join((head, *buffers)))
            else:
                await self._write(transport, (head, *buffers))
            reply = await self._waiter
        except BaseException:
            self.close()
            if self._waiter.done() and not self._waiter.cancelled():
                self._waiter.exception()
            raise
        finally:
            late.cancel()
            self._waiter = None
        self.used = True
        return reply

    async def _write(self, transport: asyncio.Transport, buffers: Sequence[Buffer]) -> None:
        pending: list[Buffer] = []
        size = 0
        for buffer in buffers:
            pending.append(buffer)
            size += len(buffer)
            if size >= WRITE_BYTES:
                transport.write(b"".join(pending))
                pending.clear()
                size = 0
                await self._drain()
        if pending:
            transport.write(b"".join(pending))

    async def _drain(self) -> None:
        if self._paused:
            self._room = asyncio.get_running_loop().create_future()
            try:
                await self._room
            finally:
                self._room = None

    def close(self) -> None:
        """End the connection at once."""
        self._keep = False
        if self._transport is not None:
            self._transport.abort()


class CoreRequests:
    """A pool of connections: the one used last goes first, so that few stay warm."""

    def __init__(self, dialer: Dialer, *, connections_max: int, connect_timeout_s: float) -> None:
        self._dialer = dialer
        self._connect_timeout_s = connect_timeout_s
        self._idle: deque[CoreConnection] = deque()
        self._places = asyncio.Semaphore(connections_max)
        self._open: set[CoreConnection] = set()

    async def ask(self, head: bytes, buffers: Sequence[Buffer], timeout_s: float) -> Reply:
        """One request. A kept connection that proves dead is replaced once: what is asked here may
        safely be asked twice. Raises CoreLost."""
        now_s = asyncio.get_running_loop().time()
        deadline_s = now_s + timeout_s
        if self._places.locked():
            await self._wait_for_place(deadline_s)
        else:
            await self._places.acquire()
        try:
            while True:
                connection = self._kept(now_s) or await self._dialled()
                try:
                    return await connection.ask(head, buffers, deadline_s)
                except CoreLost as lost:
                    if lost.fresh:
                        raise
                finally:
                    self._give_back(connection)
        finally:
            self._places.release()

    async def _wait_for_place(self, deadline_s: float) -> None:
        try:
            async with asyncio.timeout_at(deadline_s):
                await self._places.acquire()
        except TimeoutError as error:
            text = "every connection to the core is in use (core.connections_max)"
            raise CoreLost(text, fresh=True) from error

    def _kept(self, now_s: float) -> CoreConnection | None:
        while self._idle:
            connection = self._idle.pop()
            fresh_enough = now_s - connection.idle_since_s < IDLE_S_MAX
            if connection.usable and fresh_enough and connection.version == self._dialer.version:
                return connection
            self._drop(connection)
        return None

    async def _dialled(self) -> CoreConnection:
        connection = CoreConnection(self._dialer.version)
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                await self._dialer.dial(connection)
        except (OSError, ssl.SSLError) as error:
            raise CoreLost(str(error) or type(error).__name__, fresh=True) from error
        self._open.add(connection)
        return connection

    def _give_back(self, connection: CoreConnection) -> None:
        if not connection.usable:
            self._drop(connection)
            return
        connection.idle_since_s = asyncio.get_running_loop().time()
        self._idle.append(connection)

    def _drop(self, connection: CoreConnection) -> None:
        connection.close()
        self._open.discard(connection)

    def close(self) -> None:
        """End every connection."""
        for connection in list(self._open):
            self._drop(connection)
        self._idle.clear()


def parse_head(head: bytes) -> Head:
    """What counts of an answer's head, or ValueError. Other headers are not looked at."""
    status = _STATUS.match(head)
    if status is None:
        raise ValueError("the core's answer is not HTTP/1.1")
    lengths = _LENGTH.findall(head)
    if len(lengths) != 1 or _CODING.search(head):
        raise ValueError("the core's answer does not say how long it is")
    length = int(lengths[0])
    if length > ANSWER_BYTES_MAX:
        raise ValueError(f"the core's answer is over {ANSWER_BYTES_MAX} bytes")
    return Head(int(status[1]), length, _CLOSE.search(head) is None)
