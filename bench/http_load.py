"""Requests a second over many connections: by wrk where it is installed, else by our lean client.

wrk is a C program and leaves the machine to the server; the lean client shares the interpreter's
price with what it measures, so its figures are lower for everybody. Ratios are comparable only
within one run, which uses one of the two.
"""

import asyncio
import re
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import uvloop

from bench.lean_http import LeanConnection

_RATE = re.compile(r"Requests/sec:\s+([\d.]+)")
_SCRIPT = """wrk.method = "POST"
wrk.body = [==[{body}]==]
wrk.headers["Content-Type"] = "application/json"
"""
JSON = "application/json"


def tool() -> str:
    """What makes the load, for the report."""
    return "wrk" if shutil.which("wrk") else "the lean client"


def requests_per_s(port: int, path: str, body: bytes, connections: int, seconds: float) -> float:
    """POST `body` to 127.0.0.1 as fast as answers come; answered requests a second."""
    if shutil.which("wrk"):
        return _by_wrk(port, path, body, connections, seconds)
    return uvloop.run(_by_us(port, path, body, connections, seconds))


def p50_s(port: int, path: str, body: bytes, requests: int) -> float:
    """The median round trip of one connection, in seconds, without the first tenth."""

    async def measure() -> float:
        connection = await LeanConnection.open("127.0.0.1", port, None)
        times = []
        for _ in range(requests):
            begin = time.perf_counter()
            await connection.post(path, JSON, [body])
            times.append(time.perf_counter() - begin)
        connection.close()
        return statistics.median(times[requests // 10 :])

    return uvloop.run(measure())


def _by_wrk(port: int, path: str, body: bytes, connections: int, seconds: float) -> float:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "post.lua"
        script.write_text(_SCRIPT.format(body=body.decode()))
        options = ["-t1", f"-c{connections}", f"-d{seconds:g}s", "-s", str(script)]
        done = subprocess.run(
            ["wrk", *options, f"http://127.0.0.1:{port}{path}"],
            capture_output=True,
            text=True,
            check=True,
        )
    rate = _RATE.search(done.stdout)
    if rate is None or "Non-2xx" in done.stdout or "Socket errors" in done.stdout:
        raise RuntimeError(f"port {port} did not answer all of them: {done.stdout[-300:]}")
    return float(rate[1])


async def _by_us(port: int, path: str, body: bytes, connections: int, seconds: float) -> float:
    opened = [await LeanConnection.open("127.0.0.1", port, None) for _ in range(connections)]
    begin = time.perf_counter()

    async def ask(connection: LeanConnection) -> int:
        count = 0
        while time.perf_counter() - begin < seconds:
            await connection.post(path, JSON, [body])
            count += 1
        return count

    counts = await asyncio.gather(*map(ask, opened))
    elapsed = time.perf_counter() - begin
    for connection in opened:
        connection.close()
    return sum(counts) / elapsed
