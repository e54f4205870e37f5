"""Checkpoints come by themselves: under load, after the last append, and before the end."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from core_log.tree.checkpointing import NoCheckpoint
from hosting.lifecycle import StartError
from log_format.note import parse_note


def size_of(note: bytes | str) -> int:
    return int(parse_note(note).text.split("\n")[1])


@pytest.fixture
async def core(start_core: Any, signing_key: Path) -> Any:
    running = await start_core(signing_key=signing_key)
    await running.call("POST", "/v1/topics", json={"name": "orders"})
    return running


async def test_a_log_under_load_is_signed_again_and_again(
    core: Any, frames: Any, eventually: Any
) -> None:
    checkpoints = core.core.checkpoints
    before = checkpoints.checkpointer.signed_count
    stopping = asyncio.Event()

    async def load() -> None:
        while not stopping.is_set():
            await core.append(frames.encoded())
            await asyncio.sleep(0.01)

    loading = asyncio.ensure_future(load())
    await eventually(lambda: checkpoints.checkpointer.signed_count >= before + 3)
    stopping.set()
    await loading
    await eventually(lambda: checkpoints.checkpointer.unsigned == 0)


async def test_the_last_append_is_signed_before_the_core_stops(core: Any, frames: Any) -> None:
    await core.append(*(frames.encoded() for _ in range(3)))
    await core.stop()
    assert size_of((core.config.data / "tree/checkpoint").read_bytes()) == 3


async def test_one_who_waits_makes_signing_hurry(core: Any, frames: Any) -> None:
    loop = asyncio.get_running_loop()
    times = []
    # A busy machine is slow as well; it is enough that one of them did not have to wait.
    while min(times, default=1.0) >= 0.6:
        await core.append(frames.encoded())
        began = loop.time()
        leaf = len(times)
        _, note, _ = await core.call("GET", f"/v1/checkpoint?wait_leaf={leaf}&wait_ms=10000")
        assert size_of(note) > leaf
        times.append(loop.time() - began)
        assert len(times) < 40, times


async def test_waiting_ends_when_the_core_drains(core: Any, frames: Any) -> None:
    waiting = asyncio.ensure_future(core.call("GET", "/v1/checkpoint?wait_leaf=99&wait_ms=30000"))
    await core.has_request()
    stopping = asyncio.ensure_future(core.stop())
    status, note, _ = await waiting
    assert (status, size_of(note)) == (200, 0)
    await stopping


async def test_readiness_tells_how_far_signing_is(core: Any, frames: Any, eventually: Any) -> None:
    await core.append(frames.encoded())
    checkpoints = core.core.checkpoints
    await eventually(lambda: checkpoints.readiness().detail == {
        "leaves": 1, "signed": 1, "unsigned": 0,
    })  # fmt: skip
    assert checkpoints.status()["signed_leaves"] == 1


async def test_a_core_without_a_key_keeps_its_tree_all_the_same(
    start_core: Any, frames: Any, signing_key: Path
) -> None:
    core = await start_core()
    await core.call("POST", "/v1/topics", json={"name": "orders"})
    await core.append(frames.encoded())
    assert core.core.service.readiness().ready
    with pytest.raises(NoCheckpoint, match="give it `signing_key` or `signer`"):
        core.core.checkpoints.require()
    assert core.core.checkpoints.tree.size == 1
    await core.stop()
    again = await start_core(signing_key=signing_key)
    assert again.core.checkpoints.checkpointer.newest.size == 1


async def test_a_key_that_others_may_read_stops_the_start(
    start_core: Any, core: Any, signing_key: Path
) -> None:
    os.chmod(signing_key, 0o640)  # noqa: PTH101
    checkpoints = type(core.core.checkpoints)(
        core.config, core.core.storage, core.core.checkpoints._clock, None
    )
    with pytest.raises(StartError, match="mode 0640"):
        await checkpoints.start()
