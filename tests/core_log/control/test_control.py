"""The control log: durable before known, fast to open, never half forgotten."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core_log.control.control import (
    OPTIONS,
    RECORDS_TOPIC,
    SNAPSHOTS_TOPIC,
    ControlDamaged,
    ControlLog,
    Snapshots,
)
from core_log.control.control_state import (
    BadRecord,
    Cause,
    ControlState,
    Fact,
    Revoked,
    TopicDeleted,
    TopicPut,
)
from core_log.control.records import record_frame
from core_log.control.revocations import KEPT_AFTER_END_US, Revocation
from core_log.control.topics import Definition, Topic, UnknownTopic
from core_log.log.embedded import EmbeddedEngine
from core_log.log.log import Log
from core_log.log.options import Retention
from log_format.frame import decode_frame

SMALL = replace(OPTIONS, disk_reserve_bytes=0)
Open = Callable[..., Any]


def put(name: str, version: int = 1) -> TopicPut:
    return TopicPut(Topic(Definition(name), 1, version, (0,)))


def always(*facts: Fact) -> Callable[[ControlState], list[Fact]]:
    return lambda _: list(facts)


@pytest.fixture
async def open_control(tmp_path: Path) -> AsyncIterator[Open]:
    opened: list[ControlLog] = []

    async def open_control(**settings: Any) -> ControlLog:
        control = await ControlLog.open(
            tmp_path, on_failure=lambda error: None, options=SMALL, **settings
        )
        opened.append(control)
        return control

    yield open_control
    for control in opened:
        await control.close()


async def test_changes_survive_a_restart(open_control: Open) -> None:
    control = await open_control()
    await control.change(always(put("orders"), put("payments", 2)))
    await control.change(always(TopicDeleted("orders")))
    state = control.state
    await control.close()
    again = await open_control()
    assert again.state == state
    assert list(again.state.topics) == ["payments"]


async def test_a_refused_change_leaves_everything_as_it_was(open_control: Open) -> None:
    control = await open_control()

    def refuse(_: ControlState) -> list[Fact]:
        raise UnknownTopic("orders")

    with pytest.raises(UnknownTopic):
        await control.change(refuse)
    assert await control.change(always()) == control.state
    assert control.state == ControlState()


async def test_changes_are_decided_one_after_the_other(open_control: Open) -> None:
    control = await open_control()

    def next_topic(state: ControlState) -> list[Fact]:
        return [put(f"t{len(state.topics)}", len(state.topics) + 1)]

    await asyncio.gather(*(control.change(next_topic) for _ in range(20)))
    assert sorted(control.state.topics) == sorted(f"t{n}" for n in range(20))


async def test_a_change_whose_caller_is_cancelled_is_still_made(open_control: Open) -> None:
    control = await open_control()
    change = asyncio.ensure_future(control.change(always(put("orders"))))
    await asyncio.sleep(0)
    change.cancel()
    with pytest.raises(asyncio.CancelledError):
        await change
    await control.wait_for(lambda state: "orders" in state.topics)


async def test_a_waiter_hears_of_the_change_it_waits_for(open_control: Open) -> None:
    control = await open_control()
    waiting = asyncio.ensure_future(control.wait_for(lambda state: state.revocations_version > 0))
    await control.change(always(put("orders")))
    assert not waiting.done()
    revocation = Revocation("client", "x", None, None, None, 1, 2)
    await control.change(always(Revoked(revocation)))
    await waiting


async def test_an_open_reads_a_snapshot_and_only_the_records_after_it(
    open_control: Open, tmp_path: Path
) -> None:
    due = Snapshots().records
    count = due + 10
    control = await open_control()
    for version in range(1, due // 100 + 1):
        await control.change(always(*(put(f"t{n}", version) for n in range(100))))
    for version in range(count - due):
        await control.change(always(put("late", version + 1)))
    state = control.state
    await control.close()
    log = await asyncio.to_thread(Log.open, tmp_path, SMALL)
    try:
        assert log.end_offset(RECORDS_TOPIC, 0) == count
        snapshot = log.read(SNAPSHOTS_TOPIC, 0, 0, 10**7)
        marker = decode_frame(snapshot.frames[-1]).columns().value[0]
        assert marker == b'{"next_offset":%d}' % due
    finally:
        await asyncio.to_thread(log.close)
    assert (await open_control()).state == state


async def test_the_newest_snapshot_is_used_and_older_ones_may_go(
    open_control: Open,
) -> None:
    control = await open_control(snapshots=Snapshots(records=5))
    for version in range(23):
        await control.change(always(put(f"t{version % 7}", version + 1)))
    await control.clean()
    state = control.state
    await control.close()
    again = await open_control()
    assert again.state == state


async def test_a_snapshot_larger_than_a_frame_is_split(open_control: Open, tmp_path: Path) -> None:
    control = await open_control(snapshots=Snapshots(records=50, frame_bytes=2000))
    await control.change(always(*(put(f"t{n}", n + 1) for n in range(50))))
    state = control.state
    await control.close()
    log = await asyncio.to_thread(Log.open, tmp_path, SMALL)
    frames = log.read(SNAPSHOTS_TOPIC, 0, 0, 10**7).frames
    await asyncio.to_thread(log.close)
    assert len(frames) > 3
    assert (await open_control()).state == state


async def test_a_snapshot_without_its_marker_is_passed_over(
    open_control: Open, tmp_path: Path
) -> None:
    control = await open_control(snapshots=Snapshots(records=5))
    await control.change(always(*(put(f"t{n}", n + 1) for n in range(5))))
    await control.change(always(put("late", 6)))
    state = control.state
    await control.close()
    # A crash in the middle of the next snapshot leaves its first frames and no marker.
    engine = await EmbeddedEngine.open(tmp_path, SMALL, on_failure=lambda error: None)
    first = engine.end_offset(SNAPSHOTS_TOPIC, 0)
    whole = await engine.read(SNAPSHOTS_TOPIC, 0, 0, 10**7)
    records = [value or b"" for value in decode_frame(whole.frames[0]).columns().value]
    for _ in range(2):
        torn = record_frame(SNAPSHOTS_TOPIC, records[:2], 1, key=b"%d" % first)
        await engine.append([torn])
    await engine.close()
    assert (await open_control()).state == state


async def test_who_changed_what_is_on_record(open_control: Open, tmp_path: Path) -> None:
    control = await open_control()
    await control.change(always(put("orders")), Cause("billing", "d-17"))
    await control.close()
    log = await asyncio.to_thread(Log.open, tmp_path, SMALL)
    frame = log.read(RECORDS_TOPIC, 0, 0, 10**6).frames[0]
    await asyncio.to_thread(log.close)
    record = decode_frame(frame).columns().value[0] or b""
    assert b'"principal":"billing","decision":"d-17"' in record


async def test_a_record_of_a_newer_version_keeps_the_log_closed(
    open_control: Open, tmp_path: Path
) -> None:
    engine = await EmbeddedEngine.open(tmp_path, SMALL, on_failure=lambda error: None)
    await engine.append([record_frame(RECORDS_TOPIC, [b'{"record":"planet","at_us":1}'], 1)])
    await engine.close()
    with pytest.raises(BadRecord, match="newer version"):
        await open_control()


async def test_records_that_are_gone_without_a_snapshot_keep_the_log_closed(
    open_control: Open, tmp_path: Path
) -> None:
    control = await open_control()
    for version in range(3):
        await control.change(always(put("orders", version + 1)))
    await control.close()
    engine = await EmbeddedEngine.open(tmp_path, SMALL, on_failure=lambda error: None)
    await engine.clean({RECORDS_TOPIC: Retention(drop_below={0: 2})})
    start = engine.start_offset(RECORDS_TOPIC, 0)
    await engine.close()
    assert start > 0
    with pytest.raises(ControlDamaged, match="restore the folder"):
        await open_control()


async def test_a_snapshot_lets_go_of_revocations_that_ended_long_ago(
    open_control: Open, manual_clock: Any
) -> None:
    control = await open_control(clock=manual_clock, snapshots=Snapshots(records=2))
    revocation = Revocation("client", "x", None, manual_clock.us + 1, None, 1, 1)
    await control.change(always(Revoked(revocation)))
    manual_clock.us += KEPT_AFTER_END_US + 1
    await control.change(always(put("orders", 2)))
    assert control.state.revocations == {}
    assert control.state.revocations_version == 1
    state = control.state
    await control.close()
    assert (await open_control()).state == state
