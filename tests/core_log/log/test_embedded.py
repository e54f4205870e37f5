"""The embedded engine: a log's writer thread seen from the event loop."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from core_log.log.embedded import EmbeddedEngine
from core_log.log.files import File, Mode, OsFiles
from core_log.log.log_errors import LogClosed, LogLocked, Overloaded
from core_log.log.options import LogOptions, Retention
from core_log.log.results import Appended, Refused

OPTIONS = LogOptions(disk_reserve_bytes=0)
Open = Callable[..., Any]


@pytest.fixture
async def open_engine(tmp_path: Path) -> AsyncIterator[Open]:
    engines: list[EmbeddedEngine] = []

    async def open_engine(options: LogOptions = OPTIONS, **settings: Any) -> EmbeddedEngine:
        settings.setdefault("on_failure", lambda error: None)
        engine = await EmbeddedEngine.open(tmp_path, options, **settings)
        engines.append(engine)
        return engine

    yield open_engine
    for engine in engines:
        await engine.close()


class GatedFile:
    """A file whose syncs wait until they are let through."""

    def __init__(self, file: File, gate: Any) -> None:
        self._file = file
        self._gate = gate

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def sync(self) -> None:
        self._gate.wait()
        self._file.sync()


class GatedFiles(OsFiles):
    def __init__(self, gate: Any) -> None:
        self.gate = gate

    def open(self, path: Path, mode: Mode) -> Any:
        file = super().open(path, mode)
        return GatedFile(file, self.gate) if path.suffix == ".seg" else file


@pytest.fixture
def gate() -> Any:
    gate = Event()
    gate.set()
    return gate


async def test_what_was_appended_is_there_after_a_restart(open_engine: Open, frames: Any) -> None:
    engine = await open_engine()
    outcomes = await engine.append([frames.frame("orders", [b"a", b"b"])])
    assert isinstance(outcomes[0], Appended)
    assert outcomes[0].durability == "committed"
    await engine.close()
    again = await open_engine()
    assert again.end_offset("orders", 0) == 2
    result = await again.read("orders", 0, 0, 10**6)
    assert frames.values(b"".join(result.frames)) == [b"a", b"b"]


async def test_many_appends_in_flight_are_each_answered_once(
    open_engine: Open, frames: Any
) -> None:
    engine = await open_engine()
    answers = [engine.append([frames.frame("orders", [b"x"])]) for _ in range(200)]
    outcomes = await asyncio.gather(*answers)
    assert [each[0].base_offset for each in outcomes] == list(range(200))


async def test_an_append_is_not_answered_before_its_sync(
    open_engine: Open, frames: Any, gate: Any
) -> None:
    engine = await open_engine(files=GatedFiles(gate))
    gate.clear()
    answer = engine.append([frames.frame("orders", [b"x"])])
    done, _ = await asyncio.wait({answer}, timeout=0.05)
    assert not done
    assert engine.end_offset("orders", 0) == 0, "nor can it be read"
    gate.set()
    assert isinstance((await answer)[0], Appended)


async def test_a_conditional_append_is_refused_while_others_are_in_flight(
    open_engine: Open, frames: Any, gate: Any
) -> None:
    engine = await open_engine(files=GatedFiles(gate))
    gate.clear()
    answer = engine.append([frames.frame("orders", [b"x"])])
    refused = await engine.append_if(frames.frame("orders", [b"y"], sequence=1), 0)
    assert isinstance(refused, Refused)
    assert refused.retryable
    elsewhere = asyncio.ensure_future(engine.append_if(frames.frame("other", [b"y"]), 0))
    gate.set()
    await answer
    assert isinstance(await elsewhere, Appended)
    taken = await engine.append_if(frames.frame("orders", [b"y"], sequence=1), 1)
    assert isinstance(taken, Appended)


async def test_dropping_a_topic_waits_for_its_appends_in_flight(
    open_engine: Open, frames: Any, gate: Any
) -> None:
    engine = await open_engine(files=GatedFiles(gate))
    gate.clear()
    answer = engine.append([frames.frame("orders", [b"x"]), frames.frame("orders", [b"y"])])
    dropped = asyncio.ensure_future(engine.drop_topic("orders"))
    await engine.drop_topic("other")
    assert not dropped.done()
    gate.set()
    await dropped
    assert answer.done()
    assert engine.end_offset("orders", 0) == 2


async def test_push_back_is_raised_at_once_and_leaves_nothing_in_flight(
    open_engine: Open, frames: Any, gate: Any
) -> None:
    engine = await open_engine(
        LogOptions(disk_reserve_bytes=0, in_flight_bytes_max=1000), files=GatedFiles(gate)
    )
    gate.clear()
    answer = engine.append([frames.frame("orders", [b"x"])])
    with pytest.raises(Overloaded):
        engine.append([frames.frame("busy", [b"y" * 1000])])
    await engine.drop_topic("busy")
    gate.set()
    await answer


async def test_after_closing_nothing_is_accepted(open_engine: Open, frames: Any) -> None:
    engine = await open_engine()
    await engine.close()
    with pytest.raises(LogClosed):
        engine.append([frames.frame("orders", [b"x"])])


async def test_a_second_engine_on_the_same_folder_is_refused(open_engine: Open) -> None:
    await open_engine()
    with pytest.raises(LogLocked):
        await open_engine()


async def test_an_open_that_is_cancelled_leaves_no_log_open(
    tmp_path: Path, open_engine: Open
) -> None:
    opening = asyncio.ensure_future(
        EmbeddedEngine.open(tmp_path, OPTIONS, on_failure=lambda error: None)
    )
    await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    await open_engine()


async def test_a_listener_that_fails_is_reported_and_harms_nobody_else(
    open_engine: Open, frames: Any
) -> None:
    engine = await open_engine()
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))

    def fail(group: Sequence[object]) -> None:
        raise LookupError("a bug")

    engine.tail(fail)
    assert isinstance((await engine.append([frames.frame("orders", [b"x"])]))[0], Appended)
    assert isinstance(reported[0]["exception"], LookupError)


async def test_offsets_are_found_by_time(open_engine: Open, frames: Any, manual_clock: Any) -> None:
    engine = await open_engine(clock=manual_clock)
    begin = manual_clock.us
    for _ in range(3):
        await engine.append([frames.frame("orders", [b"x", b"y"])])
        manual_clock.us += 1000
    assert await engine.offset_for_time("orders", 0, begin + 1000) == 2
    assert await engine.offset_for_time("orders", 0, begin + 10**9) == 6


async def test_cleaning_and_status_reach_the_log(open_engine: Open, frames: Any) -> None:
    engine = await open_engine()
    await engine.append([frames.frame("orders", [b"x"])])
    await engine.clean({"orders": Retention()})
    assert engine.status().leaves == 1
    assert engine.capabilities.durable
