"""Sidecars as processes, a clock that jumps, loads that remember what they were told, the count.

A load publishes numbers, one after the other. What was answered with 200 or 202 must be in the log
once, in the order in which it was published; what was answered with 503 must not be there; what had
no answer, or a 504, may be there once, in its place. A load with ids asks again until it is told.
"""

import asyncio
import contextlib
import json
import mmap
import os
import socket
import struct
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

PAUSE_S = 0.002
"""Between two messages of a worker: the machine belongs to the sidecar, too."""
LINES = 50
"""Messages of one request of lines."""
PATIENCE_MS = 300
"""How long a publish waits at first: short, so that answers in doubt are met too. It doubles until
one gets through, so that no machine is too slow."""
PATIENCE_MS_MAX = 60_000
TAKEN = (200, 202)
NEVER_SENT = 503
IN_DOUBT = 504


CLOCK = struct.Struct("dd")
"""Seconds that are added to the time of day, and to the clock that never steps."""
CUSTOMIZE = """
import mmap, os, struct, time

with open(os.environ["TEST_CLOCK"], "rb") as file:
    _shifts = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
_time, _time_ns, _monotonic = time.time, time.time_ns, time.monotonic
time.time = lambda: _time() + struct.unpack_from("dd", _shifts)[0]
time.time_ns = lambda: _time_ns() + int(struct.unpack_from("dd", _shifts)[0] * 1e9)
time.monotonic = lambda: _monotonic() + struct.unpack_from("dd", _shifts)[1]
"""


class Clock:
    """The clocks of a process, moved from here. Timers that run already keep their real time."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(CUSTOMIZE)
        path = folder / "shifts"
        path.write_bytes(CLOCK.pack(0.0, 0.0))
        with path.open("r+b") as file:
            self._shifts = mmap.mmap(file.fileno(), 0)
        self.environ = {"TEST_CLOCK": str(path), "PYTHONPATH": str(folder)}

    def pass_by(self, seconds: float) -> None:
        """So much time goes by, for both clocks."""
        wall, steady = CLOCK.unpack_from(self._shifts)
        self._shifts[:] = CLOCK.pack(wall + seconds, steady + seconds)

    def step(self, seconds: float) -> None:
        """Somebody sets the time of day; the other clock does not notice."""
        wall, steady = CLOCK.unpack_from(self._shifts)
        self._shifts[:] = CLOCK.pack(wall + seconds, steady)


@pytest.fixture
def clock(tmp_path: Path) -> Clock:
    return Clock(tmp_path / "clock")


class SidecarProcess:
    """`sidegate sidecar` on a port of its own, started again at will."""

    def __init__(
        self, mesh: Any, data: Path, environ: Mapping[str, str] | None = None, **settings: Any
    ) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.base = f"http://127.0.0.1:{port}"
        self._environ = {**os.environ, **(environ or {})}
        self._path = mesh.folder / f"sidecar-{port}.yaml"
        config = mesh.config()
        document = {
            "environment": "development",
            "log_level": "warning",
            "listen": f"127.0.0.1:{port}",
            "tls": {
                "certificate": str(config.tls.certificate),
                "key": str(config.tls.key),
                "ca": str(config.tls.ca),
            },
            "gatekeepers": list(config.gatekeepers),
            "gatekeeper_id": config.gatekeeper_id,
            "oauth": {
                "issuer": config.oauth.issuer,
                "client_id": "app",
                "ca": str(config.oauth.ca),
                "audience": "urn:sidegate",
            },
            "data": str(data),
            **settings,
        }
        self._path.write_text(json.dumps(document))
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start it and wait until it answers."""
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "sidegate", "sidecar", "--config", str(self._path)),
            env=self._environ,
        )
        async with aiohttp.ClientSession() as session:
            while self._process.returncode is None:
                with contextlib.suppress(aiohttp.ClientError):
                    async with session.get(f"{self.base}/healthz"):
                        return
                await asyncio.sleep(0.02)
        raise AssertionError("the sidecar did not start")

    async def get(self, path: str) -> tuple[int, Any]:
        async with (
            aiohttp.ClientSession() as session,
            session.get(self.base + path) as response,
        ):
            return response.status, await response.json()

    async def publish(
        self, message: Any, topic: str = "t", ack: str = "auto", **members: str
    ) -> tuple[int, Any]:
        body = {"topic": topic, "message": message, **members}
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{self.base}/publish", json=body, params={"ack": ack}) as response,
        ):
            return response.status, await response.json(content_type=None)

    async def until(self, what: Callable[[Any], bool]) -> Any:
        """Until its status is so; the status."""
        while not what(status := (await self.get("/status"))[1]):  # noqa: ASYNC110 - its state
            await asyncio.sleep(0.05)
        return status

    async def kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def stop(self) -> int | None:
        if self._process is not None and self._process.returncode is None:
            self._process.terminate()
            return await self._process.wait()
        return None


