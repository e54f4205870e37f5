"""A disk that fills up under load, one that is full at the start, and one that hardly moves."""

import asyncio
import json
import os
import subprocess
import threading
from pathlib import Path

import pytest

from sidecar.spool.spool_files import FileLayer

DISK_BYTES = 4 * 1024 * 1024


@pytest.fixture
def small_disk(tmp_path):
    """A real file system of a few megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)]
    try:
        done = subprocess.run(["mount", *options], capture_output=True, check=False)
    except OSError as error:
        pytest.skip(f"needs a small disk, which can't be mounted: {error}")
    if done.returncode != 0:
        pytest.skip(f"needs a small disk, which can't be mounted: {done.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=False)


def fill(folder: Path) -> Path:
    """Take all the room that is left."""
    path = folder / "filler"
    with path.open("wb", buffering=0) as file:
        for size in (64 * 1024, 4096, 1):
            while True:
                try:
                    file.write(bytes(size))
                except OSError:
                    break
    assert os.statvfs(folder).f_bavail == 0
    return path


async def test_a_disk_that_fills_up_under_load_refuses_what_it_cannot_keep_and_goes_on(
    mesh, small_disk, sidecar_process, under_load, make_load, until_settled, stored
):
    sidecar = await sidecar_process(small_disk / "data")
    loads = under_load(
        make_load(sidecar.base, 0, "auto"),
        make_load(sidecar.base, 1, "sidecar"),
        make_load(sidecar.base, 2, "auto", with_ids=True),
        make_load(sidecar.base, 3, "auto", lines=True),
    )
    await loads.progress()
    filler = fill(small_disk)
    await mesh.gatekeeper.listening.stop()
    await sidecar.until(lambda status: status["spool"]["error"] is not None)
    status, ready = await sidecar.get("/readyz")
    assert status == 503
    assert "disk is full" in ready["checks"]["promises"]["spool_error"]
    # With the log back, what needs no disk goes through, and what the spool held is sent.
    await mesh.gatekeeper.listening.start()
    await sidecar.until(lambda status: status["uplink"] == "connected")
    assert (await sidecar.publish([9, 1], topic="other", ack="core"))[0] == 200
    await mesh.gatekeeper.listening.stop()
    filler.unlink()
    await sidecar.until(lambda status: status["spool"]["error"] is None)
    await loads.progress()
    await mesh.gatekeeper.listening.start()
    await loads.progress()
    await loads.stop()
    await until_settled(sidecar.base)
    counts = loads.judge(stored(mesh))
    assert counts["503 spool_full"] > 0


async def test_a_sidecar_that_is_killed_and_started_on_a_full_disk_sends_what_it_has(
    mesh, small_disk, sidecar_process, until_settled
):
    sidecar = await sidecar_process(small_disk / "data")
    await sidecar.until(lambda status: status["uplink"] == "connected")
    assert (await sidecar.publish(0))[0] == 200
    await mesh.gatekeeper.listening.stop()
    await sidecar.until(lambda status: status["uplink"] == "down")
    for number in range(1, 30):
        assert (await sidecar.publish(number))[0] == 202
    await sidecar.kill()
    filler = fill(small_disk)
    await sidecar.start()
    status, ready = await sidecar.get("/readyz")
    assert (status, ready["checks"]["promises"]["spool_takes_messages"]) == (503, False)
    assert (await sidecar.publish("refused"))[1]["code"] == "spool_full"
    await mesh.gatekeeper.listening.start()
    await until_settled(sidecar.base)
    assert (await sidecar.get("/readyz"))[0] == 200
    assert (await sidecar.publish(30))[0] == 200
    filler.unlink()
    await sidecar.until(lambda status: status["spool"]["takes_messages"])
    await mesh.gatekeeper.listening.stop()
    await sidecar.until(lambda status: status["uplink"] == "down")
    assert (await sidecar.publish(31))[0] == 202
    await sidecar.kill()
    await sidecar.start()
    await mesh.gatekeeper.listening.start()
    await until_settled(sidecar.base)
    assert [json.loads(value) for value in mesh.log.values("t")] == list(range(32))


async def test_a_new_sidecar_starts_on_a_disk_without_a_byte_left(
    mesh, small_disk, sidecar_process
):
    fill(small_disk)
    sidecar = await sidecar_process(small_disk / "data")
    await sidecar.until(lambda status: status["uplink"] == "connected")
    assert (await sidecar.publish(1))[0] == 200
    assert (await sidecar.publish(2, ack="sidecar"))[1]["code"] == "spool_full"
    assert mesh.log.values("t") == [b"1"]


class SlowDisk(FileLayer):
    """Syncs take until they are let go on."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.syncing = threading.Event()

    def sync(self, descriptor: int) -> None:
        self.syncing.set()
        self.gate.wait()
        super().sync(descriptor)


async def test_a_disk_that_hardly_moves_delays_only_who_needs_it(mesh):
    disk = SlowDisk()
    sidecar = await mesh.sidecar(files=disk)
    await sidecar.publish({"topic": "t", "message": 0})
    disk.gate.clear()
    disk.syncing.clear()
    kept = [
        asyncio.create_task(sidecar.publish({"topic": "kept", "message": n}, ack="sidecar"))
        for n in range(20)
    ]
    mesh.gatekeeper.hang = asyncio.Event()
    await asyncio.to_thread(disk.syncing.wait, 60)
    # Meanwhile everything answers that needs no disk.
    assert (await sidecar.get("/healthz"))[0] == 200
    assert not any(task.done() for task in kept)
    mesh.gatekeeper.hang.set()
    mesh.gatekeeper.hang = None
    for number in range(1, 50):
        assert (await sidecar.publish({"topic": "t", "message": number}, ack="core"))[0] == 200
    disk.gate.set()
    assert {status for status, _ in await asyncio.gather(*kept)} == {202}
    await sidecar.until(lambda: sidecar.assembly.outbox.records == 0)
    assert mesh.log.values("t") == [b"%d" % number for number in range(50)]
    assert sorted(map(int, mesh.log.values("kept"))) == list(range(20))


async def test_an_outage_with_a_slow_disk_keeps_the_order_and_the_count(mesh):
    disk = SlowDisk()
    sidecar = await mesh.sidecar(files=disk)
    await mesh.gatekeeper.listening.stop()
    await sidecar.down()
    for number in range(40):
        disk.gate.clear()
        disk.syncing.clear()
        asked = asyncio.create_task(sidecar.publish({"topic": "t", "message": number}))
        await asyncio.to_thread(disk.syncing.wait, 60)
        assert not asked.done(), "nothing is promised before it is synced"
        disk.gate.set()
        assert (await asked)[0] == 202
    await mesh.gatekeeper.listening.start()
    await sidecar.connected()
    await sidecar.until(lambda: sidecar.assembly.outbox.records == 0)
    assert list(map(int, mesh.log.values("t"))) == list(range(40))
