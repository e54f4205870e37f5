"""The client of the gatekeepers: sends, reads and opens streams, at whichever of them answers.

It passes bytes and says what came back; it decides nothing. Every new connection proves the
gatekeeper's SPIFFE id before a byte is sent. Where an attempt surely reached nobody, the next
gatekeeper is tried at once; where it may have, the caller is told, for only it may repeat it.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import urlencode

import aiohttp
from aiohttp import hdrs

from hosting.connector import SpiffeConnector, WrongServer
from hosting.tls import ClientTls
from hosting.trace_context import TRACEPARENT, TRACESTATE, TraceContext
from log_format.limits import BODY_BYTES_MAX, ENVELOPE_BYTES_MAX
from sidecar.errors import Denied, OverQuota
from sidecar.uplink.answer_parser import Answer
from sidecar.uplink.credentials import Credentials, CredentialSource
from sidecar.uplink.wire import CONNECT_TIMEOUT_S, Unreachable, Wire

__all__ = ["Answer", "Gateway", "Unreachable"]

log = logging.getLogger("sidegate.sidecar")

FRAMES_TYPE: Final = "application/vnd.sidegate.frames"
ANSWER_TIMEOUT_S: Final = 10.0
"""For the answer to an append: a core on a slow disk needs a second or two."""
TOKEN_WAIT_S: Final = 5.0
"""How long a request waits for the very first token, or for one in place of a refused one."""
OLD_CONNECTIONS_S: Final = 30.0
"""How long connections of an old certificate may finish what they carry."""


class Gateway:
    """A hosting component. Belongs to the event loop.

    `on_lost` is called when the gatekeeper in use has closed a connection that was idle.
    """

    name = "gateway"

    def __init__(
        self, urls: Sequence[str], gatekeeper_id: str, credentials: CredentialSource
    ) -> None:
        self._urls = [url.rstrip("/") for url in urls]
        self._at = 0
        self._gatekeeper_id = gatekeeper_id
        self._credentials = credentials
        self._tls: ClientTls | None = None
        self._wires: list[Wire] = []
        self._streams: aiohttp.ClientSession | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self.on_lost: Callable[[], None] = lambda: None

    @property
    def url(self) -> str:
        """The gatekeeper in use."""
        return self._urls[self._at]

    async def start(self) -> None:
        """Connections are made when they are needed."""

    async def drain(self) -> None:
        """Requests end with those who wait for them."""

    async def stop(self) -> None:
        """Close every connection."""
        for task in self._closing:
            task.cancel()
        await asyncio.gather(*self._closing, return_exceptions=True)
        for wire in self._wires:
            wire.abort()
        if self._streams is not None:
            await self._streams.close()

    async def append(self, frames: Sequence[bytes], trace: TraceContext | None = None) -> Answer:
        """Send frames in one request, which belongs to `trace`."""
        return await self.ask(
            "POST", "/v1/append", body=frames, content_type=FRAMES_TYPE, trace=trace
        )

    async def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Sequence[bytes] | None = None,
        content_type: str = "application/json",
        timeout_s: float = ANSWER_TIMEOUT_S,
        if_match: int | None = None,
        trace: TraceContext | None = None,
    ) -> Answer:
        """One request with a whole answer, at the first gatekeeper that can be reached.

        With `if_match`, the log does it only if that is still the thing's version.
        """
        target = f"{path}?{urlencode(query)}" if query else path
        more = b"" if if_match is None else b'If-Match: "%d"\r\n' % if_match
        more += trace_lines(trace)
        answer = await self._ask(method, target, body, content_type, timeout_s, more)
        if answer.status == 401:
            # Nothing was done with the request; a token that was revoked or bound to an older
            # certificate is replaced, once.
            answer = await self._ask(method, target, body, content_type, timeout_s, more)
        return answer

    @asynccontextmanager
    async def stream(self) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """A WebSocket to a gatekeeper, closed at the end of the block."""
        pair = await self._pair()
        self._use(pair.tls)
        try:
            socket = await self._session(pair.tls).ws_connect(
                f"{self.url}/v1/stream",
                headers={hdrs.AUTHORIZATION: f"Bearer {pair.token}"},
                compress=0,
                max_msg_size=ENVELOPE_BYTES_MAX + BODY_BYTES_MAX + 8,
                timeout=aiohttp.ClientWSTimeout(ws_receive=None, ws_close=1.0),
            )
        except aiohttp.WSServerHandshakeError as error:
            if error.status == 401:
                self._credentials.refused(pair.token)
            detail = f"{self.url} refuses a stream with status {error.status}"
            if error.status == 429:
                wait = error.headers.get(hdrs.RETRY_AFTER, "1") if error.headers else "1"
                raise OverQuota(detail, headers={hdrs.RETRY_AFTER: wait}) from error
            if error.status == 403:
                raise Denied(detail) from error
            raise Unreachable(detail, sent=True) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            reason = f"{self.url}: {str(error) or type(error).__name__}"
            sent = not isinstance(error, aiohttp.ClientConnectorError | WrongServer)
            raise self._failed(Unreachable(reason, sent=sent)) from error
        try:
            yield socket
        finally:
            await socket.close()

    async def _ask(
        self,
        method: str,
        target: str,
        body: Sequence[bytes] | None,
        content_type: str,
        timeout_s: float,
        more: bytes,
    ) -> Answer:
        pair = await self._pair()
        self._use(pair.tls)
        for left in range(len(self._urls) - 1, -1, -1):
            wire = self._wires[self._at]
            head = request_head(
                method, target, wire.host_header + more, pair.token, body, content_type
            )
            try:
                answer = await wire.exchange(head, body or (), timeout_s, content_type)
            except Unreachable as failure:
                self._failed(failure)
                if failure.sent or not left:
                    raise
                continue
            if answer.status == 401:
                self._credentials.refused(pair.token)
            return answer
        raise AssertionError("the loop over the gatekeepers ends by return or raise")

    async def _pair(self) -> Credentials:
        pair = self._credentials.current
        if pair is not None:
            return pair
        try:
            async with asyncio.timeout(TOKEN_WAIT_S):
                return await self._credentials.wait()
        except TimeoutError as error:
            raise Unreachable(
                self._credentials.error or "no access token in time", sent=False
            ) from error

    def _use(self, tls: ClientTls) -> None:
        """Make connections with this certificate; those of an older one finish and close."""
        if self._tls is not None and self._tls.version == tls.version:
            return
        self._tls = tls
        for wire in self._wires:
            wire.close()
        self._wires = [
            Wire(url, tls.context, self._gatekeeper_id, self._lost) for url in self._urls
        ]
        if self._streams is not None:
            task = asyncio.create_task(_close_later(self._streams))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
            self._streams = None

    def _session(self, tls: ClientTls) -> aiohttp.ClientSession:
        """The session for streams, made when the first one is opened."""
        if self._streams is None:
            self._streams = aiohttp.ClientSession(
                connector=SpiffeConnector(tls.context, [self._gatekeeper_id], limit=0),
                timeout=aiohttp.ClientTimeout(sock_connect=CONNECT_TIMEOUT_S),
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._streams

    def _failed(self, failure: Unreachable) -> Unreachable:
        """The next request goes to the next gatekeeper."""
        self._at = (self._at + 1) % len(self._urls)
        return failure

    def _lost(self) -> None:
        self.on_lost()


def request_head(
    method: str,
    target: str,
    host: bytes,
    token: str,
    body: Sequence[bytes] | None,
    content_type: str,
) -> bytes:
    """The head of a request, up to its empty line. `host` may have further lines behind it. The
    fast way of a gatekeeper knows the lines of an append in exactly this order."""
    lines = [
        f"{method} {target} HTTP/1.1\r\n".encode("ascii"),
        host,
        f"Authorization: Bearer {token}\r\n".encode("ascii"),
    ]
    if body is not None:
        size = sum(map(len, body))
        lines.append(f"Content-Type: {content_type}\r\nContent-Length: {size}\r\n".encode("ascii"))
    return b"".join([*lines, b"\r\n"])


def trace_lines(trace: TraceContext | None) -> bytes:
    """The lines that pass a trace on."""
    if trace is None:
        return b""
    state = f"{TRACESTATE}: {trace.state}\r\n" if trace.state else ""
    return f"{TRACEPARENT}: {trace.traceparent}\r\n{state}".encode("ascii")


async def _close_later(session: aiohttp.ClientSession) -> None:
    try:
        await asyncio.sleep(OLD_CONNECTIONS_S)
    finally:
        await session.close()
