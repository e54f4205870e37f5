"""The cleaner's timer applies retention, survives failures, and waits for its last pass."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from core_log.cleaning import Cleaning
from core_log.config import LogConfig
from core_log.log.results import CleanReport

MIB = 1024 * 1024


async def test_retention_by_bytes_and_deleted_topics_free_their_room(
    start_core: Any, frames: Any
) -> None:
    core = await start_core(log=LogConfig(segment_bytes=MIB, disk_reserve_bytes=0))
    storage = core.core.storage
    for name, limit in (("small", 300_000), ("large", None), ("gone", None)):
        body = {"name": name, "retention": {"age_ms": None, "bytes": limit}}
        await core.call("POST", "/v1/topics", json=body)
    for _ in range(30):
        for name in ("small", "large", "gone"):
            await core.append(frames.encoded(name, [b"x" * 50_000]))
    await core.call("DELETE", "/v1/topics/gone")
    for _ in range(2):
        await core.core.cleaning.clean()
    assert storage.disk.start_offset("gone", 0) == 30
    assert storage.disk.start_offset("large", 0) == 0
    assert 20 <= storage.disk.start_offset("small", 0) < 30
    _, body, headers = await core.call("GET", "/v1/read?topic=small&offset=0")
    assert frames.offset(body) == int(headers["Sidegate-Start-Offset"]) > 0
    _, topic, _ = await core.call("GET", "/v1/topics/small")
    assert topic["offsets"][0]["start_offset"] > 0


class Fake:
    """Storage whose cleaning the test controls."""

    def __init__(self) -> None:
        self.passes = 0
        self.began = asyncio.Event()
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.disk = self.control = self.catalog = self

    def retention(self) -> Mapping[str, object]:
        return {}

    async def clean(self, *_: object) -> CleanReport:
        self.passes += 1
        self.began.set()
        await self.go_on.wait()
        if self.passes == 1:
            raise OSError("the disk is slow today")
        return CleanReport(0, 1, 2, 3, 0, ("a note",))


async def test_a_failed_pass_is_logged_and_the_next_one_comes(
    caplog: pytest.LogCaptureFixture, eventually: Any
) -> None:
    fake = Fake()
    cleaning = Cleaning(fake, 0.001)  # type: ignore[arg-type]
    await cleaning.start()
    await eventually(lambda: fake.passes >= 4)
    await cleaning.drain()
    await cleaning.stop()
    assert "cleaning failed" in caplog.text


async def test_stopping_waits_for_the_pass_that_runs() -> None:
    fake = Fake()
    fake.go_on.clear()
    cleaning = Cleaning(fake, 0.001)  # type: ignore[arg-type]
    await cleaning.start()
    await fake.began.wait()
    stopping = asyncio.ensure_future(cleaning.stop())
    await asyncio.sleep(0.005)
    assert not stopping.done()
    fake.go_on.set()
    await stopping
    passes = fake.passes
    await asyncio.sleep(0.005)
    assert fake.passes == passes
