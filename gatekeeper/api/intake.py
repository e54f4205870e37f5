"""Request bodies: in time, within their size, and within what all of them together may take.

The only place that reads what callers send. Knows nothing of what is in a body.
"""

import asyncio

from aiohttp import web

from gatekeeper.errors import BadRequest, Overloaded, TooLarge, TooSlow

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Intake:
    """Reads bodies against one budget. Lives in one event loop.

    Invariant: `in_flight` is the number of bytes that callers' bodies hold in memory, and never
    above `in_flight_bytes_max`.
    """

    def __init__(self, *, in_flight_bytes_max: int, timeout_s: float) -> None:
        self._max = in_flight_bytes_max
        self._timeout_s = timeout_s
        self.in_flight = 0

    async def body(self, request: web.BaseRequest, bytes_max: int) -> "Body":
        """The request's body, of at most `bytes_max` bytes: `with await intake.body(…) as body`."""
        declared = request.content_length
        if declared is not None and declared > bytes_max:
            raise TooLarge(_too_large(bytes_max))
        _check_encoding(request)
        body = Body(self)
        try:
            body.grow(declared or 0)
            if "Expect" in request.headers:
                await _continue(request)
            body.data = await self._all_of(request, bytes_max, body)
        except TimeoutError as error:
            body.release()
            raise TooSlow(
                f"the body did not arrive within {self._timeout_s:.0f} s; send it faster, or in "
                "smaller requests"
            ) from error
        except BaseException:
            body.release()
            raise
        return body

    async def _all_of(self, request: web.BaseRequest, bytes_max: int, body: "Body") -> bytes:
        content = request.content
        if content.is_eof() and request.content_length:
            # The whole body came with its headers, as a small one does: nothing to wait for.
            return content.read_nowait()
        async with asyncio.timeout(self._timeout_s):
            return await _read(request, bytes_max, body)

    def take(self, count: int) -> None:
        """Take room for `count` bytes, or raise Overloaded."""
        if self.in_flight + count > self._max:
            raise Overloaded(
                f"requests of {self.in_flight} bytes are in flight; the limit is {self._max}", 1.0
            )
        self.in_flight += count

    def give_back(self, count: int) -> None:
        """Give room back."""
        self.in_flight -= count


class Body:
    """The bytes of one request, and the room that they take until the block ends."""

    __slots__ = ("_count", "_intake", "data")

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._count = 0
        self.data = b""

    def __enter__(self) -> bytes:
        return self.data

    def __exit__(self, *error: object) -> None:
        self.release()

    def grow(self, count: int) -> None:
        """Hold room for `count` bytes in all."""
        if count > self._count:
            self._intake.take(count - self._count)
            self._count = count

    def release(self) -> None:
        """Give the room back. Harmless when it was given back before."""
        self._intake.give_back(self._count)
        self._count = 0


async def _read(request: web.BaseRequest, bytes_max: int, body: Body) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while chunk := await request.content.readany():
        size += len(chunk)
        if size > bytes_max:
            raise TooLarge(_too_large(bytes_max))
        body.grow(size)
        chunks.append(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


async def _continue(request: web.BaseRequest) -> None:
    if request.headers["Expect"].lower() != "100-continue":
        raise BadRequest("Expect: only 100-continue is known")
    await request.writer.write(_CONTINUE)
    # As aiohttp's own handler does: an interim answer does not count as the answer's begin.
    request.writer.output_size = 0


def _check_encoding(request: web.BaseRequest) -> None:
    encoding = request.headers.get("Content-Encoding", "identity")
    if encoding.lower() != "identity":
        raise BadRequest("Content-Encoding: bodies are read as they are; leave it out")


def _too_large(bytes_max: int) -> str:
    return f"the body is over {bytes_max} bytes, the limit of this route; send less at once"
