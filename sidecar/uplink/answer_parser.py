"""Reads one HTTP/1.1 answer from bytes as they arrive. Pure, and strict about framing.

RFC 9112: a length that is given twice, or both as a number and as chunks, is refused, because two
readers could see two different answers in it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

HEAD_BYTES_MAX: Final = 64 * 1024
"""An answer's status line and headers."""
ANSWER_BYTES_MAX: Final = 32 * 1024 * 1024
"""A gatekeeper's read limit of 8 MiB, and a batch of the greatest size that goes beyond it."""
_STATUS: Final = re.compile(rb"HTTP/1\.1 ([1-5][0-9]{2})(?: [^\r\n]*)?")
_FIELD: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n\x00]*)")
_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,8})(?:;[^\r\n]*)?")
_BODILESS: Final = frozenset({204, 304})


class BadHttp(Exception):
    """Bytes that are no answer. The connection cannot be used any more."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    reusable: bool = True

    def document(self) -> Any:
        """The body as JSON, or None where it is none."""
        try:
            return orjson.loads(self.body)
        except orjson.JSONDecodeError:
            return None


class AnswerParser:
    """Turns chunks of any size into one answer. A new one for each request."""

    __slots__ = ("_body", "_buffer", "_chunked", "_headers", "_left", "_size", "_status")

    def __init__(self) -> None:
        self._buffer = b""
        self._status = 0
        self._headers: dict[str, str] = {}
        self._chunked = False
        self._left: int | None = 0
        self._body: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> Answer | None:
        """The answer, once it is whole. Bytes behind it are refused: nothing was asked for them."""
        self._buffer = self._buffer + data if self._buffer else data
        if not self._status and not self._read_head():
            return None
        if self._chunked:
            return self._answer() if self._read_chunks() else None
        if self._left is None:
            self._take(len(self._buffer))
            return None
        self._left -= self._take(min(self._left, len(self._buffer)))
        if self._left:
            return None
        if self._buffer:
            raise BadHttp("more bytes than the answer has")
        return self._answer()

    def end(self) -> Answer | None:
        """The connection is closed: an answer without a length is whole then."""
        if self._status and not self._chunked and self._left is None:
            return self._answer()
        return None

    def _answer(self) -> Answer:
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        closes = self._left is None or self._headers.get("connection", "").lower() == "close"
        return Answer(self._status, self._headers, body, reusable=not closes)

    def _read_head(self) -> bool:
        while True:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                if len(self._buffer) > HEAD_BYTES_MAX:
                    raise BadHttp("the head of the answer is too long")
                return False
            head, self._buffer = self._buffer[:end], self._buffer[end + 4 :]
            status = self._parse_head(head)
            if status >= 200:
                break
        self._status = status
        self._frame()
        return True

    def _parse_head(self, head: bytes) -> int:
        line, *fields = head.split(b"\r\n")
        match = _STATUS.fullmatch(line)
        if match is None:
            raise BadHttp("the answer is not HTTP/1.1")
        headers: dict[str, str] = {}
        for field in fields:
            parts = _FIELD.fullmatch(field)
            if parts is None:
                raise BadHttp("the answer has a malformed header")
            name, value = parts[1].decode("ascii").lower(), parts[2].decode("latin-1").strip()
            if name in headers and name in ("content-length", "transfer-encoding"):
                raise BadHttp(f"the answer has two headers {name}")
            headers[name] = value
        self._headers = headers
        return int(match[1])

    def _frame(self) -> None:
        length, coding = (
            self._headers.get("content-length"),
            self._headers.get("transfer-encoding"),
        )
        if self._status in _BODILESS:
            self._left = 0
        elif coding is not None:
            if coding.lower() != "chunked" or length is not None:
                raise BadHttp("the answer's length is ambiguous")
            self._chunked = True
        elif length is None:
            self._left = None
        elif not length.isascii() or not length.isdigit() or int(length) > ANSWER_BYTES_MAX:
            raise BadHttp(f"the answer's length is {length[:20]}")
        else:
            self._left = int(length)

    def _take(self, count: int) -> int:
        if count:
            self._size += count
            if self._size > ANSWER_BYTES_MAX:
                raise BadHttp(f"the answer is over {ANSWER_BYTES_MAX} bytes")
            self._body.append(self._buffer[:count])
            self._buffer = self._buffer[count:]
        return count

    def _read_chunks(self) -> bool:
        """Take whole chunks; True behind the last one and its trailers."""
        while True:
            end = self._buffer.find(b"\r\n")
            if end < 0:
                if len(self._buffer) > HEAD_BYTES_MAX:
                    raise BadHttp("the answer has a malformed chunk")
                return False
            match = _SIZE.fullmatch(self._buffer[:end])
            if match is None:
                raise BadHttp("the answer has a malformed chunk")
            size = int(match[1], 16)
            if size == 0:
                return self._read_trailers(end)
            if len(self._buffer) < end + 2 + size + 2:
                if size > ANSWER_BYTES_MAX:
                    raise BadHttp(f"the answer is over {ANSWER_BYTES_MAX} bytes")
                return False
            if self._buffer[end + 2 + size : end + 4 + size] != b"\r\n":
                raise BadHttp("the answer has a malformed chunk")
            self._buffer = self._buffer[end + 2 :]
            self._take(size)
            self._buffer = self._buffer[2:]

    def _read_trailers(self, end: int) -> bool:
        rest = self._buffer[end + 2 :]
        if rest == b"\r\n":
            return True
        if len(rest) > HEAD_BYTES_MAX:
            raise BadHttp("the answer's trailers are too long")
        return rest.endswith(b"\r\n\r\n")
