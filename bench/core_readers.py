"""100 live readers of one topic while 20 MB a second are appended: do all keep up?

Readers connect to the core's Unix socket, and one thread empties all of their sockets: 2 GB a
second leave the core, and encrypting them would measure the cipher.

    python -m bench.core_readers [--readers 100] [--megabytes-per-s 20] [--seconds 10]
"""

import argparse
import asyncio
import base64
import json
import os
import selectors
import socket
import struct
import sys
import threading
import time
from pathlib import Path

from bench.core_load import FRAMES, Batches
from bench.core_process import CoreProcess
from bench.process_memory import unshared_bytes
from bench.runner import RESULTS

TOPIC = "bench.live"
BATCH_BYTES = 64 * 1024
LAG_S_MAX = 1.0
WRITERS = 4
"""Appends under way at a time: one alone would wait for the core between two batches."""
PACE_KEPT = 0.97
"""The part of the wanted pace that must have been appended for the rest to mean anything."""
CREDIT = 1 << 50


class Readers:
    """Opens streams and counts the bytes that each receives."""

    def __init__(self, socket_path: Path, count: int) -> None:
        self.received = [0] * count
        self._selector = selectors.DefaultSelector()
        self._stopped = threading.Event()
        self._sockets = [self._open(socket_path, number) for number in range(count)]
        self._thread = threading.Thread(target=self._drain)
        self._thread.start()

    def _open(self, path: Path, number: int) -> socket.socket:
        stream = socket.socket(socket.AF_UNIX)
        stream.connect(str(path))
        key = base64.b64encode(os.urandom(16)).decode()
        stream.sendall(
            f"GET /v1/stream HTTP/1.1\r\nHost: core\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
            "Sec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        answer = stream.recv(65536)
        if b" 101 " not in answer:
            raise RuntimeError(f"no stream: {answer!r}")
        opening = {"type": "open", "topic": TOPIC, "from": "latest", "credit_bytes": CREDIT}
        stream.sendall(masked_text(json.dumps(opening).encode()))
        opened = stream.recv(65536)
        if b'"opened"' not in opened:
            raise RuntimeError(f"not opened: {opened!r}")
        stream.setblocking(False)
        self._selector.register(stream, selectors.EVENT_READ, number)
        return stream

    def _drain(self) -> None:
        space = bytearray(1024 * 1024)
        while not self._stopped.is_set():
            for key, _events in self._selector.select(0.1):
                stream = key.fileobj
                if isinstance(stream, socket.socket):
                    self.received[key.data] += stream.recv_into(space)

    def close(self) -> None:
        """Stop reading and hang up."""
        self._stopped.set()
        self._thread.join()
        for stream in self._sockets:
            stream.close()


def masked_text(payload: bytes) -> bytes:
    """A client's WebSocket text frame, RFC 6455 section 5.2, with an all-zero mask."""
    head = struct.pack("!BBH", 0x81, 0x80 | 126, len(payload))
    return head + bytes(4) + payload


async def paced_appends(core: CoreProcess, bytes_per_s: float, seconds: float) -> tuple[int, float]:
    """Append at an even pace; the bytes of all frames, and when the last was acknowledged."""
    begin = time.perf_counter()

    async def writer() -> int:
        batches, connection, sent = Batches(TOPIC, BATCH_BYTES), await core.connect(), 0
        while (elapsed := time.perf_counter() - begin) < seconds:
            ahead_s = sent / (bytes_per_s / WRITERS) - elapsed
            if ahead_s > 0:
                await asyncio.sleep(ahead_s)
                continue
            parts = batches.next_parts()
            answer = await connection.post("/v1/append", FRAMES["Content-Type"], parts)
            if b'"error"' in answer:
                raise RuntimeError(f"append refused: {answer!r}")
            sent += sum(map(len, parts))
        connection.close()
        return sent

    total = sum(await asyncio.gather(*(writer() for _ in range(WRITERS))))
    return total, time.perf_counter()


def main() -> int:
    """Measure and print; 1 if a reader lags more than a second or memory grew without bound."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--readers", type=int, default=100)
    parser.add_argument("--megabytes-per-s", type=float, default=20)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--folder", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    with CoreProcess(arguments.folder, unix=True) as core:
        before = unshared_bytes(core.pid)
        readers = Readers(core.socket_path, arguments.readers)
        pace = arguments.megabytes_per_s * 1e6
        sent, ended = asyncio.run(paced_appends(core, pace, arguments.seconds))
        while min(readers.received) < sent and time.perf_counter() < ended + 30:
            time.sleep(0.01)
        lag = time.perf_counter() - ended
        complete = min(readers.received) >= sent
        grown = (unshared_bytes(core.pid) - before) / 1e6
        readers.close()
    figures = {
        "appended MB/s": sent / arguments.seconds / 1e6,
        "delivered MB/s": sum(readers.received) / (arguments.seconds + lag) / 1e6,
        "slowest reader behind, s": lag,
        "core's unshared memory grown by, MB": grown,
    }
    for name, figure in figures.items():
        print(f"{name}: {figure:,.2f}")
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "core-readers.json").write_text(json.dumps(figures, indent=2) + "\n")
    kept_pace = sent >= PACE_KEPT * pace * arguments.seconds
    reached = complete and lag <= LAG_S_MAX and kept_pace
    print("reached" if reached else "SHORT")
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
