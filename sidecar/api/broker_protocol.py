"""Go-Broker's line protocol as bytes: `PUB` and `FETCH` in, `OK`, `MSG` and `ERR` out. Pure.

A line ends with CR LF or a lone LF. One line end behind a payload belongs to it and is skipped,
because that is what netcat and people send.
"""

import re
from dataclasses import dataclass
from typing import Final

LINE_BYTES_MAX: Final = 512
"""A command: its word, a topic of 249 characters at most, and a number."""
_PUB: Final = re.compile(rb"PUB ([!-~]{1,249}) ([0-9]{1,10})")
_FETCH: Final = re.compile(rb"FETCH ([!-~]{1,249}) ([0-9]{1,19})")


class BadLine(Exception):
    """Bytes that are no command: the connection ends with an ERR, and nothing more is read."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True, slots=True)
class Pub:
    """Publish `payload`."""

    topic: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class Fetch:
    """Send back the message at `offset`."""

    topic: str
    offset: int


class BrokerParser:
    """Turns chunks of any size into commands. Unusable after BadLine.

    Holds one line, or one payload whose size was checked before any of it was kept.
    """

    __slots__ = ("_after_payload", "_buffer", "_payload_bytes_max", "_wanted")

    def __init__(self, payload_bytes_max: int) -> None:
        self._payload_bytes_max = payload_bytes_max
        self._buffer = bytearray()
        self._wanted: tuple[str, int] | None = None
        self._after_payload = False

    @property
    def held(self) -> int:
        """Bytes that wait here."""
        return len(self._buffer)

    def feed(self, chunk: bytes) -> None:
        """Take more bytes."""
        self._buffer += chunk

    def next(self) -> Pub | Fetch | None:
        """The next whole command, or None until more bytes come."""
        if self._wanted is None:
            if not self._skip_line_end():
                return None
            line = self._line()
            if line is None:
                return None
            if fetch := _FETCH.fullmatch(line):
                return Fetch(fetch[1].decode("ascii"), int(fetch[2]))
            self._wanted = self._pub(line)
        topic, size = self._wanted
        if len(self._buffer) < size:
            return None
        payload = bytes(self._buffer[:size])
        del self._buffer[:size]
        self._wanted, self._after_payload = None, True
        return Pub(topic, payload)

    def _skip_line_end(self) -> bool:
        """Skip one line end behind a payload; False while it cannot be told whether one comes."""
        if not self._after_payload:
            return True
        if not self._buffer or self._buffer == b"\r":
            return False
        for end in (b"\r\n", b"\n"):
            if self._buffer.startswith(end):
                del self._buffer[: len(end)]
                break
        self._after_payload = False
        return True

    def _line(self) -> bytes | None:
        end = self._buffer.find(b"\n", 0, LINE_BYTES_MAX + 1)
        if end < 0:
            if len(self._buffer) > LINE_BYTES_MAX:
                raise BadLine("bad_command", f"a command has at most {LINE_BYTES_MAX} bytes")
            return None
        line = bytes(self._buffer[:end]).removesuffix(b"\r")
        del self._buffer[: end + 1]
        return line

    def _pub(self, line: bytes) -> tuple[str, int]:
        match = _PUB.fullmatch(line)
        if match is None:
            raise BadLine("bad_command", "say PUB <topic> <size> or FETCH <topic> <offset>")
        size = int(match[2])
        if size > self._payload_bytes_max:
            raise BadLine("too_large", f"a payload has at most {self._payload_bytes_max} bytes")
        return match[1].decode("ascii"), size


def ok(offset: int) -> bytes:
    """The message is committed at `offset`."""
    return b"OK %d\r\n" % offset


def msg(offset: int, payload: bytes) -> bytes:
    """A message: exactly these bytes, nothing behind the payload."""
    return b"MSG %d %d\r\n%s" % (offset, len(payload), payload)


def err(code: str, text: str) -> bytes:
    """A refusal, in one line whatever the text holds."""
    line = " ".join(f"{code} {text}".split())
    return b"ERR %s\r\n" % line.encode("ascii", "replace")[: LINE_BYTES_MAX - 6]
