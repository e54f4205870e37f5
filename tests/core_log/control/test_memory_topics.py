"""Memory topics: offsets without a disk, and a tail that never grows beyond its limit."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from core_log.control.memory_topics import NO_LEAF, MemoryTopics
from core_log.log.engine import Announced
from core_log.log.results import Committed, Refused
from log_format.envelope import decode_envelope
from log_format.parts import Provenance


async def announced(memory: MemoryTopics, *frames: Any) -> Sequence[Any]:
    return await memory.append(frames)


async def test_offsets_are_given_out_without_gaps_and_listeners_are_told_at_once(
    frames: Any,
) -> None:
    memory = MemoryTopics()
    told: list[Committed] = []
    memory.tail(told.extend)
    outcomes = await announced(
        memory,
        frames.frame("live", [b"a", b"b"]),
        frames.frame("live", [b"c"]),
        frames.frame("live", [b"d"], partition=1),
    )
    assert [(each.partition, each.base_offset, each.count) for each in outcomes] == [
        (0, 0, 2),
        (0, 2, 1),
        (1, 0, 1),
    ]
    assert [frames.offset(each.frame) for each in told] == [0, 2, 0]
    stamp = decode_envelope(told[0].frame).stamp
    assert stamp is not None
    assert stamp.leaf == NO_LEAF
    assert memory.end_offset("live", 0) == 3
    assert memory.partitions() == [("live", 0), ("live", 1)]


async def test_a_late_reader_finds_what_is_still_in_memory(frames: Any) -> None:
    memory = MemoryTopics()
    for value in (b"a", b"b", b"c"):
        await announced(memory, frames.frame("live", [value]))
    result = memory.read_hot("live", 0, 1, 10**6)
    assert frames.values(b"".join(result.frames)) == [b"b", b"c"]
    assert (result.next_offset, result.start_offset, result.end_offset) == (3, 0, 3)
    one = await memory.read("live", 0, 0, 1)
    assert len(one.frames) == 1, "at least one frame, whatever the limit"
    assert memory.read_hot("live", 0, 3, 10).frames == ()
    assert memory.read_hot("silent", 0, 0, 10).end_offset == 0


async def test_the_oldest_frames_go_when_the_limit_is_reached(frames: Any) -> None:
    memory = MemoryTopics(tail_bytes_max=20_000)
    for number in range(40):
        await announced(memory, frames.frame(f"live.{number % 3}", [b"x" * 1000]))
    held = 0
    for name in range(3):
        start, end = (f(f"live.{name}", 0) for f in (memory.start_offset, memory.end_offset))
        assert 0 < start < end
        result = memory.read_hot(f"live.{name}", 0, 0, 10**6)
        assert frames.offset(result.frames[0]) == start
        assert len(result.frames) == end - start
        held += sum(map(len, result.frames))
    assert held <= 20_000


async def test_a_frame_larger_than_the_limit_is_still_announced(frames: Any) -> None:
    memory = MemoryTopics(tail_bytes_max=1)
    await announced(memory, frames.frame("live", [b"x" * 1000]), frames.frame("live", [b"y"]))
    assert (memory.start_offset("live", 0), memory.end_offset("live", 0)) == (1, 2)


async def test_a_repeat_is_recognised_and_a_gap_refused(frames: Any) -> None:
    memory = MemoryTopics()
    first, second = frames.frame("live", [b"a", b"b"]), frames.frame("live", [b"c"])
    later = frames.frame("live", [b"d"], sequence=9)
    outcomes = await announced(memory, first, second, first, later)
    assert [each.duplicate for each in outcomes[:3]] == [False, False, True]
    assert outcomes[2].base_offset == 0
    assert isinstance(outcomes[3], Refused)
    assert (outcomes[3].code, outcomes[3].retryable) == ("sequence_gap", True)
    assert memory.end_offset("live", 0) == 3


async def test_a_producer_that_is_new_to_this_run_may_begin_anywhere(frames: Any) -> None:
    memory = MemoryTopics()
    outcomes = await announced(memory, frames.frame("live", [b"a"], sequence=500))
    assert isinstance(outcomes[0], Announced)


async def test_another_principal_with_the_same_producer_id_is_another_producer(
    frames: Any, other_provenance: Provenance
) -> None:
    memory = MemoryTopics()
    mine = frames.frame("live", [b"a"], sequence=0)
    theirs = frames.frame("live", [b"a"], sequence=0, provenance=other_provenance)
    outcomes = await announced(memory, mine, theirs)
    assert [each.duplicate for each in outcomes] == [False, False]


async def test_a_conditional_append_needs_the_very_end(frames: Any) -> None:
    memory = MemoryTopics()
    refused = await memory.append_if(frames.frame("live", [b"a"], sequence=0), 5)
    assert isinstance(refused, Refused)
    assert refused.code == "condition_failed"
    assert refused.members == {"end_offset": 0}
    taken = await memory.append_if(frames.frame("live", [b"a"], sequence=0), 0)
    assert isinstance(taken, Announced)


async def test_a_dropped_topic_frees_its_memory_and_never_gives_an_offset_twice(
    frames: Any,
) -> None:
    memory = MemoryTopics(tail_bytes_max=3000)
    await announced(memory, frames.frame("live", [b"a"]), frames.frame("other", [b"b"]))
    await memory.drop_topic("live")
    assert memory.read_hot("live", 0, 0, 10**6).frames == ()
    for _ in range(20):
        outcome = (await announced(memory, frames.frame("live", [b"c" * 500])))[0]
    assert outcome.base_offset == 20


async def test_it_says_what_it_can_not_do(frames: Any) -> None:
    memory = MemoryTopics()
    assert not memory.capabilities.durable
    assert not memory.capabilities.time_lookup
    await announced(memory, frames.frame("live", [b"a"]))
    assert await memory.offset_for_time("live", 0, 0) == 1
    assert (await memory.clean({})).bytes_freed == 0


@pytest.fixture
def other_provenance(provenance: Provenance) -> Provenance:
    return replace(provenance, principal="shipping")
