"""Gatekeeper, core and issuer of a real mesh are killed and restarted at random under load.

Real processes, mTLS, tokens that live for seconds, an fsynced log. Each worker has a key of its
own, so that its messages share a partition with others' and must keep their order in it.
"""

import asyncio
import os
import random
import signal
import time

import pytest

PARTITIONS = 3
VICTIMS = ("gatekeeper", "gatekeeper", "core", "core", "issuer", "sidecar")
TOKEN_TTL = "4s"
"""So short that an issuer that is away is missed."""
LATE = "5s"
"""Those who are killed hold nothing back; half a minute would make the test wait for nothing."""


@pytest.fixture
def live(start_mesh):
    """A mesh whose tokens live for seconds."""
    environ = {"SIDEGATE_ISSUER_TOKEN_TTL": TOKEN_TTL, "SIDEGATE_SIDECAR_DEDUPE__LATE": LATE}
    mesh = start_mesh(environ=environ)
    mesh.wait_for("ready")
    return mesh


def everything(mesh, topic):
    """What the log holds, by partition."""
    found = []
    for partition in range(PARTITIONS):
        rows, offset = [], 0
        while True:
            query = f"partition={partition}&offset={offset}&limit=5000"
            status, page, _ = mesh.request("GET", f"/messages/{topic}?{query}")
            assert status == 200, page
            if not page["messages"]:
                break
            rows += [each["message"] for each in page["messages"]]
            offset = page["next_offset"]
        found.append(rows)
    return found


@pytest.fixture
def play(live, under_load, make_load, until_settled):
    async def run(seed, *, rounds=None, seconds=0.0):
        chance = random.Random(seed)
        topic = {"name": "t", "partitions": PARTITIONS, "strategy": "key"}
        assert live.request("POST", "/topics", topic)[0] == 201
        assert live.request("POST", "/topics", {"name": "one"})[0] == 201
        loads = under_load(
            make_load(live.url, 0, "auto"),
            make_load(live.url, 1, "core"),
            make_load(live.url, 2, "sidecar"),
            make_load(live.url, 3, "auto", with_ids=True),
            make_load(live.url, 4, "core", with_ids=True),
            make_load(live.url, 5, "auto", topic="one", lines=True),
        )
        killed: dict[str, int] = {}
        end = time.monotonic() + seconds
        while len(killed) < 1 or sum(killed.values()) < (rounds or 0) or time.monotonic() < end:
            await asyncio.wait_for(loads.progress(), 60)
            await asyncio.sleep(chance.uniform(0.0, 1.0))
            victims = chance.sample(VICTIMS, chance.choice([1, 1, 2]))
            pids = {victim: await asyncio.to_thread(_pid, live, victim) for victim in victims}
            for victim, pid in pids.items():
                killed[victim] = killed.get(victim, 0) + 1
                os.kill(pid, signal.SIGKILL)
            for victim, pid in pids.items():
                await asyncio.to_thread(_pid, live, victim, pid)
        await loads.stop()
        await asyncio.wait_for(until_settled(live.url), 90)
        stored = await asyncio.to_thread(everything, live, "t")
        lines = await asyncio.to_thread(live.messages, "one")
        # Fails where anything that was taken is lost, doubled or out of order.
        counts = loads.judge([*stored, [each["message"] for each in lines]])
        print({"killed": killed, **counts})
        return counts

    return run


def _pid(mesh, service, killed=None):
    """Of a service that runs, again where it was killed: the supervisor starts it."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        pid = mesh.record()["services"][service]["pid"]
        if pid is not None and pid != killed:
            return pid
        time.sleep(0.02)
    raise AssertionError(f"{service} did not come back")


async def test_services_die_under_load_and_every_message_is_counted(play):
    counts = await play(1, rounds=2)
    assert counts["stored"] >= counts["taken"] > 0, counts


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [2, 3])
async def test_services_die_for_minutes_and_every_message_is_counted(play, seed):
    counts = await play(seed, seconds=240)
    assert counts["stored"] >= counts["taken"] > 0, counts
