"""From publish to receipt: through two sidecars by server-sent events, and through JetStream.

python -m bench.delivery_latency [--per-s 1000] [--seconds 10] [--rounds 3] [--folder DIR]

Open loop: message n is due at n/1000 s whatever became of the others, and its latency counts from
then. Sidegate: `POST /publish` at one app's sidecar, an SSE reader at another's, the whole mesh
with TLS, tokens, policy and one sync a commit between them. The peer: JetStream with
`sync_interval: always`, `publish` and a push consumer of nats-py. Both clients are one Python
process each round; the two take turns. The processor time of each service is shown too, for it
changes less with what else the machine does.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import urlsplit

import uvloop

from bench.development_mesh import DevelopmentMesh
from bench.jetstream import JetStream, missing
from bench.lean_http import LeanConnection
from bench.process_time import cpu_seconds
from bench.runner import RESULTS
from bench.sidecar_idle import is_ready

TOPIC = "bench.latency"
READER = "latency-reader"
TIMES_MAX = 4.0
CONNECTIONS = 64
"""Of the publisher: enough that none of them waits for another at the wanted pace."""
WARM_UP = 200
SETTLE_S_MAX = 20.0

Publish = Callable[[bytes], Awaitable[object]]


class Arrivals:
    """When each message came, by its number."""

    def __init__(self, expected: int) -> None:
        self.at: dict[int, float] = {}
        self._expected = expected
        self.complete = asyncio.Event()

    def take(self, number: int) -> None:
        """Message `number` is here."""
        self.at.setdefault(number, time.perf_counter())
        if len(self.at) >= self._expected:
            self.complete.set()


async def open_loop(publish: Publish, arrivals: Arrivals, count: int, per_s: int) -> list[float]:
    """Latencies in seconds, from when each message was due."""
    begin = time.perf_counter() + 0.05
    tasks = set()
    for number in range(count):
        due = begin + number / per_s
        wait = due - time.perf_counter()
        if wait > 0:
            await asyncio.sleep(wait)
        task = asyncio.ensure_future(publish(b"%d" % number))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    async with asyncio.timeout(SETTLE_S_MAX):
        await asyncio.gather(*tasks)
        await arrivals.complete.wait()
    return [arrivals.at[number] - begin - number / per_s for number in range(WARM_UP, count)]


async def through_sidegate(from_url: str, to_url: str, count: int, per_s: int) -> list[float]:
    """Published at one sidecar, received at another."""
    arrivals = Arrivals(count)
    where = urlsplit(to_url)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    writer.write(
        f"GET /subscribe/{TOPIC} HTTP/1.1\r\nHost: localhost\r\n"
        "Accept: text/event-stream\r\n\r\n".encode()
    )
    await reader.readuntil(b"retry: ")

    async def receive() -> None:
        while line := await reader.readline():
            if line.startswith(b"data: "):
                arrivals.take(json.loads(line[6:])["message"])

    receiving = asyncio.create_task(receive())
    source = urlsplit(from_url)
    free: asyncio.LifoQueue[LeanConnection] = asyncio.LifoQueue()
    opened = []
    for _ in range(CONNECTIONS):
        opened.append(await LeanConnection.open(str(source.hostname), source.port or 80, None))
        free.put_nowait(opened[-1])

    async def publish(number: bytes) -> None:
        connection = await free.get()
        body = b'{"topic":"%s","message":%s}' % (TOPIC.encode(), number)
        await connection.post("/publish", "application/json", [body])
        free.put_nowait(connection)

    try:
        return await open_loop(publish, arrivals, count, per_s)
    finally:
        receiving.cancel()
        writer.close()
        for connection in opened:
            connection.close()


async def through_jetstream(url: str, count: int, per_s: int) -> list[float]:
    """The same with nats-py."""
    import nats  # noqa: PLC0415 - an optional peer
    from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy  # noqa: PLC0415

    arrivals = Arrivals(count)
    sender, receiver = await nats.connect(url), await nats.connect(url)
    stream = sender.jetstream()
    await stream.add_stream(name="latency", subjects=[TOPIC])

    async def receive(message: object) -> None:
        arrivals.take(int(message.data))  # type: ignore[attr-defined]

    settings = ConsumerConfig(ack_policy=AckPolicy.NONE, deliver_policy=DeliverPolicy.NEW)
    subscription = await receiver.jetstream().subscribe(TOPIC, cb=receive, config=settings)

    async def publish(number: bytes) -> object:
        return await stream.publish(TOPIC, number, timeout=SETTLE_S_MAX)

    try:
        return await open_loop(publish, arrivals, count, per_s)
    finally:
        await subscription.unsubscribe()
        await sender.close()
        await receiver.close()


def percentile(latencies: list[float], share: float) -> float:
    """In milliseconds."""
    return sorted(latencies)[int(len(latencies) * share)] * 1000


def show(name: str, latencies: list[float]) -> tuple[float, float]:
    """Print and return the median and the 99th percentile."""
    found = percentile(latencies, 0.5), percentile(latencies, 0.99)
    print(f"{name}: p50 {found[0]:.2f} ms, p99 {found[1]:.2f} ms")
    return found


def start_reader(mesh: DevelopmentMesh) -> tuple[subprocess.Popen[bytes], str]:
    """A second app's sidecar that may read the topic."""
    added = json.loads(mesh.command("service", "add", READER, "--subscribe", TOPIC, "--json"))
    process = subprocess.Popen(
        [sys.executable, "-m", "sidegate", "sidecar", "--config", added["config"]],
        cwd=mesh.folder,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while not is_ready(added["url"]):
        if process.poll() is not None:
            raise RuntimeError("the second sidecar did not start")
        time.sleep(0.05)
    return process, str(added["url"])


def main() -> int:
    """Measure and print; 1 if a ratio is above the bar."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--per-s", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    per_s, count = arguments.per_s, int(arguments.per_s * arguments.seconds)
    without = missing()
    ours: list[tuple[float, float]] = []
    theirs: list[tuple[float, float]] = []
    with DevelopmentMesh(arguments.folder) as mesh:
        process, url = start_reader(mesh)
        try:
            services = {name: mesh.pid(name) for name in ("sidecar", "gatekeeper", "core")}
            services["second sidecar"] = process.pid
            for _ in range(arguments.rounds):
                before = {name: cpu_seconds(pid) for name, pid in services.items()}
                found = uvloop.run(through_sidegate(mesh.url, url, count, per_s))
                ours.append(show("sidegate", found))
                for name, pid in services.items():
                    taken = (cpu_seconds(pid) - before[name]) * 1000 / count
                    print(f"    {name}: {taken:.3f} ms of a core for a message")
                if without is None:
                    with JetStream(arguments.folder) as peer:
                        found = uvloop.run(through_jetstream(peer.url, count, per_s))
                    theirs.append(show("JetStream", found))
        finally:
            process.terminate()
            process.wait(20)
    if without is not None:
        print(f"  SKIPPED: the comparison with JetStream; {without}")
        return 0
    reached = True
    for index, name in enumerate(("p50", "p99")):
        ratios = [mine[index] / peer[index] for mine, peer in zip(ours, theirs, strict=True)]
        median = statistics.median(ratios)
        reached &= median <= TIMES_MAX
        verdict = "reached" if median <= TIMES_MAX else "SHORT"
        spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
        print(f"  {name}: {median:.2f} times JetStream's ({spread}), at most 4: {verdict}")
    RESULTS.mkdir(parents=True, exist_ok=True)
    figures = {"sidegate_ms": ours, "jetstream_ms": theirs}
    (RESULTS / "delivery-latency.json").write_text(json.dumps(figures, indent=2) + "\n")
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
