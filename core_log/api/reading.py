"""Reads: from a query to frames, with a long poll at the end of the log.

Parsing is pure; `Reads` awaits. Must never know of HTTP.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from core_log.api.query import Query
from core_log.api.streams import Broadcast
from core_log.control.catalog import Catalog
from core_log.control.topic_log import TopicLog
from core_log.control.topics import PARTITIONS_MAX
from core_log.control.waiting import first_of
from core_log.log.results import Committed, ReadResult
from log_format.errors import BadField
from log_format.topic import check_any_topic

READ_BYTES_DEFAULT: Final = 1024 * 1024
READ_BYTES_MAX: Final = 16 * 1024 * 1024
"""One answer: it is built in memory before it is sent. A single larger frame still comes."""
WAIT_MS_MAX: Final = 30_000
"""A long poll's time: below the minute at which proxies on the way lose patience."""


@dataclass(frozen=True, slots=True)
class ReadQuery:
    """What to read, how much, and how long to wait at the end of the log."""

    topic: str
    partition: int
    offset: int
    bytes_max: int
    wait_s: float


@dataclass(frozen=True, slots=True)
class ReadAnswer:
    """Whole frames, and where the partition begins, ends and goes on."""

    frames: tuple[bytes, ...]
    start_offset: int
    end_offset: int
    next_offset: int


def parse_read(items: Iterable[tuple[str, str]]) -> ReadQuery:
    """The query of a read, or BadQuery."""
    query = Query(items)
    topic = ""
    try:
        topic = check_any_topic(query.text("topic"))
    except BadField as error:
        query.problems.append(str(error))
    read = ReadQuery(
        topic=topic,
        partition=query.integer("partition", 0, most=PARTITIONS_MAX - 1),
        offset=query.integer("offset", 0),
        bytes_max=query.integer("max_bytes", READ_BYTES_DEFAULT, least=1, most=READ_BYTES_MAX),
        wait_s=query.integer("wait_ms", 0, most=WAIT_MS_MAX) / 1000,
    )
    query.finish()
    return read


class Arrival:
    """A listener that notes the first commit beyond an offset, for one who waits for it."""

    def __init__(self, offset: int) -> None:
        self._offset = offset
        self._seen: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def offer(self, batch: Committed) -> bool:
        """Note it."""
        if batch.base_offset + batch.count > self._offset and not self._seen.done():
            self._seen.set_result(None)
        return False

    def flush(self) -> None:
        """Nothing is collected."""

    async def seen(self) -> None:
        """Return once there is something to read."""
        await self._seen


class Reads:
    """Answers reads. Belongs to the event loop. `draining` ends every wait at once."""

    def __init__(self, catalog: Catalog, broadcast: Broadcast, draining: asyncio.Event) -> None:
        self._catalog = catalog
        self._broadcast = broadcast
        self._draining = draining

    async def read(self, query: ReadQuery) -> ReadAnswer:
        """Frames from the query's offset on; none where the log ends before it, after the wait."""
        log = self._catalog.log_of(self._catalog.get(query.topic))
        partition = log.check_partition(query.partition)
        if query.wait_s and query.offset >= log.extent(partition).end:
            await self._wait(query)
            # The topic may have been deleted, or created again, in the meantime.
            log = self._catalog.log_of(self._catalog.get(query.topic))
        result = await log.read(partition, query.offset, query.bytes_max)
        return _answer(log, partition, result)

    async def _wait(self, query: ReadQuery) -> None:
        arrival = Arrival(query.offset)
        self._broadcast.add(query.topic, [query.partition], arrival)
        try:
            await first_of(arrival.seen(), self._draining.wait(), timeout_s=query.wait_s)
        finally:
            self._broadcast.remove(query.topic, [query.partition], arrival)


def _answer(log: TopicLog, partition: int, result: ReadResult) -> ReadAnswer:
    extent = log.extent(partition)
    return ReadAnswer(result.frames, extent.start, extent.end, result.next_offset)


def headers_of(answer: ReadAnswer) -> Mapping[str, str]:
    """The positions of an answer, as its headers."""
    return {
        "Sidegate-Start-Offset": str(answer.start_offset),
        "Sidegate-End-Offset": str(answer.end_offset),
        "Sidegate-Next-Offset": str(answer.next_offset),
    }
