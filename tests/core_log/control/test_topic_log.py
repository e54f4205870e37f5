"""Readers of a topic never see what an earlier topic of the same name has left."""

from typing import Any

import pytest

from core_log.control.memory_topics import MemoryTopics
from core_log.control.topic_log import Extent, TopicLog, UnknownPartition
from core_log.control.topics import Definition, Topic


async def topic_log(frames: Any, first_offset: int) -> TopicLog:
    engine = MemoryTopics()
    await engine.append([frames.frame("orders", [value]) for value in (b"a", b"b", b"c")])
    topic = Topic(Definition("orders", partitions=2), 1, 1, (first_offset, 0))
    return TopicLog(topic, engine)


async def test_it_begins_at_its_first_offset(frames: Any) -> None:
    log = await topic_log(frames, 2)
    assert list(log.extents()) == [Extent(0, 2, 3), Extent(1, 0, 0)]
    result = await log.read(0, 0, 10**6)
    assert frames.values(b"".join(result.frames)) == [b"c"]
    hot = log.read_hot(0, 1, 10**6)
    assert hot is not None
    assert hot.next_offset == 3


async def test_it_is_empty_where_its_first_offset_is_the_end(frames: Any) -> None:
    log = await topic_log(frames, 3)
    assert log.extent(0) == Extent(0, 3, 3)
    assert (await log.read(0, 0, 10**6)).frames == ()


async def test_a_time_never_leads_before_its_beginning(frames: Any) -> None:
    log = await topic_log(frames, 3)
    assert await log.offset_for_time(0, 0) == 3


@pytest.mark.parametrize("partition", [-1, 2, 7])
async def test_other_partitions_are_unknown(frames: Any, partition: int) -> None:
    log = await topic_log(frames, 0)
    with pytest.raises(UnknownPartition, match="0 to 1"):
        log.check_partition(partition)
    assert log.check_partition(1) == 1
