"""Storage: opens both logs or none, and says in one line why it can't."""

import os
from pathlib import Path
from typing import Any

import pytest

from core_log.clock import SystemClock
from core_log.config import CoreConfig, LogConfig
from core_log.control.control import RECORDS_TOPIC
from core_log.control.records import record_frame
from core_log.log.embedded import EmbeddedEngine
from core_log.log.files import OsFiles
from core_log.log.options import LogOptions
from core_log.storage import Storage
from hosting.lifecycle import StartError
from hosting.units import Address


def make_storage(data: Path) -> Storage:
    config = CoreConfig(
        listen=Address(path=data / "socket"),
        health=Address("127.0.0.1", 0),
        data=data,
        admit_uids=(os.getuid(),),
        log=LogConfig(disk_reserve_bytes=0),
    )
    return Storage(config, clock=SystemClock(), files=OsFiles(), on_failure=lambda error: None)


async def test_it_is_ready_while_it_is_open(tmp_path: Path) -> None:
    storage = make_storage(tmp_path)
    assert not storage.readiness().ready
    await storage.start()
    readiness = storage.readiness()
    assert readiness.ready
    assert readiness.detail["topics"] == 1
    await storage.drain()
    await storage.stop()
    assert not storage.readiness().ready


async def test_the_main_log_lies_in_the_data_folder_and_control_below_it(tmp_path: Path) -> None:
    storage = make_storage(tmp_path / "data")
    await storage.start()
    await storage.stop()
    assert list((tmp_path / "data").glob("*.seg"))
    assert list((tmp_path / "data" / "control").glob("*.seg"))
    assert (tmp_path / "data").stat().st_mode & 0o077 == 0


async def test_a_folder_in_use_is_one_line_and_leaves_nothing_open(tmp_path: Path) -> None:
    first = make_storage(tmp_path)
    await first.start()
    with pytest.raises(StartError, match="another process has the log"):
        await make_storage(tmp_path).start()
    await first.stop()
    again = make_storage(tmp_path)
    await again.start()
    await again.stop()


async def test_a_control_log_of_a_newer_version_keeps_the_core_from_starting(
    tmp_path: Path,
) -> None:
    options = LogOptions(disk_reserve_bytes=0, require_provenance=False, check_sequences=False)
    engine = await EmbeddedEngine.open(tmp_path / "control", options, on_failure=lambda error: None)
    await engine.append([record_frame(RECORDS_TOPIC, [b'{"record":"planet","at_us":1}'], 1)])
    await engine.close()
    with pytest.raises(StartError, match="a newer version of Sidegate wrote it"):
        await make_storage(tmp_path).start()


async def test_both_engines_are_heard_by_the_broadcast(tmp_path: Path, frames: Any) -> None:
    storage = make_storage(tmp_path)
    await storage.start()
    heard: list[str] = []

    class Ear:
        def offer(self, batch: Any) -> bool:
            heard.append(batch.topic)
            return False

        def flush(self) -> None:
            raise AssertionError("it asked for none")

    storage.broadcast.add("disk", [0], Ear())
    storage.broadcast.add("memory", [0], Ear())
    await storage.disk.append([frames.frame("disk", [b"x"])])
    await storage.memory.append([frames.frame("memory", [b"x"])])
    assert sorted(heard) == ["disk", "memory"]
    await storage.stop()
