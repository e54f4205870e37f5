"""The client of the core: appends, reads, topics and streams, over mTLS or a Unix socket.

It passes bytes and says what came back; it decides nothing. The core's identity is checked on
every new connection by the connector that it is given. Headers are chosen here, one by one: what
a caller sent reaches the core only where this module names it.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Protocol
from urllib.parse import quote, urlsplit

import aiohttp

from gatekeeper.core.core_requests import Buffer, CoreLost, CoreRequests, Dialer
from gatekeeper.errors import CoreUnavailable
from hosting.trace_context import TRACEPARENT, TRACESTATE, TraceContext
from log_format.limits import BODY_BYTES_MAX, ENVELOPE_BYTES_MAX

log = logging.getLogger("sidegate.gatekeeper.upstream")

FRAMES_TYPE: Final = "application/vnd.sidegate.frames"
RETRY_AFTER_S: Final = 1.0
"""What callers are told while the core is away: its restart takes about a second."""
ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024
"""A whole JSON answer of the core: a list of 10,000 topics comes to about 4 MiB."""
_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})
PASSED_BACK: Final = (
    "Content-Type",
    "ETag",
    "Retry-After",
    "Sidegate-Start-Offset",
    "Sidegate-End-Offset",
    "Sidegate-Next-Offset",
)
"""Headers of the core's answers that callers get to see."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer of the core."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class OnBehalf:
    """For whom a request is made: the core trusts these, because it admits gatekeepers only."""

    principal: str
    decision: str
    request_id: str
    trace: TraceContext | None = None

    def headers(self) -> dict[str, str]:
        """As the core reads them."""
        return {
            "Sidegate-Principal": header_text(self.principal),
            "Sidegate-Decision": header_text(self.decision),
            "Sidegate-Request-Id": header_text(self.request_id),
        }


def _trace(trace: TraceContext | None) -> str:
    """The header lines of a trace. Both values were checked when they were read."""
    if trace is None:
        return ""
    state = f"{TRACESTATE}: {trace.state}\r\n" if trace.state else ""
    return f"{TRACEPARENT}: {trace.traceparent}\r\n{state}"


def header_text(text: str) -> str:
    """A name as a header's value: what is not printable ASCII is percent-encoded, so that no name
    can end a line."""
    return text if text.isascii() and text.isprintable() else quote(text, safe=" /:@")


class Connectors(Protocol):
    """Makes connectors to the core; `version` changes when the old ones should no longer be used,
    because the gatekeeper's certificate was renewed."""

    @property
    def version(self) -> int: ...
    def make(self, limit: int) -> aiohttp.BaseConnector: ...


