"""WebSockets that hold clients to what RFC 6455 demands and aiohttp lets pass.

Frames of a client must be masked (section 5.1), close codes must be ones that may be sent (section
7.4), and a frame that declares more than the limit is refused by its head, not when it has come.
`FrameWatch` is pure; the rest puts it in front of aiohttp's own reader.
"""

import struct
from typing import Any, Final

from aiohttp import WebSocketError, WSCloseCode, web

_CLOSE: Final = 0x8
_MASK_BYTES: Final = 4
_RESERVED_CODES: Final = frozenset({1004, 1005, 1006, 1015})
"""Below 1012 all others are defined; 1012 to 1014 are registered; 3000 to 4999 are free to use."""


class Violation(Exception):
    """Bytes that fail the connection. `at` is where the frame begins in what was fed."""

    def __init__(self, code: int, text: str, at: int) -> None:
        super().__init__(text)
        self.code = code
        self.at = at


class FrameWatch:
    """Follows the frames of one client through whatever pieces they come in."""

    __slots__ = ("_begin", "_close", "_head", "_left", "_mask", "_payload_bytes_max")

    def __init__(self, payload_bytes_max: int) -> None:
        self._payload_bytes_max = payload_bytes_max
        self._head = b""
        self._left = 0
        self._mask = b""
        self._close: bytearray | None = None
        self._begin = 0

    def feed(self, data: bytes) -> None:
        """Look at the next bytes, or raise Violation."""
        at, end = 0, len(data)
        # A frame that began in an earlier piece begins before all of this one.
        self._begin = 0
        while at < end:
            if self._left:
                step = min(self._left, end - at)
                if self._close is not None:
                    self._close += data[at : at + step]
                self._left -= step
                at += step
            else:
                at = self._take_head(data, at)
            if not self._left and not self._head and self._close is not None:
                self._check_close(self._close)
                self._close = None

    def _take_head(self, data: bytes, at: int) -> int:
        """Take as much of a head as there is; returns where it goes on."""
        if not self._head:
            self._begin = at
        held = len(self._head)
        head = self._head + data[at : at + 14 - held]
        if len(head) < 2:
            self._head = head
            return len(data)
        if not head[1] & 0x80:
            raise Violation(
                WSCloseCode.PROTOCOL_ERROR, "a client's frame is not masked", self._begin
            )
        size, more = head[1] & 0x7F, {126: 2, 127: 8}.get(head[1] & 0x7F, 0)
        length = 2 + more + _MASK_BYTES
        if len(head) < length:
            self._head = head
            return len(data)
        if more:
            (size,) = struct.unpack_from("!H" if more == 2 else "!Q", head, 2)
        if size > self._payload_bytes_max:
            text = f"a frame of {size} bytes; the limit is {self._payload_bytes_max}"
            raise Violation(WSCloseCode.MESSAGE_TOO_BIG, text, self._begin)
        if head[0] & 0x0F == _CLOSE:
            self._close = bytearray()
            self._mask = head[length - _MASK_BYTES : length]
        self._left = size
        self._head = b""
        return at + length - held

    def _check_close(self, masked: bytearray) -> None:
        if len(masked) < 2:
            return
        code = (masked[0] ^ self._mask[0]) << 8 | masked[1] ^ self._mask[1]
        if code in _RESERVED_CODES or code >= 5000:
            raise Violation(
                WSCloseCode.PROTOCOL_ERROR, f"close code {code} may not be sent", self._begin
            )


class StrictWebSocketResponse(web.WebSocketResponse):
    """aiohttp's, with a watch over what comes in."""

    def __init__(self, *, heartbeat: float, payload_bytes_max: int) -> None:
        # aiohttp refuses from its size on, and not only above it.
        super().__init__(heartbeat=heartbeat, max_msg_size=payload_bytes_max + 1, compress=False)
        self._payload_bytes_max = payload_bytes_max

    def _post_start(self, request: web.BaseRequest, protocol: str | None, writer: Any) -> None:
        connection: Any = request.protocol
        # What came with the upgrade request must pass the watch too.
        early, connection._message_tail = connection._message_tail, b""
        super()._post_start(request, protocol, writer)
        watched = _Watched(self._parser, self._reader, FrameWatch(self._payload_bytes_max))
        connection._payload_parser = watched
        if early:
            watched.feed_data(early)


class _Watched:
    """Stands where aiohttp's reader does."""

    def __init__(self, parser: Any, queue: Any, watch: FrameWatch) -> None:
        self._parser = parser
        self._queue = queue
        self._watch = watch
        self._failed = False

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        if self._failed:
            return True, b""
        data = bytes(data)
        try:
            self._watch.feed(data)
        except Violation as violation:
            self._failed = True
            self._parser.feed_data(data[: violation.at])
            self._queue.set_exception(WebSocketError(violation.code, str(violation)))
            return True, b""
        fed: tuple[bool, bytes] = self._parser.feed_data(data)
        return fed

    def feed_eof(self) -> None:
        self._parser.feed_eof()