@dataclass
class Load:
    """One worker: publishes numbers to a topic and remembers what it was told.

    With `pad`, each line has so many bytes more: enough of them, and a partition has several
    requests under way and its batches are compressed.
    """

    base: str
    worker: int
    ack: str
    topic: str = "t"
    with_ids: bool = False
    lines: bool = False
    pad: int = 0
    taken: list[int] = field(default_factory=list)
    refused: set[int] = field(default_factory=set)
    answers: Counter[str] = field(default_factory=Counter)
    moved: asyncio.Event = field(default_factory=asyncio.Event)
    running: bool = True
    _number: int = 0
    _patience_ms: int = PATIENCE_MS

    async def run(self) -> None:
        publish = self._publish_lines if self.lines else self._publish_one
        async with aiohttp.ClientSession() as session:
            while self.running:
                try:
                    await publish(session)
                    await asyncio.sleep(PAUSE_S)
                except (aiohttp.ClientError, ConnectionError, TimeoutError):
                    self.answers["none"] += 1
                    await asyncio.sleep(0.02)

    async def _publish_one(self, session: aiohttp.ClientSession) -> None:
        self._number += 1
        number = self._number
        body = {"topic": self.topic, "message": [self.worker, number], "key": f"k{self.worker}"}
        if self.with_ids:
            body["id"] = f"{self.worker}-{number}"
        repeats = 0
        # Whoever uses ids asks until it is told, and once more.
        while repeats < (2 if self.with_ids else 1):
            url = f"{self.base}/publish?ack={self.ack}&timeout_ms={self._patience_ms}"
            try:
                async with session.post(url, json=body) as response:
                    document = await response.json(content_type=None)
            except (aiohttp.ClientError, ConnectionError):
                if not self.with_ids:
                    raise
                self.answers["none"] += 1
                await asyncio.sleep(0.02)
                continue
            self._told(response.status, document, [number])
            if response.status in TAKEN or not self.with_ids:
                repeats += 1
            else:
                await asyncio.sleep(0.02)

    async def _publish_lines(self, session: aiohttp.ClientSession) -> None:
        numbers = list(range(self._number + 1, self._number + LINES + 1))
        self._number += LINES
        pad = " " * self.pad
        body = "\n".join(json.dumps([self.worker, number]) + pad for number in numbers)
        query = f"ack={self.ack}&timeout_ms={self._patience_ms}"
        url = f"{self.base}/publish/{self.topic}/lines?{query}"
        async with session.post(url, data=body.encode()) as response:
            document = await response.json(content_type=None)
        if response.status in TAKEN:
            self._told(response.status, document, numbers)
        else:
            # A prefix may be in; what lies behind it is refused or in doubt as a whole.
            count = document["published"]["count"]
            if count:
                self._told(200, document, numbers[:count])
            self._told(response.status, document, numbers[count:])

    def _told(self, status: int, document: Any, numbers: list[int]) -> None:
        code = document.get("code", document.get("durability"))
        self.answers[f"{status} {code}"] += len(numbers)
        if status in TAKEN:
            if not self.taken or numbers[0] > self.taken[-1]:
                self.taken += numbers
            self.refused -= set(numbers)
            self._patience_ms = PATIENCE_MS
            self.moved.set()
        elif status == NEVER_SENT:
            self.refused |= set(numbers) - set(self.taken)
        else:
            assert status == IN_DOUBT, (status, document)
            # Of two tries with one id, the second may have been sent.
            self.refused -= set(numbers)
            self._patience_ms = min(2 * self._patience_ms, PATIENCE_MS_MAX)


