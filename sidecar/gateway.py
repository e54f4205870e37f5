"""The client of the gatekeepers: sends, reads and opens streams, at whichever of them answers.

It passes bytes and says what came back; it decides nothing. Every new connection proves the
gatekeeper's SPIFFE id before a byte is sent. Where an attempt surely reached nobody, the next
gatekeeper is tried at once; where it may have, the caller is told, for only it may repeat it.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
import orjson
from aiohttp import hdrs

from hosting.connector import SpiffeConnector, WrongServer
from log_format.limits import BODY_BYTES_MAX, ENVELOPE_BYTES_MAX
from sidecar.credentials import Credentials, CredentialSource
from sidecar.errors import Denied, OverQuota

log = logging.getLogger("sidegate.sidecar")

FRAMES_TYPE: Final = "application/vnd.sidegate.frames"
CONNECT_TIMEOUT_S: Final = 3.0
"""TCP and TLS to a gatekeeper: a lost packet or two included; then the next one is tried."""
ANSWER_TIMEOUT_S: Final = 10.0
"""For the answer to an append: a core on a slow disk needs a second or two."""
TOKEN_WAIT_S: Final = 5.0
"""How long a request waits for the very first token, or for one in place of a refused one."""
ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024
"""A gatekeeper's whole answer: its read limit of 8 MiB, and a batch that goes beyond it."""
KEEPALIVE_S: Final = 10.0
"""Below the 15 s after which a gatekeeper closes: no request meets a closing connection."""
OLD_SESSION_S: Final = 30.0
"""How long connections of an old certificate may finish what they carry."""


class Unreachable(Exception):
    """No whole answer came. `sent` is False only where surely nothing reached a gatekeeper."""

    def __init__(self, reason: str, *, sent: bool) -> None:
        super().__init__(reason)
        self.sent = sent


@dataclass(frozen=True, slots=True)
class Answer:
    """A gatekeeper's whole answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def document(self) -> Any:
        """The body as JSON, or None where it is none."""
        try:
            return orjson.loads(self.body)
        except orjson.JSONDecodeError:
            return None


class Gateway:
    """A hosting component. Belongs to the event loop."""

    name = "gateway"

    def __init__(
        self, urls: Sequence[str], gatekeeper_id: str, credentials: CredentialSource
    ) -> None:
        self._urls = [url.rstrip("/") for url in urls]
        self._at = 0
        self._gatekeeper_id = gatekeeper_id
        self._credentials = credentials
        self._session: aiohttp.ClientSession | None = None
        self._session_version = 0
        self._closing: set[asyncio.Task[None]] = set()

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
        if self._session is not None:
            await self._session.close()

    async def append(self, frames: Sequence[bytes]) -> Answer:
        """Send frames in one request."""
        body = frames[0] if len(frames) == 1 else b"".join(frames)
        return await self.ask("POST", "/v1/append", body=body, content_type=FRAMES_TYPE)

    async def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout_s: float = ANSWER_TIMEOUT_S,
    ) -> Answer:
        """One request with a whole answer, at the first gatekeeper that can be reached."""
        answer = await self._ask(method, path, query, body, content_type, timeout_s)
        if answer.status == 401:
            # Nothing was done with the request; a token that was revoked or bound to an older
            # certificate is replaced, once.
            answer = await self._ask(method, path, query, body, content_type, timeout_s)
        return answer

    @asynccontextmanager
    async def stream(self) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """A WebSocket to a gatekeeper, closed at the end of the block."""
        pair = await self._pair()
        session = self._use(pair)
        try:
            socket = await session.ws_connect(
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
            raise self._failed(error) from error
        try:
            yield socket
        finally:
            await socket.close()

    async def _ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: bytes | None,
        content_type: str,
        timeout_s: float,
    ) -> Answer:
        pair = await self._pair()
        session = self._use(pair)
        headers = {hdrs.AUTHORIZATION: f"Bearer {pair.token}"}
        if body is not None:
            headers[hdrs.CONTENT_TYPE] = content_type
        timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=CONNECT_TIMEOUT_S)
        for left in range(len(self._urls) - 1, -1, -1):
            try:
                async with session.request(
                    method,
                    self.url + path,
                    params=query,
                    data=body,
                    headers=headers,
                    timeout=timeout,
                    allow_redirects=False,
                ) as response:
                    whole = await _read_bounded(response)
                    if response.status == 401:
                        self._credentials.refused(pair.token)
                    return Answer(response.status, response.headers, whole)
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                failure = self._failed(error)
                if failure.sent or not left:
                    raise failure from error
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

    def _use(self, pair: Credentials) -> aiohttp.ClientSession:
        """The session for a pair; a new certificate begins a new one."""
        if self._session is None or self._session_version != pair.tls.version:
            if self._session is not None:
                task = asyncio.create_task(_close_later(self._session))
                self._closing.add(task)
                task.add_done_callback(self._closing.discard)
            connector = SpiffeConnector(
                pair.tls.context, [self._gatekeeper_id], limit=0, keepalive_s=KEEPALIVE_S
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=("Accept", "Accept-Encoding", "User-Agent", "Content-Type"),
            )
            self._session_version = pair.tls.version
        return self._session

    def _failed(self, error: BaseException) -> Unreachable:
        sent = not isinstance(
            error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError | WrongServer
        )
        reason = f"{self.url}: {str(error) or type(error).__name__}"
        self._at = (self._at + 1) % len(self._urls)
        return Unreachable(reason, sent=sent)


async def _close_later(session: aiohttp.ClientSession) -> None:
    try:
        await asyncio.sleep(OLD_SESSION_S)
    finally:
        await session.close()


async def _read_bounded(response: aiohttp.ClientResponse) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while chunk := await response.content.readany():
        size += len(chunk)
        if size > ANSWER_BYTES_MAX:
            raise aiohttp.ClientPayloadError(f"the answer is over {ANSWER_BYTES_MAX} bytes")
        chunks.append(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)
