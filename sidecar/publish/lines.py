"""Cuts a stream of bytes into blocks of lines, in bounded memory. Pure.

A block stays one piece of text until it is encoded: a Python object for each line would cost more
than everything else that is done with it. A line is everything between two newlines, verbatim; a
last newline makes no empty line.
"""

from typing import NamedTuple

from sidecar.errors import TooLarge


class Block(NamedTuple):
    """Whole lines with newlines between them, how many, and the number of the first (from 0)."""

    text: bytes
    records: int
    first: int


class LineTooLong(TooLarge):
    """A line over the limit; `line` is its number, from 0."""

    def __init__(self, line: int, bytes_max: int) -> None:
        super().__init__(f"line {line}: is longer than limits.message_bytes_max, {bytes_max} bytes")
        self.line = line


class LineCutter:
    """Feed it chunks, take blocks of about `block_bytes`. Holds one block and one line at most."""

    __slots__ = ("_block_bytes", "_count", "_held", "_line_bytes_max", "_parts")

    def __init__(self, block_bytes: int, line_bytes_max: int) -> None:
        self._block_bytes = block_bytes
        self._line_bytes_max = line_bytes_max
        self._parts: list[bytes] = []
        self._held = 0
        self._count = 0

    @property
    def count(self) -> int:
        """Lines that were handed out."""
        return self._count

    def feed(self, chunk: bytes) -> Block | None:
        """A block, once there is enough for one; LineTooLong where a line is over the limit."""
        self._parts.append(chunk)
        self._held += len(chunk)
        if self._held < self._block_bytes:
            return None
        data = b"".join(self._parts)
        end = data.rfind(b"\n")
        if end < 0:
            if len(data) > self._line_bytes_max:
                raise LineTooLong(self._count, self._line_bytes_max)
            self._parts = [data]
            return None
        rest = data[end + 1 :]
        self._parts, self._held = ([rest] if rest else []), len(rest)
        return self._cut(data[:end])

    def finish(self) -> Block | None:
        """What is left at the end of the input."""
        data = b"".join(self._parts)
        self._parts, self._held = [], 0
        if not data:
            return None
        return self._cut(data[:-1] if data.endswith(b"\n") else data)

    def _cut(self, data: bytes) -> Block:
        if len(data) > self._line_bytes_max:
            for at, line in enumerate(data.split(b"\n")):
                if len(line) > self._line_bytes_max:
                    raise LineTooLong(self._count + at, self._line_bytes_max)
        count = data.count(b"\n") + 1
        first, self._count = self._count, self._count + count
        return Block(data, count, first)
