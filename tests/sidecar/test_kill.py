"""A sidecar process that is killed -9, again and again, while gatekeeper and issuer come and go.

Every message that was answered with 200 or 202 must be in the log once, in the order in which it
was published; one whose answer was lost may be there, once, in its place.
"""

import asyncio
import contextlib
import json
import random
import socket
import sys

import aiohttp
import pytest


class Process:
    """`sidegate sidecar` on a port of its own, restarted at will."""

    def __init__(self, mesh, port):
        self.base = f"http://127.0.0.1:{port}"
        self._path = mesh.folder / "sidecar.yaml"
        config = mesh.config()
        self._path.write_text(
            json.dumps(
                {
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
                    "data": str(mesh.folder / "killed"),
                }
            )
        )
        self._process = None

    async def start(self):
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "sidegate", "sidecar", "--config", str(self._path)
        )

    async def kill(self):
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def stop(self):
        if self._process is not None and self._process.returncode is None:
            self._process.terminate()
            return await self._process.wait()
        return None


class Load:
    """Publishes numbers, one after the other, and remembers what was answered."""

    def __init__(self, base, worker, ack):
        self._url = f"{base}/publish?ack={ack}&timeout_ms=300"
        self._worker = worker
        self.taken = []
        self.refused = set()
        self.moved = asyncio.Event()
        self.running = True

    async def run(self):
        number = 0
        async with aiohttp.ClientSession() as session:
            while self.running:
                number += 1
                body = {"topic": "t", "message": [self._worker, number]}
                try:
                    async with session.post(self._url, json=body) as response:
                        await response.read()
                except (aiohttp.ClientError, ConnectionError):
                    await asyncio.sleep(0.02)
                    continue
                if response.status in (200, 202):
                    self.taken.append(number)
                    self.moved.set()
                elif response.status == 503:
                    self.refused.add(number)


async def run(mesh, rounds, seed):
    chance = random.Random(seed)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    sidecar = Process(mesh, port)
    await sidecar.start()
    loads = [
        Load(sidecar.base, worker, ack) for worker, ack in enumerate(("auto", "core", "sidecar"))
    ]
    tasks = [asyncio.create_task(load.run()) for load in loads]
    try:
        for _ in range(rounds):
            # Each round begins when every worker gets messages through again.
            await progress(loads)
            await asyncio.sleep(chance.uniform(0.05, 0.5))
            what = chance.choice(["sidecar", "sidecar", "gatekeeper", "lose", "both"])
            if what in ("gatekeeper", "both"):
                await mesh.gatekeeper.listening.stop()
            if what == "lose":
                mesh.gatekeeper.failures += chance.choices(
                    ["drop", "lose", 503, "unavailable"], k=3
                )
            if what in ("sidecar", "both"):
                await sidecar.kill()
                await sidecar.start()
            if what in ("gatekeeper", "both"):
                await asyncio.sleep(chance.uniform(0.1, 0.8))
                await mesh.gatekeeper.listening.start()
        for load in loads:
            load.running = False
        await asyncio.gather(*tasks)
        await settled(mesh, sidecar)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await sidecar.stop()
    return loads


async def progress(loads):
    for load in loads:
        load.moved.clear()
        await load.moved.wait()


async def settled(mesh, sidecar):
    """Wait until the sidecar says that nothing is left to send."""
    mesh.gatekeeper.failures.clear()
    async with aiohttp.ClientSession() as session:
        while True:
            with contextlib.suppress(aiohttp.ClientError):
                async with session.get(f"{sidecar.base}/status") as response:
                    status = await response.json()
                queues = status["queues"]
                left = queues["unsettled_batches"] + queues["waiting_messages"]
                if status["uplink"] == "connected" and not left + status["spool"]["batches"]:
                    return
            await asyncio.sleep(0.05)


def judge(mesh, loads):
    stored = [json.loads(value) for value in mesh.log.values("t")]
    for worker, load in enumerate(loads):
        own = [number for who, number in stored if who == worker]
        assert own == sorted(set(own)), f"worker {worker}: doubled or out of order"
        lost = set(load.taken) - set(own)
        assert not lost, f"worker {worker}: {len(lost)} of {len(load.taken)} lost"
        assert not load.refused & set(own), f"worker {worker}: never sent, yet in the log"
        assert load.taken, f"worker {worker} got nothing through"


async def test_killed_at_random_nothing_taken_is_lost_or_doubled(mesh):
    judge(mesh, await run(mesh, rounds=8, seed=1))


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(5))
async def test_killed_at_random_for_minutes(mesh, seed):
    judge(mesh, await run(mesh, rounds=60, seed=seed))
