"""The control state as the audit reads it, from the records that the core writes."""

import asyncio
from pathlib import Path
from typing import Any

from core_log.control.control import ControlLog, Snapshots
from core_log.control.control_state import TopicDeleted, TopicPut
from core_log.control.topics import Definition, Retention, Topic
from spark.control_state import CONTROL_FOLDER, read_control


def topic(name: str, **retention: Any) -> TopicPut:
    return TopicPut(Topic(Definition(name, retention=Retention(**retention)), 1, 1, (0,)))


def write(folder: Path, *facts: Any, snapshot_every: int = 1000) -> None:
    async def run() -> None:
        log = await ControlLog.open(
            folder / CONTROL_FOLDER,
            on_failure=lambda error: None,
            snapshots=Snapshots(records=snapshot_every),
        )
        for fact in facts:
            await log.change(lambda state, fact=fact: [fact])  # type: ignore[misc]
        await log.close()

    asyncio.run(run())


def test_topics_have_their_last_rule_and_deleted_ones_are_remembered(tmp_path: Path) -> None:
    write(
        tmp_path, topic("a", age_ms=5), topic("b"), topic("a", age_ms=9, bytes=7), TopicDeleted("b")
    )
    control = read_control(tmp_path, lambda damage: None)
    assert control.found
    assert (control.topics["a"].age_ms, control.topics["a"].retention_bytes) == (9, 7)
    assert control.topics["b"].deleted


def test_a_snapshot_and_what_follows_it_say_the_same(tmp_path: Path) -> None:
    facts = [topic(f"t{number}", age_ms=number + 1) for number in range(7)]
    write(tmp_path, *facts, TopicDeleted("t0"), snapshot_every=3)
    control = read_control(tmp_path, lambda damage: None)
    assert {name: each.age_ms for name, each in control.topics.items()} == {
        f"t{number}": number + 1 for number in range(7)
    }
    assert [name for name, each in control.topics.items() if each.deleted] == ["t0"]


def test_without_a_control_log_nothing_is_known(tmp_path: Path) -> None:
    assert not read_control(tmp_path, lambda damage: None).found
