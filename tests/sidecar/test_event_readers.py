"""Readers of server-sent events that others wrote, unmodified: npm `eventsource`, `httpx-sse`."""

import asyncio
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import httpx_sse
import pytest

from hosting.units import Address

SOURCE = Path(__file__).parent / "event_source"
INSTALL_S_MAX = 240
"""Below the limit of a test, so that the reason is told."""


def unavailable(why: str) -> None:
    """Skip in one visible line; where tests must not be skipped, fail."""
    if os.environ.get("CI"):
        pytest.fail(why)
    pytest.skip(why)


@pytest.fixture(scope="module")
def installed(request: pytest.FixtureRequest) -> Path:
    """The library in a folder of pytest's cache, installed once for each lock file."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        unavailable("needs Node and npm, for eventsource as a third-party reader")
    files = [SOURCE / name for name in ("package.json", "package-lock.json", ".npmrc")]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]
    folder = Path(request.config.cache.mkdir("event_source")) / digest
    if not (folder / "installed").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for file in files:
            shutil.copy(file, folder)
        command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        try:
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, check=False,
                timeout=INSTALL_S_MAX,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            unavailable(f"npm took more than {INSTALL_S_MAX} s to install eventsource")
        if done.returncode != 0:
            unavailable(f"npm could not install eventsource: {done.stderr.strip()[-200:]}")
        (folder / "installed").touch()
    shutil.copy(SOURCE / "reader.mjs", folder)
    return folder


class NodeReader:
    """`eventsource` in Node."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: asyncio.subprocess.Process | None = None

    async def open(self, url: str) -> None:
        self._process = await asyncio.create_subprocess_exec(
            "node",
            "reader.mjs",
            url,
            cwd=self._folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        while (await self._said())["kind"] != "open":
            pass

    async def take(self, count: int) -> list[dict]:
        found: list[dict] = []
        while len(found) < count:
            said = await self._said()
            if said["kind"] == "message":
                found.append(json.loads(said["data"]))
        return found

    async def gap(self) -> dict:
        while True:
            said = await self._said()
            if said["kind"] == "gap":
                return json.loads(said["data"])

    async def close(self) -> None:
        if self._process is not None:
            self._process.stdin.close()
            await self._process.wait()

    async def _said(self) -> dict:
        line = await self._process.stdout.readline()
        assert line, "the reader ended"
        return json.loads(line)


class HttpxReader:
    """`httpx-sse`; it leaves coming back to its user, who sends the last id."""

    def __init__(self) -> None:
        self._client = httpx.AsyncClient(timeout=60, trust_env=False)
        self._events: AsyncIterator[httpx_sse.ServerSentEvent] | None = None
        self._last_id = ""
        self._retry_ms = 0

    async def open(self, url: str) -> None:
        self._url = url
        self._events = self._read()
        self._opened = asyncio.Event()
        self._next = asyncio.ensure_future(anext(self._events))
        await self._opened.wait()

    async def _read(self) -> AsyncIterator[httpx_sse.ServerSentEvent]:
        while True:
            headers = {"Last-Event-ID": self._last_id} if self._last_id else {}
            try:
                async with httpx_sse.aconnect_sse(
                    self._client, "GET", self._url, headers=headers
                ) as source:
                    self._opened.set()
                    async for event in source.aiter_sse():
                        self._last_id = event.id or self._last_id
                        yield event
            except httpx.TransportError:
                pass
            await asyncio.sleep(0.05)

    async def _event(self) -> httpx_sse.ServerSentEvent:
        event = await self._next
        self._next = asyncio.ensure_future(anext(self._events))
        return event

    async def take(self, count: int) -> list[dict]:
        found: list[dict] = []
        while len(found) < count:
            event = await self._event()
            if event.event == "message":
                found.append(event.json())
        return found

    async def gap(self) -> dict:
        while True:
            event = await self._event()
            if event.event == "gap":
                return event.json()

    async def close(self) -> None:
        self._next.cancel()
        await asyncio.gather(self._next, return_exceptions=True)
        await self._events.aclose()
        await self._client.aclose()


@pytest.fixture(params=["eventsource", "httpx-sse"])
async def reader(request):
    made = (
        NodeReader(request.getfixturevalue("installed"))
        if request.param == "eventsource"
        else HttpxReader()
    )
    yield made
    await made.close()


async def publish(sidecar, *numbers):
    for number in numbers:
        status, _ = await sidecar.publish({"topic": "orders", "message": number, "id": str(number)})
        assert status == 200


async def test_they_resume_exactly_over_all_partitions_when_the_sidecar_restarts(
    mesh, reader, tmp_path
):
    mesh.log.topic("orders", partitions=3, strategy="round_robin")
    publisher = await mesh.sidecar(data=tmp_path / "publisher")
    await publish(publisher, *range(4))
    sidecar = await mesh.sidecar()
    await reader.open(f"{sidecar.base}/subscribe/orders?from=earliest")
    found = await reader.take(4)
    await publish(publisher, 4)
    found += await reader.take(1)
    port = sidecar.assembly.site.port
    mesh.sidecars.remove(sidecar)
    await sidecar.stop()
    await publish(publisher, 5, 6, 7)
    sidecar = await mesh.sidecar(listen=Address.parse(f"127.0.0.1:{port}"))
    found += await reader.take(3)
    await publish(publisher, 8)
    found += await reader.take(1)
    assert sorted(each["message"] for each in found) == list(range(9))
    for partition in range(3):
        offsets = [each["offset"] for each in found if each["partition"] == partition]
        assert offsets == list(range(len(offsets)))


async def test_heartbeats_disturb_nobody_and_gaps_are_events_of_their_own(mesh, reader):
    sidecar = await mesh.sidecar()
    await reader.open(f"{sidecar.base}/subscribe/orders")
    # The fake log beats five times a second, and each beat becomes a comment.
    await asyncio.sleep(0.5)
    await mesh.gatekeeper.say(
        type="gap", partition=0, first_offset=0, next_offset=0, code="damaged", detail="rot"
    )
    await publish(sidecar, 0)
    assert [each["message"] for each in await reader.take(1)] == [0]
    await mesh.gatekeeper.say(
        type="gap", partition=0, first_offset=1, next_offset=5, code="damaged", detail="rot"
    )
    assert (await reader.gap())["next_offset"] == 5


async def test_a_reader_that_comes_back_before_its_first_message_has_missed_nothing(
    mesh, installed, tmp_path
):
    publisher = await mesh.sidecar(data=tmp_path / "publisher")
    await publish(publisher, 0)
    sidecar = await mesh.sidecar()
    reader = NodeReader(installed)
    await reader.open(f"{sidecar.base}/subscribe/orders")
    port = sidecar.assembly.site.port
    mesh.sidecars.remove(sidecar)
    await sidecar.stop()
    await publish(publisher, 1, 2)
    await mesh.sidecar(listen=Address.parse(f"127.0.0.1:{port}"))
    assert [each["message"] for each in await reader.take(2)] == [1, 2]
    await reader.close()