@dataclass
class Loads:
    """Several workers at the same time."""

    workers: list[Load]
    _tasks: list["asyncio.Task[None]"] = field(default_factory=list)

    def start(self) -> None:
        self._tasks = [asyncio.create_task(load.run()) for load in self.workers]

    async def progress(self) -> None:
        """Until every worker gets messages through again."""
        for load in self.workers:
            load.moved.clear()
        for load in self.workers:
            await load.moved.wait()

    async def stop(self) -> None:
        for load in self.workers:
            load.running = False
        await asyncio.gather(*self._tasks)

    async def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def judge(self, partitions: Iterable[Iterable[Any]]) -> dict[str, int]:
        """Compare what was told with what each partition holds; the counts."""
        stored = [[tuple(each) for each in partition] for partition in partitions]
        counts: Counter[str] = Counter()
        for load in self.workers:
            homes = [
                own
                for partition in stored
                if (own := [number for worker, number in partition if worker == load.worker])
            ]
            who = f"worker {load.worker} ({load.ack})"
            assert len(homes) == 1, f"{who}: in {len(homes)} partitions"
            own = homes[0]
            assert len(own) == len(set(own)), f"{who}: {len(own) - len(set(own))} doubled"
            assert own == sorted(own), f"{who}: out of order"
            lost = set(load.taken) - set(own)
            assert not lost, f"{who}: {len(lost)} of {len(load.taken)} lost, {min(lost)} first"
            ghosts = load.refused & set(own)
            assert not ghosts, f"{who}: {len(ghosts)} refused, yet in the log"
            assert load.taken, f"{who} got nothing through"
            if load.with_ids:
                assert own == list(range(1, len(own) + 1)), f"{who}: not each number once"
            counts["taken"] += len(load.taken)
            counts["stored"] += len(own)
            counts["refused"] += len(load.refused)
            counts["in doubt and stored"] += len(own) - len(load.taken)
            counts += load.answers
        return dict(counts)


async def settled(base: str) -> None:
    """Wait until a sidecar says that it is connected and has nothing left to send."""
    async with aiohttp.ClientSession() as session:
        while True:
            with contextlib.suppress(aiohttp.ClientError):
                async with session.get(f"{base}/status") as response:
                    status = await response.json()
                queues = status["queues"]
                left = queues["unsettled_batches"] + queues["waiting_messages"]
                if status["uplink"] == "connected" and not left + status["spool"]["batches"]:
                    return
            await asyncio.sleep(0.05)


@pytest.fixture
def make_load() -> type[Load]:
    return Load


@pytest.fixture
def until_settled() -> Callable[[str], Any]:
    return settled


@pytest.fixture
async def under_load() -> AsyncIterator[Callable[..., Loads]]:
    """`under_load(load, …)` runs loads until the test ends."""
    begun: list[Loads] = []

    def begin(*workers: Load) -> Loads:
        loads = Loads(list(workers))
        loads.start()
        begun.append(loads)
        return loads

    yield begin
    for loads in begun:
        await loads.cancel()


@pytest.fixture
async def sidecar_process(mesh: Any) -> AsyncIterator[Callable[..., Any]]:
    """Starts sidecar processes against the test's own gatekeeper and issuer."""
    started: list[SidecarProcess] = []

    async def start(data: Path, **settings: Any) -> SidecarProcess:
        process = SidecarProcess(mesh, data, settings.pop("environ", None), **settings)
        started.append(process)
        await process.start()
        return process

    yield start
    for process in started:
        await process.stop()


def numbers(mesh: Any, topic: str = "t", partitions: int = 1) -> list[list[Any]]:
    """What the fake log holds, by partition."""
    return [
        [json.loads(value) for value in mesh.log.values(topic, partition)]
        for partition in range(partitions)
    ]


@pytest.fixture
def stored() -> Callable[..., list[list[Any]]]:
    return numbers
