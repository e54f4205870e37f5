"""Connections to one gatekeeper for requests with a whole answer: HTTP/1.1 over TLS, kept open.

Thin: it connects, proves the server's SPIFFE id before any byte is sent, writes, and waits. Made
for a few large requests, and to notice at once when the other side goes away, which a pool that
looks at a connection only when it is used cannot.
"""

import asyncio
import ssl
from collections.abc import Callable, Sequence
from typing import Final, cast
from urllib.parse import urlsplit

from hosting.spiffe import NotSpiffe, spiffe_id_of
from sidecar.uplink.answer_parser import Answer, AnswerParser, BadHttp

CONNECT_TIMEOUT_S: Final = 3.0
"""TCP and TLS: a lost packet or two included; then the next gatekeeper is tried."""
CONNECTIONS_MAX: Final = 64
"""Open at one time to one gatekeeper; further requests wait for one of them."""


class Unreachable(Exception):
    """No whole answer came. `sent` is False only where surely nothing reached a gatekeeper."""

    def __init__(self, reason: str, *, sent: bool) -> None:
        super().__init__(reason)
        self.sent = sent


class Wire:
    """Connections to `url` with one certificate. Belongs to the event loop.

    `on_lost` is called when a connection that carried no request is closed by the other side.
    """

    def __init__(
        self, url: str, context: ssl.SSLContext, server_id: str, on_lost: Callable[[], None]
    ) -> None:
        parts = urlsplit(url)
        self._url = url
        self._host = parts.hostname or ""
        self._port = parts.port or 443
        self._context = context
        self._server_id = server_id
        self._on_lost = on_lost
        self._idle: dict[_Connection, str] = {}
        self._busy: set[_Connection] = set()
        self._places = asyncio.Semaphore(CONNECTIONS_MAX)
        self._closed = False
        self.host_header = f"Host: {parts.netloc}\r\n".encode("ascii")

    async def exchange(
        self, head: bytes, body: Sequence[bytes], timeout_s: float, kind: str = ""
    ) -> Answer:
        """Send one request and wait for its answer, or raise Unreachable.

        Requests of a `kind` have connections of their own: a gatekeeper serves one that carries
        nothing but appends on a shorter way.
        """
        async with self._places:
            connection = self._kept(kind) or await self._connect()
            self._busy.add(connection)
            try:
                answer = await connection.exchange(head, body, timeout_s)
            finally:
                self._busy.discard(connection)
            if answer.reusable and connection.open and not self._closed:
                self._idle[connection] = kind
            else:
                connection.close()
            return answer

    def close(self) -> None:
        """Close what is idle; busy connections close after their answer."""
        self._closed = True
        for connection in self._idle:
            connection.close()
        self._idle.clear()

    def abort(self) -> None:
        """Close everything now."""
        self.close()
        for connection in list(self._busy):
            connection.close()

    def _kept(self, kind: str) -> "_Connection | None":
        """The connection of this kind that was used last, so that few stay warm."""
        for connection in reversed(self._idle):
            if self._idle[connection] == kind:
                del self._idle[connection]
                return connection
        return None

    async def _connect(self) -> "_Connection":
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                _, connection = await loop.create_connection(
                    lambda: _Connection(self._url, self._lost),
                    self._host,
                    self._port,
                    ssl=self._context,
                    server_hostname=self._host,
                )
        except TimeoutError as error:
            raise Unreachable(f"{self._url}: no connection in time", sent=False) from error
        except OSError as error:
            raise Unreachable(f"{self._url}: {error}", sent=False) from error
        self._check_identity(connection)
        return connection

    def _check_identity(self, connection: "_Connection") -> None:
        """The chain was verified by the handshake; who it names is decided here."""
        der = connection.peer_certificate()
        try:
            server = spiffe_id_of(der) if der else "nobody"
        except NotSpiffe as error:
            connection.close()
            raise Unreachable(
                f"{self._url}: the server is no gatekeeper: {error}", sent=False
            ) from error
        if server != self._server_id:
            connection.close()
            raise Unreachable(
                f"{self._url}: the server is {server}, where {self._server_id} is expected",
                sent=False,
            )

    def _lost(self, connection: "_Connection") -> None:
        if connection in self._idle:
            del self._idle[connection]
            if not self._closed:
                self._on_lost()


class _Connection(asyncio.Protocol):
    """One connection, one request at a time."""

    def __init__(self, url: str, lost: Callable[["_Connection"], None]) -> None:
        self._url = url
        self._lost = lost
        self._transport: asyncio.Transport | None = None
        self._parser: AnswerParser | None = None
        self._answer: asyncio.Future[Answer] | None = None

    @property
    def open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def peer_certificate(self) -> bytes | None:
        secured = self._transport.get_extra_info("ssl_object") if self._transport else None
        return secured.getpeercert(binary_form=True) if secured is not None else None

    async def exchange(self, head: bytes, body: Sequence[bytes], timeout_s: float) -> Answer:
        if self._transport is None or not self.open:
            raise Unreachable(f"{self._url}: the connection was closed", sent=False)
        loop = asyncio.get_running_loop()
        self._parser = AnswerParser()
        self._answer = loop.create_future()
        timer = loop.call_later(timeout_s, self._time_up, timeout_s)
        try:
            self._transport.writelines([head, *body])
            return await self._answer
        except asyncio.CancelledError:
            self.close()
            raise
        finally:
            timer.cancel()
            self._answer = self._parser = None

    def data_received(self, data: bytes) -> None:
        if self._parser is None:
            # Nothing was asked for: whatever this is, it answers no request.
            self.close()
            return
        try:
            answer = self._parser.feed(data)
        except BadHttp as error:
            self._fail(str(error))
            return
        if answer is not None and self._answer is not None and not self._answer.done():
            self._answer.set_result(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._answer is not None and not self._answer.done() and self._parser is not None:
            whole = self._parser.end()
            if whole is not None:
                self._answer.set_result(whole)
            else:
                reason = str(exc) if exc else "the server closed the connection"
                self._answer.set_exception(Unreachable(f"{self._url}: {reason}", sent=True))
        self._lost(self)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _time_up(self, timeout_s: float) -> None:
        self._fail(f"no answer within {timeout_s:g} s")

    def _fail(self, reason: str) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(Unreachable(f"{self._url}: {reason}", sent=True))
        self.close()
