"""A topic as its readers see it: an engine's partitions, from the topic's first offset on.

Pure arithmetic around an engine. It keeps every reader out of what an earlier topic of the same
name has left behind.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from core_log.control.topics import Topic
from core_log.log.engine import Engine
from core_log.log.results import ReadResult


class UnknownPartition(Exception):
    """The topic has no such partition."""

    def __init__(self, topic: str, partition: int, partitions: int) -> None:
        super().__init__(
            f"topic {topic!r} has the partitions 0 to {partitions - 1}, not {partition}"
        )
        self.members = {"topic": topic, "partition": partition, "partitions": partitions}


class Extent(NamedTuple):
    """What can be read of a partition now: offsets from `start` up to `end`."""

    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class TopicLog:
    """A topic and the engine that keeps it. Cheap; make one per request."""

    topic: Topic
    engine: Engine

    def check_partition(self, partition: int) -> int:
        """`partition`, or UnknownPartition."""
        if not 0 <= partition < self.topic.partitions:
            raise UnknownPartition(self.topic.name, partition, self.topic.partitions)
        return partition

    def extent(self, partition: int) -> Extent:
        """Where the partition begins and ends."""
        name = self.topic.name
        end = max(self.engine.end_offset(name, partition), self.topic.first_offsets[partition])
        start = max(self.engine.start_offset(name, partition), self.topic.first_offsets[partition])
        return Extent(partition, min(start, end), end)

    def extents(self) -> Iterator[Extent]:
        """All partitions, in order."""
        return map(self.extent, range(self.topic.partitions))

    def read_hot(self, partition: int, offset: int, bytes_max: int) -> ReadResult | None:
        """Frames from memory, or None where `read` has to be asked."""
        first = self.topic.first_offsets[partition]
        return self.engine.read_hot(self.topic.name, partition, max(offset, first), bytes_max)

    async def read(self, partition: int, offset: int, bytes_max: int) -> ReadResult:
        """Whole frames from the one that holds `offset` on; at least one if there is one."""
        result = self.read_hot(partition, offset, bytes_max)
        if result is not None:
            return result
        first = self.topic.first_offsets[partition]
        return await self.engine.read(self.topic.name, partition, max(offset, first), bytes_max)

    async def offset_for_time(self, partition: int, time_us: int) -> int:
        """The first offset appended at or after a time; the end if there is none."""
        offset = await self.engine.offset_for_time(self.topic.name, partition, time_us)
        return max(offset, self.extent(partition).start)
