"""The gatekeeper against a bare aiohttp TLS forwarder, both in front of the same core.

python -m bench.gatekeeper_forward [--megabytes 256] [--rounds 5] [--requests 2000] [--folder DIR]

Throughput with 64 KiB batches, 16 in flight; and what each adds to the p50 of one 200-byte batch at
a time, which is its own p50 less that of the core alone in the same round. The core runs with
`durability: os`, so that the disk's moods do not hide what is measured.
"""

import argparse
import asyncio
import contextlib
import http.client
import ssl
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import aiohttp
import uvloop
import yaml

from bench.core_load import Batches
from bench.core_process import CoreProcess
from bench.runner import Bar, compare, report, take_turns
from hosting.units import Address
from log_format.envelope import decode_envelope, new_envelope
from sidegate.development import addresses

BATCH_BYTES = 64 * 1024
SMALL_BYTES = 200
IN_FLIGHT = 16
THROUGHPUT_AT_LEAST = 0.8
ADDED_AT_MOST = 1.3
READY_S_MAX = 30.0
FRAMES = "application/vnd.sidegate.frames"
TOPIC = "bench.gate"
MB = 1_000_000


def without_provenance(frame: bytes) -> bytes:
    """A frame as a sidecar sends it."""
    envelope = decode_envelope(frame)
    plain = new_envelope(
        envelope.producer,
        body_len=envelope.body_len,
        uncompressed_len=envelope.uncompressed_len,
        codec=envelope.codec,
    )
    return plain + frame[len(envelope.raw) :]


class FastCore(CoreProcess):
    """A core that leaves syncing to the system."""

    def start(self) -> float:
        """Write the setting into its configuration and start it."""
        config = self.state.config("core")
        settings = yaml.safe_load(config.read_text())
        settings["log"] = {"durability": "os"}
        config.write_text(yaml.safe_dump(settings))
        return super().start()


