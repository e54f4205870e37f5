"""Webhooks against the same aiohttp client that posts to the same app with no sidecar.

python -m bench.webhooks [--messages 20000] [--rounds 5] [--concurrency 64] [--folder DIR]

The whole mesh as `make up` runs it. A topic is filled first; then, in turn, a push subscription
delivers all of it (read from the log, signed, acknowledged), and a bare aiohttp client posts as
many bodies of the same size. Both have the same number of requests under way; the app is a bare
aiohttp handler in a process of its own.
"""

import argparse
import asyncio
import json
import os
import sys
import time
from pathlib import Path
from urllib.request import Request, urlopen

import aiohttp
import uvloop

from bench.development_mesh import DevelopmentMesh
from bench.runner import RESULTS, Bar, compare, report, take_turns
from bench.sidecar_publish import BareProcess

AT_LEAST = 0.5
TOPIC = "bench.webhooks"
LOOK_S = 0.02
WAIT_S_MAX = 120.0
SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
MESSAGE = (
    b'{"order_id":101,"total":12.5,"currency":"EUR","note":"hello world from the order service"}'
)


class Sidecar:
    """A push subscription that delivers the whole topic."""

    name = "sidecar push"

    def __init__(self, mesh: DevelopmentMesh, url: str, messages: int, concurrency: int) -> None:
        self._mesh = mesh
        self._url = url
        self._messages = messages
        self._concurrency = concurrency
        self._round = 0
        self.cpu_s = 0.0

    def __enter__(self) -> "Sidecar":
        lines = (MESSAGE + b"\n") * self._messages
        self._ask("POST", f"/publish/{TOPIC}/lines?ack=core", lines)
        return self

    def __exit__(self, *error: object) -> None:
        """The mesh goes by itself."""

    def run(self) -> float:
        """Messages a second, from the creation of the subscription to its last delivery."""
        self._round += 1
        before, cpu_s = self._delivered(), process_cpu_s(self._mesh.pid("sidecar"))
        wanted = {
            "name": f"bench-{self._round}",
            "topic": TOPIC,
            "from": "earliest",
            "push": {
                "url": self._url,
                "concurrency": self._concurrency,
                "secret_file": "bench.key",
            },
        }
        begin = time.perf_counter()
        self._ask("POST", "/subscriptions", json.dumps(wanted).encode())
        while self._delivered() - before < self._messages:
            if time.perf_counter() - begin > WAIT_S_MAX:
                raise RuntimeError(self._ask("GET", f"/subscriptions/{wanted['name']}"))
            time.sleep(LOOK_S)
        took_s = time.perf_counter() - begin
        self.cpu_s = process_cpu_s(self._mesh.pid("sidecar")) - cpu_s
        self._ask("DELETE", f"/subscriptions/{wanted['name']}")
        return self._messages / took_s

    def _delivered(self) -> int:
        return int(json.loads(self._ask("GET", "/status"))["pushes"]["delivered"])

    def _ask(self, method: str, path: str, body: bytes | None = None) -> bytes:
        request = Request(self._mesh.url + path, data=body, method=method)  # noqa: S310
        with urlopen(request, timeout=60) as answer:  # noqa: S310
            found: bytes = answer.read()
            return found


class Bare:
    """The same client, posting the same bytes."""

    name = "bare aiohttp client"

    def __init__(self, url: str, messages: int, concurrency: int) -> None:
        self._url = url
        self._messages = messages
        self._concurrency = concurrency
        self.cpu_s = 0.0

    def __enter__(self) -> "Bare":
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing is kept."""

    def run(self) -> float:
        """Posts a second."""
        cpu_s = time.process_time()
        took_s = uvloop.run(self._post_all())
        self.cpu_s = time.process_time() - cpu_s
        return self._messages / took_s

    async def _post_all(self) -> float:
        envelope = {
            "topic": TOPIC,
            "partition": 0,
            "offset": 1,
            "timestamp": "2026-01-01T00:00:00Z",
        }
        body = json.dumps({**envelope, "id": "i" * 40, "message": json.loads(MESSAGE)}).encode()
        left = iter(range(self._messages))
        connector = aiohttp.TCPConnector(limit=self._concurrency)
        async with aiohttp.ClientSession(connector=connector) as session:

            async def post() -> None:
                for _ in left:
                    async with session.post(self._url, data=body) as response:
                        await response.read()

            begin = time.perf_counter()
            await asyncio.gather(*(post() for _ in range(self._concurrency)))
            return time.perf_counter() - begin


def process_cpu_s(pid: int) -> float:
    """CPU seconds that a process has used, where the system tells."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> int:
    """Measure, print and write the ratio; 1 if it falls short."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--folder", type=Path, default=RESULTS)
    given = parser.parse_args()
    secrets = given.folder.resolve() / "webhook-secrets"
    secrets.mkdir(parents=True, exist_ok=True)
    (secrets / "bench.key").write_text(SECRET)
    (secrets / "bench.key").chmod(0o600)
    mesh = DevelopmentMesh(given.folder, SIDEGATE_SIDECAR_PUSH__SECRETS=str(secrets))
    with BareProcess() as app, mesh:
        url = f"http://127.0.0.1:{app.port}/publish"
        sidecar = Sidecar(mesh, url, given.messages, given.concurrency)
        bare = Bare(url, given.messages, given.concurrency)
        figures = take_turns([sidecar, bare], given.rounds, print)
        print(f"CPU of the last round: sidecar {sidecar.cpu_s:.2f} s, bare {bare.cpu_s:.2f} s")
    ratio = compare(figures, Bar(sidecar.name, bare.name, AT_LEAST))
    return 0 if report("webhooks", "messages/s", figures, [ratio]) else 1


if __name__ == "__main__":
    sys.exit(main())