class _Pool:
    """A session that is replaced when the certificate is; requests under way keep the old one."""

    def __init__(self, connectors: Connectors, timeout: aiohttp.ClientTimeout) -> None:
        self._connectors = connectors
        self._timeout = timeout
        self._version = 0
        self._session: aiohttp.ClientSession | None = None
        self._closing: set[asyncio.Task[None]] = set()

    def session(self) -> aiohttp.ClientSession:
        """The session for a new request."""
        if self._session is None or self._version != self._connectors.version:
            self._retire()
            self._version = self._connectors.version
            self._session = aiohttp.ClientSession(
                connector=self._connectors.make(0),
                timeout=self._timeout,
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=("Accept", "Accept-Encoding", "User-Agent", "Content-Type"),
                trust_env=False,
            )
        return self._session

    def _retire(self) -> None:
        if self._session is not None:
            task = asyncio.create_task(_close_later(self._session, self._timeout.total or 0.0))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Close the session and those that were replaced."""
        for task in self._closing:
            task.cancel()
        await asyncio.gather(*self._closing, return_exceptions=True)
        if self._session is not None:
            await self._session.close()


async def _close_later(session: aiohttp.ClientSession, after_s: float) -> None:
    """Close a replaced session once its requests must have ended. Its streams end with it, and are
    opened again with the new certificate."""
    try:
        await asyncio.sleep(after_s)
    finally:
        await session.close()


class CoreClient:
    """A hosting component. `last_error` is None while the core answers.

    Appends have connections of their own (`core_requests.py`), bounded, because each is short.
    Reads wait and streams stay, so theirs are not bounded here: each belongs to a connection of a
    caller, and those are; and the revocations must never wait for a place.
    """

    name = "upstream"

    def __init__(
        self,
        base_url: str,
        connectors: Connectors,
        dialer: Dialer,
        *,
        connections_max: int,
        connect_timeout_s: float,
        answer_timeout_s: float,
    ) -> None:
        self._base = base_url.rstrip("/")
        self._timeout = aiohttp.ClientTimeout(
            total=answer_timeout_s, connect=None, sock_connect=connect_timeout_s
        )
        self._pool = _Pool(connectors, self._timeout)
        self._appends = CoreRequests(
            dialer, connections_max=connections_max, connect_timeout_s=connect_timeout_s
        )
        self._append_head = f"POST /v1/append HTTP/1.1\r\nHost: {urlsplit(base_url).netloc}\r\n"
        self._answer_timeout_s = answer_timeout_s
        self.last_error: str | None = "not asked yet"
        self.last_answer_at: float | None = None

    async def start(self) -> None:
        """Nothing to wait for: the core need not be there yet."""

    async def drain(self) -> None:
        """Nothing to refuse here: requests end with their callers."""

    async def stop(self) -> None:
        """Close every connection to the core."""
        self._appends.close()
        await self._pool.close()

    async def append(self, buffers: Sequence[Buffer], behalf: OnBehalf) -> Answer:
        """Hand frames to the core."""
        head = (
            f"{self._append_head}Content-Type: {FRAMES_TYPE}\r\n"
            f"Content-Length: {sum(map(len, buffers))}\r\n"
            f"Sidegate-Principal: {header_text(behalf.principal)}\r\n"
            f"Sidegate-Decision: {header_text(behalf.decision)}\r\n"
            f"Sidegate-Request-Id: {header_text(behalf.request_id)}\r\n{_trace(behalf.trace)}\r\n"
        )
        try:
            reply = await self._appends.ask(head.encode("ascii"), buffers, self._answer_timeout_s)
        except CoreLost as error:
            raise self._failed(error) from error
        self._answered()
        return Answer(reply.status, _NO_HEADERS, reply.body)

    async def ask(
        self,
        method: str,
        path: str,
        behalf: OnBehalf,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        if_match: str | None = None,
        topic: str | None = None,
        timeout_s: float | None = None,
    ) -> Answer:
        """A request with a JSON body, or none, and an answer of bounded size. `topic` is what was
        decided about, where the path does not say it."""
        headers = behalf.headers()
        if topic is not None:
            headers["Sidegate-Topic"] = topic
        if if_match is not None:
            headers["If-Match"] = if_match
        if body is not None:
            headers["Content-Type"] = "application/json"
        return await self._ask(method, path, headers, query=query, data=body, timeout_s=timeout_s)

    async def _ask(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        *,
        query: Mapping[str, str] | None = None,
        data: bytes | None = None,
        timeout_s: float | None = None,
    ) -> Answer:
        async with self._open(method, path, headers, query, data, timeout_s) as response:
            body = await _read_bounded(response)
            return Answer(response.status, passed_back(response), body)

    @asynccontextmanager
    async def read(
        self, query: Mapping[str, str], behalf: OnBehalf, *, wait_s: float
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """A read whose answer is streamed: the caller takes chunks from `response.content`."""
        timeout_s = (self._timeout.total or 0.0) + wait_s
        async with self._open(
            "GET", "/v1/read", behalf.headers(), query, None, timeout_s
        ) as response:
            yield response

    @asynccontextmanager
    async def stream(self, behalf: OnBehalf) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """A WebSocket to the core, closed at the end of the block."""
        session = self._pool.session()
        try:
            socket = await session.ws_connect(
                f"{self._base}/v1/stream",
                headers=behalf.headers(),
                autoclose=True,
                autoping=True,
                compress=0,
                max_msg_size=ENVELOPE_BYTES_MAX + BODY_BYTES_MAX + 8,
                timeout=aiohttp.ClientWSTimeout(ws_receive=None, ws_close=1.0),
            )
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._failed(error) from error
        self._answered()
        try:
            yield socket
        finally:
            await socket.close()

    @asynccontextmanager
    async def _open(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        query: Mapping[str, str] | None,
        data: bytes | None,
        timeout_s: float | None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        session = self._pool.session()
        timeout = (
            self._timeout
            if timeout_s is None
            else aiohttp.ClientTimeout(total=timeout_s, sock_connect=self._timeout.sock_connect)
        )
        try:
            async with session.request(
                method,
                self._base + path,
                headers=headers,
                params=query,
                data=data,
                timeout=timeout,
                allow_redirects=False,
            ) as response:
                self._answered()
                yield response
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._failed(error) from error

    def _answered(self) -> None:
        if self.last_error is not None:
            log.info("the core answers")
        self.last_error = None
        self.last_answer_at = time.monotonic()

    def _failed(self, error: BaseException) -> CoreUnavailable:
        text = str(error) or type(error).__name__
        if self.last_error is None:
            log.warning("the core does not answer", extra={"fields": {"error": text}})
        self.last_error = text
        return CoreUnavailable("the core can't be reached; try again", RETRY_AFTER_S)


async def _read_bounded(response: aiohttp.ClientResponse) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while chunk := await response.content.readany():
        size += len(chunk)
        if size > ANSWER_BYTES_MAX:
            raise aiohttp.ClientPayloadError(f"the answer is over {ANSWER_BYTES_MAX} bytes")
        chunks.append(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def passed_back(response: aiohttp.ClientResponse) -> dict[str, str]:
    """Those headers of an answer that the caller may see."""
    found = response.headers
    return {name: found[name] for name in PASSED_BACK if name in found}
