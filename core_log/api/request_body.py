"""The bodies of requests: read within limits, one by one and all together.

May import aiohttp. What a body means is not known here.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import orjson
from aiohttp import web

JSON_BYTES_MAX: Final = 64 * 1024
"""A topic or a revocation comes to less than a thousand bytes."""
RETRY_AFTER_S: Final = 1


class BadJson(Exception):
    """A body that is not JSON."""


class BodyTooLarge(Exception):
    """A body above its limit; it was not read to its end."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the body may hold {limit} bytes; send it in parts")
        self.members = {"limit_bytes": limit}


class TooManyRequestBytes(Exception):
    """All bodies being read together are above their limit."""

    headers = {"Retry-After": str(RETRY_AFTER_S)}  # noqa: RUF012 - what the answer carries

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"append requests of more than {limit} bytes are being read "
            "(limits.request_bytes_max); ask again shortly"
        )


class Bodies:
    """Reads the bodies of append requests, at most `bytes_max` of them at a time.

    Without this, memory would grow with the number of connections times the greatest body. One
    body is always allowed, however small the limit.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self.bytes = 0

    @asynccontextmanager
    async def read(self, request: web.Request, limit: int) -> AsyncIterator[bytes]:
        """The whole body, which counts until the context ends. Joined once, and only if needed."""
        declared = request.content_length or 0
        if declared > limit:
            raise BodyTooLarge(limit)
        held = self.hold(declared)
        try:
            chunks: list[bytes] = []
            size = 0
            # Not `iter_chunks`: in aiohttp 3.14 that never ends on an empty body.
            async for chunk in request.content.iter_any():
                size += len(chunk)
                if size > limit:
                    raise BodyTooLarge(limit)
                # A body of undeclared length counts as it comes.
                held = self.hold(size, held)
                chunks.append(chunk)
            yield chunks[0] if len(chunks) == 1 else b"".join(chunks)
        finally:
            self.release(held)

    def hold(self, wanted: int, held: int = 0) -> int:
        """Count `wanted` bytes in place of the `held` ones; fewer than those change nothing.

        Returns how many are held now, which is for the caller to release.
        """
        more = wanted - held
        if more <= 0:
            return held
        if self.bytes > held and self.bytes + more > self._bytes_max:
            raise TooManyRequestBytes(self._bytes_max)
        self.bytes += more
        return wanted

    def release(self, held: int) -> None:
        """These bytes are no longer needed."""
        self.bytes -= held


async def read_json(request: web.Request) -> object:
    """A small JSON body, or BadJson. Whatever its content type says: it is read as JSON."""
    body = bytearray()
    async for chunk in request.content.iter_any():
        body += chunk
        if len(body) > JSON_BYTES_MAX:
            raise BodyTooLarge(JSON_BYTES_MAX)
    try:
        value: object = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadJson(f"the body is not JSON: {error}") from error
    return value
