"""A client that costs little, so that what is measured is the server: HTTP/1.1, one request each.

Knows just enough HTTP for a server that answers with Content-Length. The load generator shares
its two cores with what it measures; a full client would take half of them.
"""

import asyncio
import ssl
from collections.abc import Sequence
from pathlib import Path


class LeanConnection(asyncio.Protocol):
    """One kept-alive connection with at most one request under way."""

    def __init__(self) -> None:
        self._transport: asyncio.WriteTransport | None = None
        self._received = bytearray()
        self._answer: asyncio.Future[bytes] | None = None

    @classmethod
    async def open(
        cls, host: str, port: int, tls: ssl.SSLContext | None, socket_path: Path | None = None
    ) -> "LeanConnection":
        """Connect over TCP, with TLS where given, or to a Unix socket."""
        loop = asyncio.get_running_loop()
        if socket_path is not None:
            _, connection = await loop.create_unix_connection(cls, str(socket_path))
        else:
            _, connection = await loop.create_connection(
                cls, host, port, ssl=tls, server_hostname=host if tls else None
            )
        return connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        if isinstance(transport, asyncio.WriteTransport) or hasattr(transport, "writelines"):
            self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        """Collect until the answer is whole."""
        self._received += data
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self._received[:end]).lower()
        length = int(head.split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
        if len(self._received) < end + 4 + length or self._answer is None:
            return
        body = bytes(self._received[end + 4 : end + 4 + length])
        self._received.clear()
        answer, self._answer = self._answer, None
        if head.startswith(b"http/1.1 200"):
            answer.set_result(body)
        else:
            answer.set_exception(RuntimeError(f"{head.splitlines()[0]!r}: {body!r}"))

    def connection_lost(self, error: Exception | None) -> None:
        """Tell whoever waits."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error or ConnectionResetError("the server closed"))

    async def post(self, path: str, content_type: str, parts: Sequence[bytes]) -> bytes:
        """Send the parts as one body; the answer's body."""
        if self._transport is None:
            raise RuntimeError("not connected")
        self._answer = asyncio.get_running_loop().create_future()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {content_type}\r\n"
            f"Content-Length: {sum(map(len, parts))}\r\n\r\n"
        )
        self._transport.writelines([head.encode(), *parts])
        return await self._answer

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.close()
