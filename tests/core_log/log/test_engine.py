"""Both engines keep the promises of the interface that everything above relies on."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from core_log.control.memory_topics import MemoryTopics
from core_log.log.embedded import EmbeddedEngine
from core_log.log.engine import Announced, Engine
from core_log.log.options import LogOptions
from core_log.log.results import Appended, Committed, Refused


def no_failure(error: Exception) -> None:
    raise AssertionError(error)


@pytest.fixture(params=["embedded", "memory"])
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Engine]:
    if request.param == "memory":
        yield MemoryTopics()
        return
    embedded = await EmbeddedEngine.open(
        tmp_path, LogOptions(disk_reserve_bytes=0), on_failure=no_failure
    )
    yield embedded
    await embedded.close()


async def test_outcomes_come_in_the_order_of_the_frames(engine: Engine, frames: Any) -> None:
    outcomes = await engine.append(
        [
            frames.frame("a", [b"1", b"2"]),
            frames.frame("b", [b"3"]),
            frames.frame("a", [b"4"], sequence=50),
            frames.frame("a", [b"5"], sequence=2),
        ]
    )
    assert [each.topic for each in outcomes] == ["a", "b", "a", "a"]
    assert isinstance(outcomes[2], Refused)
    assert [each.base_offset for each in outcomes if isinstance(each, Appended | Announced)] == [
        0,
        0,
        2,
    ]
    assert (engine.start_offset("a", 0), engine.end_offset("a", 0)) == (0, 3)
    assert set(engine.partitions()) == {("a", 0), ("b", 0)}


async def test_frames_can_be_read_when_their_commit_is_told_and_are_the_same_bytes(
    engine: Engine, frames: Any
) -> None:
    told: list[Committed] = []

    def listen(group: Any) -> None:
        for batch in group:
            hot = engine.read_hot(batch.topic, batch.partition, batch.base_offset, 1)
            assert hot is not None
            assert hot.frames[0] is batch.frame
            told.append(batch)

    engine.tail(listen)
    await engine.append([frames.frame("a", [b"1"]), frames.frame("a", [b"2"])])
    assert [each.base_offset for each in told] == [0, 1]


async def test_reads_give_whole_frames_and_say_where_to_go_on(engine: Engine, frames: Any) -> None:
    await engine.append([frames.frame("a", [b"1", b"2"]), frames.frame("a", [b"3"])])
    inside = await engine.read("a", 0, 1, 1)
    assert frames.values(b"".join(inside.frames)) == [b"1", b"2"]
    assert inside.next_offset == 2
    rest = await engine.read("a", 0, inside.next_offset, 10**6)
    assert frames.values(b"".join(rest.frames)) == [b"3"]
    assert (rest.next_offset, rest.end_offset) == (3, 3)
    beyond = await engine.read("a", 0, 3, 10**6)
    assert (beyond.frames, beyond.next_offset) == ((), 3)


async def test_a_conditional_append_is_made_only_at_the_very_end(
    engine: Engine, frames: Any
) -> None:
    assert engine.capabilities.conditional_append
    await engine.append([frames.frame("a", [b"1"])])
    refused = await engine.append_if(frames.frame("a", [b"2"], sequence=1), 0)
    assert isinstance(refused, Refused)
    assert (refused.code, refused.members) == ("condition_failed", {"end_offset": 1})
    assert engine.end_offset("a", 0) == 1
    taken = await engine.append_if(frames.frame("a", [b"2"], sequence=1), 1)
    assert not isinstance(taken, Refused)
    assert taken.base_offset == 1


async def test_a_dropped_topic_keeps_its_end(engine: Engine, frames: Any) -> None:
    await engine.append([frames.frame("a", [b"1", b"2"])])
    await engine.drop_topic("a")
    assert engine.end_offset("a", 0) == 2
