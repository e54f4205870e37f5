"""Catching up: how fast one subscriber reads a backlog through the whole mesh.

python -m bench.catch_up [--messages 600000] [--rounds 3] [--folder DIR]

The mesh as `make up` runs it, with batches of 64 KiB. A backlog of 100-byte orders is published to
one partition; then a subscriber reads it from its begin, as lines of JSON and over a WebSocket, and
does nothing but count. Four processes share the machine's cores, so the sidecar's own time for a
million messages is shown beside the rate.
"""

import argparse
import base64
import os
import socket
import sys
import time
from abc import ABC, abstractmethod
from pathlib import Path

import uvloop

from bench.development_mesh import DevelopmentMesh
from bench.lean_http import LeanConnection
from bench.process_time import cpu_seconds
from bench.runner import RESULTS, Bar, compare, report, take_turns
from bench.sidecar_lines import orders

TOPIC = "bench.backlog"
LINES = 5_000
LINE_BYTES = 100
PER_S = 300_000
BAR = "300,000 a second"
QUIET_S_MAX = 30.0


def lines(count: int) -> list[bytes]:
    """So many orders as JSON, each of 100 bytes."""
    padding = LINE_BYTES - 90
    return [line[:-1] + b',"p":"%s"}' % (b"x" * (padding - 7)) for line in orders(count)]


async def publish(mesh: DevelopmentMesh, messages: int) -> None:
    """Fill the topic."""
    body = b"\n".join(lines(LINES))
    connection = await LeanConnection.open(mesh.host, mesh.port, None)
    for _ in range(messages // LINES):
        await connection.post(f"/publish/{TOPIC}/lines", "text/plain", [body])
    connection.close()


class Subscriber(ABC):
    """Reads the whole backlog once a round, over a plain socket."""

    def __init__(self, name: str, mesh: DevelopmentMesh, messages: int, head: str) -> None:
        self.name = name
        self.cpu_s: list[float] = []
        self._mesh = mesh
        self._messages = messages
        self._head = head

    def __enter__(self) -> "Subscriber":
        return self

    def __exit__(self, *error: object) -> None:
        """The mesh outlives the rounds."""
        return

    def run(self) -> float:
        """Messages a second."""
        pid = self._mesh.pid("sidecar")
        with socket.create_connection((self._mesh.host, self._mesh.port), QUIET_S_MAX) as stream:
            stream.settimeout(QUIET_S_MAX)
            before, begin = cpu_seconds(pid), time.perf_counter()
            stream.sendall(self._head.encode())
            self._count(stream)
            seconds = time.perf_counter() - begin
            self.cpu_s.append((cpu_seconds(pid) - before) * 1e6 / self._messages)
        return self._messages / seconds

    @abstractmethod
    def _count(self, stream: socket.socket) -> None:
        """Read until all messages have come."""


class LineSubscriber(Subscriber):
    """Lines of JSON."""

    def __init__(self, mesh: DevelopmentMesh, messages: int) -> None:
        head = (
            f"GET /subscribe/{TOPIC}?from=earliest HTTP/1.1\r\nHost: localhost\r\n"
            "Accept: application/x-ndjson\r\n\r\n"
        )
        super().__init__("lines", mesh, messages, head)

    def _count(self, stream: socket.socket) -> None:
        """Each envelope ends with a brace and its line; nothing else in the answer does."""
        left, tail = self._messages, b""
        while left > 0:
            data = stream.recv(1 << 20)
            if not data:
                raise RuntimeError("the stream ended")
            left -= (tail + data).count(b"}\n")
            tail = data[-1:]


class SocketSubscriber(Subscriber):
    """WebSocket messages."""

    def __init__(self, mesh: DevelopmentMesh, messages: int) -> None:
        key = base64.b64encode(os.urandom(16)).decode()
        head = (
            f"GET /subscribe/{TOPIC}?from=earliest HTTP/1.1\r\nHost: localhost\r\n"
            f"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
            "Sec-WebSocket-Version: 13\r\n\r\n"
        )
        super().__init__("WebSocket", mesh, messages, head)

    def _count(self, stream: socket.socket) -> None:
        """Payloads are ASCII of 126 to 65,535 bytes, so each head begins with bytes that nothing
        else has."""
        left, tail = self._messages, b""
        while left > 0:
            data = stream.recv(1 << 20)
            if not data:
                raise RuntimeError("the stream ended")
            left -= (tail + data).count(b"\x81\x7e")
            tail = data[-1:]


class Wanted:
    """The bar as a contender."""

    name = BAR

    def __enter__(self) -> "Wanted":
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing to stop."""

    def run(self) -> float:
        """Messages a second."""
        return PER_S


def main() -> int:
    """Measure, print and write the ratios; 1 if one falls short."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=600_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    messages = arguments.messages // LINES * LINES
    with DevelopmentMesh(arguments.folder, SIDEGATE_SIDECAR_BATCH__BYTES_MAX="64KiB") as mesh:
        uvloop.run(publish(mesh, messages))
        subscribers = [LineSubscriber(mesh, messages), SocketSubscriber(mesh, messages)]
        figures = take_turns([*subscribers, Wanted()], arguments.rounds, print)
    ratios = [compare(figures, Bar(each.name, BAR, 1.0)) for each in subscribers]
    reached = report("catch up", "messages/s", figures, ratios)
    for each in subscribers:
        print(f"  {each.name}: the sidecar took {min(each.cpu_s):.2f} s for a million messages")
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
