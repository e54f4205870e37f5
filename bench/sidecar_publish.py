"""Committed publishes against a bare aiohttp handler that only reads the body and answers.

python -m bench.sidecar_publish [--seconds 4] [--rounds 5] [--requests 2000] [--folder DIR]

The whole mesh as `make up` runs it: mTLS, tokens, one fsync before each answer. Requests a second
of `POST /publish?ack=core` with 100 bytes of JSON at 64 and 256 connections, as ratios. With one
connection, the p50 against what it may cost: one append of 4 KiB with `fdatasync` on the same disk,
and 12 round trips of the bare handler.
"""

import argparse
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.development_mesh import DevelopmentMesh
from bench.http_load import p50_s, requests_per_s, tool
from bench.runner import RESULTS, Bar, compare, report, take_turns

AT_LEAST = {64: 0.5, 256: 0.75}
ROUND_TRIPS = 12
APPEND_BYTES = 4096
MESSAGE = (
    b'{"topic":"bench","message":{"order_id":101,"total":12.5,"currency":"EUR",'
    b'"note":"hello world from the order service"}}'
)
PATHS = {"bare aiohttp": "/publish", "sidecar": "/publish?ack=core"}


class BareProcess:
    """The bare handler in a process of its own."""

    def __enter__(self) -> "BareProcess":
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.bare_aiohttp", str(self.port)]
        )
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                time.sleep(0.05)
            else:
                return self
        raise RuntimeError("the bare handler did not start")

    def __exit__(self, *error: object) -> None:
        self._process.terminate()
        self._process.wait(10)


class Throughput:
    """Requests a second of one server at so many connections."""

    def __init__(self, name: str, port: int, connections: int, seconds: float) -> None:
        self.name = name
        self._load = (port, PATHS[name], MESSAGE, connections, seconds)

    def __enter__(self) -> "Throughput":
        return self

    def __exit__(self, *error: object) -> None:
        """The servers outlive the rounds."""

    def run(self) -> float:
        """Answered requests a second."""
        return requests_per_s(*self._load)


class OneByOne:
    """Publishes a second over one connection, by the p50: as it is, and as it may be at worst."""

    def __init__(self, name: str, port: int, requests: int, disk: Path | None = None) -> None:
        self.name = name
        self._port = port
        self._requests = requests
        self._disk = disk

    def __enter__(self) -> "OneByOne":
        return self

    def __exit__(self, *error: object) -> None:
        """The servers outlive the rounds."""

    def run(self) -> float:
        """1 / p50."""
        if self._disk is None:
            return 1 / p50_s(self._port, PATHS["sidecar"], MESSAGE, self._requests)
        bare = p50_s(self._port, PATHS["bare aiohttp"], MESSAGE, self._requests)
        return 1 / (append_and_sync_s(self._disk, self._requests // 4) + ROUND_TRIPS * bare)


def append_and_sync_s(folder: Path, appends: int) -> float:
    """The median of one append of 4 KiB with fdatasync, in seconds."""
    times = []
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        for _ in range(max(50, appends)):
            begin = time.perf_counter()
            os.write(file.fileno(), bytes(APPEND_BYTES))
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - begin)
    return statistics.median(times)


def main() -> int:
    """Measure, print and write the ratios; 1 if one falls short."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--folder", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    reached = True
    print(f"load by {tool()}")
    with BareProcess() as bare, DevelopmentMesh(arguments.folder) as mesh:
        ports = {"bare aiohttp": bare.port, "sidecar": mesh.port}
        requests_per_s(mesh.port, PATHS["sidecar"], MESSAGE, 16, 1)
        for connections, at_least in AT_LEAST.items():
            servers = [
                Throughput(name, port, connections, arguments.seconds)
                for name, port in ports.items()
            ]
            figures = take_turns(servers, arguments.rounds, print)
            ratio = compare(figures, Bar("sidecar", "bare aiohttp", at_least))
            title = f"sidecar publish at {connections} connections"
            reached &= report(title, "committed requests/s", figures, [ratio])
        name = f"4 KiB append + fdatasync + {ROUND_TRIPS} bare round trips"
        both = [
            OneByOne("sidecar", mesh.port, arguments.requests),
            OneByOne(name, bare.port, arguments.requests, mesh.data),
        ]
        figures = take_turns(both, arguments.rounds, print)
        ratio = compare(figures, Bar("sidecar", name, 1.0))
        reached &= report("sidecar publish one by one", "1 / p50", figures, [ratio])
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
