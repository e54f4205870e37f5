"""Reads a webhook's answer as far as it matters: its status, a few headers, and where it ends.

Pure. The app may be anything that listens, so HTTP/1.0 and lone line feeds are understood; what is
not HTTP is refused. The body is counted and thrown away but for its first words.
"""

import re
from typing import Final

HEAD_BYTES_MAX: Final = 64 * 1024
"""An answer's status line and headers, or one line between chunks."""
BODY_BYTES_MAX: Final = 64 * 1024
"""Read so that the connection can be used again; of a longer answer nothing more is read."""
EXCERPT_BYTES_MAX: Final = 120
"""Of a refusal's body, for whoever asks why a subscription is stuck."""
_STATUS: Final = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9]{2})(?:[ \t][^\r\n]*)?")
_SIZE: Final = re.compile(rb"[ \t]*([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?")
_KEPT: Final = frozenset({b"content-length", b"transfer-encoding", b"connection", b"retry-after"})
_BODILESS: Final = frozenset({204, 304})


class NotHttp(Exception):
    """Bytes that are no answer."""


class WebhookAnswer:
    """One answer. `status` is 0 until the head is there; `whole` once the last byte is."""

    __slots__ = (
        "_buffer", "_chunk_left", "_chunked", "_headers", "_left", "_old", "_size", "excerpt",
        "status", "whole",
    )  # fmt: skip

    def __init__(self) -> None:
        self.status = 0
        self.whole = False
        self.excerpt = b""
        self._buffer = b""
        self._headers: dict[bytes, bytes] = {}
        self._old = False
        self._left: int | None = 0
        self._chunked = False
        self._chunk_left = -1
        self._size = 0

    @property
    def too_long(self) -> bool:
        """More has come than is worth reading."""
        return self._size > BODY_BYTES_MAX or (self._left or 0) > BODY_BYTES_MAX

    @property
    def reusable(self) -> bool:
        """Whether the connection can carry another request."""
        connection = self._headers.get(b"connection", b"").lower()
        keeps = connection == b"keep-alive" if self._old else connection != b"close"
        return self.whole and keeps and self._left is not None

    @property
    def retry_after(self) -> str | None:
        """The header of that name."""
        value = self._headers.get(b"retry-after")
        return None if value is None else value.decode("latin-1")

    def feed(self, data: bytes) -> None:
        """Take in what has come, or raise NotHttp."""
        if self.status:
            self._take(data)
            return
        buffer = self._buffer = self._buffer + data if self._buffer else data
        while not self.status:
            end, skip = _end_of_head(buffer)
            if end < 0:
                if len(buffer) > HEAD_BYTES_MAX:
                    raise NotHttp("the head of the answer is too long")
                if len(buffer) >= 5 and not buffer.startswith(b"HTTP/"):
                    raise NotHttp("the answer is not HTTP")
                self._buffer = buffer
                return
            status = self._parse_head(buffer[:end])
            buffer = buffer[end + skip :]
            if status >= 200:
                # What comes before are 1xx answers, which announce another.
                self.status = status
        self._buffer = b""
        self._frame()
        self._take(buffer)

    def _parse_head(self, head: bytes) -> int:
        line, *fields = head.split(b"\n")
        match = _STATUS.fullmatch(line.rstrip(b"\r"))
        if match is None:
            raise NotHttp("the answer is not HTTP/1.1")
        self._old = match[1] == b"0"
        self._headers = {}
        for field in fields:
            name, colon, value = field.partition(b":")
            name = name.lower()
            if not colon:
                raise NotHttp("the answer has a malformed header")
            if name in _KEPT:
                if name in self._headers and name != b"connection":
                    raise NotHttp(f"the answer has two headers {name.decode('ascii')}")
                self._headers[name] = value.strip()
        return int(match[2])

    def _frame(self) -> None:
        length = self._headers.get(b"content-length")
        coding = self._headers.get(b"transfer-encoding")
        if self.status in _BODILESS:
            self._left = 0
        elif coding is not None:
            self._chunked = coding.lower() == b"chunked"
            self._left = 0 if self._chunked else None
        elif length is None:
            self._left = None
        elif not length.isdigit() or len(length) > 18:
            raise NotHttp("the answer's length is no number")
        else:
            self._left = int(length)
        self.whole = self._left == 0 and not self._chunked

    def _take(self, data: bytes) -> None:
        if self._chunked:
            self._take_chunks(data)
        elif self._left is None:
            self._count(data)
        elif data:
            if len(data) > self._left:
                raise NotHttp("more bytes than the answer has")
            self._count(data)
            self._left -= len(data)
            self.whole = self._left == 0

    def _count(self, data: bytes) -> None:
        self._size += len(data)
        if len(self.excerpt) < EXCERPT_BYTES_MAX:
            self.excerpt += data[: EXCERPT_BYTES_MAX - len(self.excerpt)]

    def _take_chunks(self, data: bytes) -> None:
        """`_chunk_left`: -1 before a size, -2 in the trailers, else bytes of a chunk to come,
        with the line end behind it."""
        buffer = self._buffer + data if self._buffer else data
        while buffer and not self.whole:
            if self._chunk_left > 0:
                piece, buffer = buffer[: self._chunk_left], buffer[self._chunk_left :]
                self._chunk_left -= len(piece)
                self._count(piece)
                if self.too_long:
                    self._buffer = b""
                    return
                continue
            end = buffer.find(b"\n")
            if end < 0:
                if len(buffer) > HEAD_BYTES_MAX:
                    raise NotHttp("the answer has a malformed chunk")
                break
            line, buffer = buffer[:end].rstrip(b"\r"), buffer[end + 1 :]
            self._chunk_line(line)
        self._buffer = buffer

    def _chunk_line(self, line: bytes) -> None:
        if self._chunk_left == 0:
            if line:
                raise NotHttp("the answer has a malformed chunk")
            self._chunk_left = -1
        elif self._chunk_left == -1:
            match = _SIZE.fullmatch(line)
            if match is None:
                raise NotHttp("the answer has a malformed chunk")
            self._chunk_left = int(match[1], 16) or -2
        elif not line:
            self.whole = True


def _end_of_head(buffer: bytes) -> tuple[int, int]:
    """Where the head ends and how long its end is; -1 where it goes on."""
    end = buffer.find(b"\r\n\r\n")
    plain = buffer.find(b"\n\n", 0, end if end >= 0 else len(buffer))
    if plain >= 0:
        return plain, 2
    return end, 4