@dataclass
class Mesh:
    """Core, issuer, gatekeeper and forwarder, each a process of its own."""

    core: CoreProcess
    forwarder: Address

    def __enter__(self) -> "Mesh":
        self._stack = contextlib.ExitStack()
        self._stack.enter_context(self.core)
        self.core.state.write_public_keys()
        folder = self.core.folder
        python = [sys.executable, "-m"]
        for service in ("issuer", "gatekeeper"):
            config = str(self.core.state.config(service))
            self._run([*python, "sidegate", service, "--config", config], service)
        port = str(self.forwarder.port)
        self._run([*python, "bench.bare_forwarder", str(folder), port, self.core.url], "forwarder")
        self._wait(self._gatekeeper_is_ready)
        self.token = self._token()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def _run(self, command: list[str], name: str) -> None:
        log = self._stack.enter_context((self.core.folder / f"{name}.log").open("ab"))
        process = subprocess.Popen(command, stdout=log, stderr=log)

        def end() -> None:
            process.terminate()
            process.wait(READY_S_MAX)

        self._stack.callback(end)

    def _wait(self, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + READY_S_MAX
        while not ready():
            if time.monotonic() > deadline:
                logs = sorted(self.core.folder.glob("*.log"))
                raise RuntimeError("\n".join(log.read_text() for log in logs))
            time.sleep(0.05)

    def _gatekeeper_is_ready(self) -> bool:
        health = self.core.address(addresses.GATEKEEPER_HEALTH)
        connection = http.client.HTTPConnection(health.host, health.port, timeout=1)
        with contextlib.closing(connection), contextlib.suppress(OSError):
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        return False

    def tls(self) -> ssl.SSLContext:
        """TLS as the development sidecar."""
        folder = self.core.folder
        context = ssl.create_default_context(cafile=str(folder / "ca/ca.pem"))
        context.load_cert_chain(folder / "certs/sidecar.pem", folder / "certs/sidecar.key")
        return context

    def _token(self) -> str:
        issuer = self.core.address(addresses.ISSUER)
        url = f"https://{issuer}"
        form = {"grant_type": "client_credentials", "client_id": "dev-app"}

        async def ask() -> str:
            connector = aiohttp.TCPConnector(ssl=self.tls())
            async with aiohttp.ClientSession(connector=connector) as session:
                metadata = f"{url}/.well-known/oauth-authorization-server"
                async with session.get(metadata) as answer:
                    endpoint = (await answer.json())["token_endpoint"]
                async with session.post(endpoint, data=form) as answer:
                    return str((await answer.json())["access_token"])

        return asyncio.run(ask())

    def target(self, name: str) -> "Target":
        """Where batches go: `core`, `forwarder` or `gatekeeper`."""
        if name == "gatekeeper":
            where = self.core.address(addresses.GATEKEEPER)
            headers = {"Authorization": f"Bearer {self.token}", "Content-Type": FRAMES}
            return Target(f"https://{where}", self.tls(), headers, sealed=False)
        plain = {"Content-Type": FRAMES}
        tls = self.core.client_tls()
        where = self.forwarder if name == "forwarder" else self.core.address(addresses.CORE)
        return Target(f"https://{where}", tls, plain, sealed=True)


@dataclass(frozen=True)
class Target:
    """One way in."""

    url: str
    tls: ssl.SSLContext
    headers: dict[str, str]
    sealed: bool

    def frames(self, batch_bytes: int, count: int) -> Iterator[bytes]:
        """Batches of a new producer, made before the clock runs."""
        batches = Batches(TOPIC, batch_bytes)
        for _ in range(count):
            frame = batches.next()
            yield frame if self.sealed else without_provenance(frame)

    async def throughput(self, total_bytes: int) -> float:
        """MB a second."""
        count = max(1, total_bytes // BATCH_BYTES // IN_FLIGHT)
        lanes = [list(self.frames(BATCH_BYTES, count)) for _ in range(IN_FLIGHT)]
        size = sum(len(frame) for lane in lanes for frame in lane)
        async with self._session() as session:
            await self._send(session, next(self.frames(SMALL_BYTES, 1)))
            begin = time.perf_counter()
            await asyncio.gather(*(self._send_all(session, lane) for lane in lanes))
            return size / (time.perf_counter() - begin) / MB

    async def p50_us(self, requests: int) -> float:
        """The median of one small batch at a time, in microseconds."""
        frames = list(self.frames(SMALL_BYTES, requests))
        times: list[float] = []
        async with self._session() as session:
            for frame in frames:
                begin = time.perf_counter()
                await self._send(session, frame)
                times.append(time.perf_counter() - begin)
        return statistics.median(times[len(times) // 10 :]) * 1e6

    def _session(self) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(ssl=self.tls, limit=IN_FLIGHT)
        return aiohttp.ClientSession(connector=connector, headers=self.headers)

    async def _send_all(self, session: aiohttp.ClientSession, frames: list[bytes]) -> None:
        for frame in frames:
            await self._send(session, frame)

    async def _send(self, session: aiohttp.ClientSession, frame: bytes) -> None:
        async with session.post(f"{self.url}/v1/append", data=frame) as answer:
            body = await answer.read()
        if answer.status != 200 or b'"error"' in body:
            raise RuntimeError(f"{self.url} refused: {answer.status} {body[:300]!r}")


class Throughput:
    """One way in, measured in MB/s."""

    def __init__(self, mesh: Mesh, name: str, total_bytes: int) -> None:
        self.name = name
        self._mesh = mesh
        self._total = total_bytes

    def __enter__(self) -> "Throughput":
        return self

    def __exit__(self, *error: object) -> None:
        """The mesh outlives the rounds."""

    def run(self) -> float:
        """MB a second."""
        return uvloop.run(self._mesh.target(self.name).throughput(self._total))


class Speed:
    """What one way in adds to the core's own p50, as its inverse, so that more is better."""

    def __init__(self, mesh: Mesh, name: str, requests: int) -> None:
        self.name = name
        self._mesh = mesh
        self._requests = requests

    def __enter__(self) -> "Speed":
        return self

    def __exit__(self, *error: object) -> None:
        """The mesh outlives the rounds."""

    def run(self) -> float:
        """Small batches a second that the added time alone would allow."""
        alone = uvloop.run(self._mesh.target("core").p50_us(self._requests))
        through = uvloop.run(self._mesh.target(self.name).p50_us(self._requests))
        return 1e6 / max(1.0, through - alone)


def main() -> int:
    """Measure, print and write the ratios; 1 if one falls short."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--folder", type=Path, default=Path.cwd())
    arguments = parser.parse_args()
    spare = addresses.free_addresses()[addresses.SIDECAR]
    reached = True
    with Mesh(FastCore(arguments.folder), spare) as mesh:
        total = arguments.megabytes * MB
        names = ("forwarder", "gatekeeper")
        figures = take_turns(
            [Throughput(mesh, name, total) for name in names], arguments.rounds, print
        )
        ratio = compare(figures, Bar("gatekeeper", "forwarder", THROUGHPUT_AT_LEAST))
        reached &= report("gatekeeper throughput", "MB/s", figures, [ratio])
        figures = take_turns(
            [Speed(mesh, name, arguments.requests) for name in names], arguments.rounds, print
        )
        ratio = compare(figures, Bar("gatekeeper", "forwarder", 1 / ADDED_AT_MOST))
        reached &= report("gatekeeper added p50", "1/s", figures, [ratio])
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
