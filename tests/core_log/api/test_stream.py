"""A stream: replay and live delivery through a socket that may be full at any time."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from core_log.api.stream import (
    HEARTBEAT_S,
    STALL_S_MAX,
    Stream,
    StreamEnded,
    StreamTotals,
    begin_at,
)
from core_log.api.stream_messages import FromOffsets, FromTime, Open
from core_log.api.streams import Broadcast
from core_log.control.memory_topics import MemoryTopics
from core_log.control.topic_log import TopicLog, UnknownPartition
from core_log.control.topics import Definition, Topic
from core_log.log.embedded import EmbeddedEngine
from core_log.log.engine import Engine
from core_log.log.log_errors import Damaged
from core_log.log.options import LogOptions, Retention
from core_log.log.results import Appended, ReadResult


class Pipe:
    """An outlet at the byte level: a buffer that fills up, and a reader that takes from it."""

    def __init__(self, limit: int = 10**9) -> None:
        self.limit = limit
        self.buffered = 0
        self.greatest = 0
        self.frames: list[bytes] = []
        self.texts: list[dict[str, Any]] = []
        self.arrived = asyncio.Event()
        self._drained = asyncio.Event()

    @property
    def room(self) -> bool:
        return self.buffered < self.limit

    def send_frames(self, frames: Sequence[bytes]) -> None:
        self.frames += frames
        self.buffered += sum(map(len, frames))
        self.greatest = max(self.greatest, self.buffered)
        self.arrived.set()

    def send_text(self, text: bytes) -> None:
        self.texts.append(orjson.loads(text))
        self.arrived.set()

    async def drained(self) -> None:
        while not self.room:
            self._drained.clear()
            await self._drained.wait()

    def take_all(self) -> None:
        """The reader empties its buffer."""
        self.buffered = 0
        self._drained.set()

    async def until(self, count: int) -> None:
        """Return once so many frames have come."""
        async with asyncio.timeout(60):
            while len(self.frames) < count:
                self.arrived.clear()
                await self.arrived.wait()


def topic_of(engine: Engine, partitions: int = 1) -> TopicLog:
    return TopicLog(Topic(Definition("orders", partitions), 1, 1, (0,) * partitions), engine)


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[EmbeddedEngine]:
    # A hot tail of a few frames, so that a reader that lags has to go to the disk.
    options = LogOptions(disk_reserve_bytes=0, hot_tail_bytes=4000, segment_bytes=16384)
    engine = await EmbeddedEngine.open(tmp_path, options, on_failure=lambda error: None)
    yield engine
    await engine.close()


@pytest.fixture
def broadcast(engine: EmbeddedEngine) -> Broadcast:
    broadcast = Broadcast()
    engine.tail(broadcast.publish)
    return broadcast


@asynccontextmanager
async def streaming(
    log: TopicLog, pipe: Pipe, broadcast: Broadcast, start: Any = "earliest", credit: int = 10**9
) -> AsyncIterator[Stream]:
    positions = await begin_at(log, Open("orders", None, start, credit))
    stream = Stream(
        log, pipe, broadcast, StreamTotals(), positions=positions, credit=credit, follow=True
    )
    stream.open()
    running = asyncio.create_task(stream.run())
    try:
        yield stream
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        stream.close()


def numbered(frames: Any, number: int) -> Any:
    return frames.frame("orders", [b"%06d" % number] * (number % 3 + 1))


def expected(count: int) -> list[bytes]:
    return [b"%06d" % number for number in range(count) for _ in range(number % 3 + 1)]


@pytest.mark.parametrize("limit", [10**9, 1500])
@pytest.mark.parametrize("credit", [10**9, 3000])
async def test_publishing_during_replay_leaves_no_gap_and_no_duplicate(
    engine: EmbeddedEngine, broadcast: Broadcast, frames: Any, limit: int, credit: int
) -> None:
    for number in range(200):
        await engine.append([numbered(frames, number)])
    pipe = Pipe(limit)
    async with streaming(topic_of(engine), pipe, broadcast, credit=credit) as stream:

        async def publish() -> None:
            for number in range(200, 400):
                await engine.append([numbered(frames, number)])

        async def read() -> None:
            taken = 0
            while taken < 400:
                await pipe.until(taken + 1)
                new = pipe.frames[taken:]
                taken += len(new)
                stream.grant(sum(map(len, new)))
                pipe.take_all()

        await asyncio.gather(publish(), read())
    assert frames.values(b"".join(pipe.frames)) == expected(400)
    longest = max(map(len, pipe.frames))
    assert pipe.greatest <= limit + 256 * 1024 + longest


async def test_a_live_reader_gets_the_very_bytes_that_were_written(
    engine: EmbeddedEngine, broadcast: Broadcast, frames: Any
) -> None:
    pipes = [Pipe(), Pipe()]
    log = topic_of(engine)
    async with streaming(log, pipes[0], broadcast), streaming(log, pipes[1], broadcast):
        await engine.append([numbered(frames, 0)])
        for pipe in pipes:
            await pipe.until(1)
    assert pipes[0].frames[0] is pipes[1].frames[0]


async def test_a_stalled_reader_costs_the_others_nothing_and_resumes(
    engine: EmbeddedEngine, broadcast: Broadcast, frames: Any
) -> None:
    stalled, lively = Pipe(limit=1), Pipe()
    log = topic_of(engine)
    async with streaming(log, stalled, broadcast), streaming(log, lively, broadcast):
        for number in range(100):
            await engine.append([numbered(frames, number)])
        await lively.until(100)
        assert len(stalled.frames) <= 2, "its buffer was full after the first"

        async def drain() -> None:
            while len(stalled.frames) < 100:
                count = len(stalled.frames)
                stalled.take_all()
                await stalled.until(count + 1)

        await drain()
    assert stalled.frames == lively.frames


async def test_credit_counts_bytes_and_falls_below_zero_by_one_frame_at_most(
    engine: EmbeddedEngine, broadcast: Broadcast, frames: Any
) -> None:
    pipe = Pipe()
    size = len(frames.encoded("orders", [b"x"], sequence=0)) + 40
    async with streaming(topic_of(engine), pipe, broadcast, credit=size + 1) as stream:
        frames.sequences.clear()
        for _ in range(10):
            await engine.append([frames.frame("orders", [b"x"])])
        await pipe.until(2)
        await asyncio.sleep(0)
        assert len(pipe.frames) == 2
        stream.grant(size * 2)
        await pipe.until(4)
        stream.grant(10**6)
        await pipe.until(10)


async def test_a_stream_says_where_it_begins(
    engine: EmbeddedEngine, broadcast: Broadcast, frames: Any
) -> None:
    for number in range(4):
        await engine.append([numbered(frames, number)])
    pipe = Pipe()
    async with streaming(topic_of(engine, 2), pipe, broadcast, "latest"):
        pass
    end = engine.end_offset("orders", 0)
    assert pipe.texts[0] == {
        "type": "opened",
        "topic": "orders",
        "partitions": [
            {"partition": 0, "offset": end, "end_offset": end},
            {"partition": 1, "offset": 0, "end_offset": 0},
        ],
    }


@pytest.mark.parametrize(
    ("start", "begins"),
    [
        ("earliest", {0: 0, 1: 0}),
        ("latest", {0: 3, 1: 1}),
        (FromOffsets({0: 2}), {0: 2, 1: 0}),
        (FromOffsets({0: 99, 1: 1}), {0: 3, 1: 1}),
        (FromTime(0), {0: 0, 1: 0}),
        (FromTime(2**52), {0: 3, 1: 1}),
    ],
)
async def test_a_stream_begins_where_it_was_asked_to(
    engine: EmbeddedEngine, frames: Any, start: Any, begins: dict[int, int]
) -> None:
    await engine.append([frames.frame("orders", [b"a", b"b", b"c"])])
    await engine.append([frames.frame("orders", [b"d"], partition=1)])
    log = topic_of(engine, 2)
    assert await begin_at(log, Open("orders", None, start, 0)) == begins
    only = await begin_at(log, Open("orders", (1,), start, 0))
    assert only == {1: begins[1]}
    with pytest.raises(UnknownPartition):
        await begin_at(log, Open("orders", (2,), start, 0))


async def test_a_topic_that_grows_is_followed_from_the_new_partitions_beginning(
    engine: EmbeddedEngine, broadcast: Broadcast, frames: Any
) -> None:
    pipe = Pipe()
    log = topic_of(engine)
    async with streaming(log, pipe, broadcast) as stream:
        stream.topic_changed(Topic(Definition("orders", 3), 1, 2, (0, 0, 0)))
        await engine.append([frames.frame("orders", [b"a"], partition=2)])
        await pipe.until(1)
    added = [each["partition"] for each in pipe.texts[1]["partitions"]]
    assert (pipe.texts[1]["type"], added) == ("partitions", [1, 2])


@pytest.mark.parametrize("successor", [None, Topic(Definition("orders"), 99, 9, (0,))])
async def test_a_stream_ends_with_its_topic(
    engine: EmbeddedEngine, broadcast: Broadcast, successor: Topic | None
) -> None:
    stream = Stream(
        topic_of(engine),
        Pipe(),
        broadcast,
        StreamTotals(),
        positions={0: 0},
        credit=1,
        follow=True,
    )
    stream.open()
    stream.topic_changed(successor)
    with pytest.raises(StreamEnded, match="was deleted") as caught:
        await stream.run()
    assert caught.value.code == "topic_deleted"
    stream.close()


async def test_what_retention_has_removed_is_told_as_a_gap(
    engine: EmbeddedEngine, broadcast: Broadcast, frames: Any
) -> None:
    for _ in range(20):
        outcome = (await engine.append([frames.frame("orders", [b"x" * 1000])]))[0]
    assert isinstance(outcome, Appended)
    pipe = Pipe()
    async with streaming(topic_of(engine), pipe, broadcast, credit=0) as stream:
        await engine.clean({"orders": Retention(drop_below={0: 7})})
        assert engine.start_offset("orders", 0) == 7
        stream.grant(10**6)
        await pipe.until(13)
    gap = pipe.texts[1]
    assert (gap["type"], gap["code"]) == ("gap", "expired")
    assert (gap["first_offset"], gap["next_offset"]) == (0, 7)
    assert frames.offset(pipe.frames[0]) == 7


async def test_a_memory_topics_late_reader_is_told_what_it_missed(frames: Any) -> None:
    memory = MemoryTopics(tail_bytes_max=3000)
    broadcast = Broadcast()
    memory.tail(broadcast.publish)
    pipe = Pipe()
    async with streaming(topic_of(memory), pipe, broadcast, credit=0) as stream:
        for _ in range(20):
            await memory.append([frames.frame("orders", [b"x" * 500])])
        start = memory.start_offset("orders", 0)
        stream.grant(10**6)
        await pipe.until(20 - start)
    assert pipe.texts[1]["next_offset"] == start > 0


class DamagedInTheMiddle(MemoryTopics):
    """An engine whose offsets 2 to 4 can't be read any more."""

    def read_hot(self, topic: str, partition: int, offset: int, bytes_max: int) -> ReadResult:
        if 2 <= offset < 5:
            raise Damaged(topic, partition, offset, 5, "the disk has lost them")
        return super().read_hot(topic, partition, offset, 1 if offset < 2 else bytes_max)


async def test_damage_is_told_as_a_gap_and_what_follows_is_sent(frames: Any) -> None:
    engine = DamagedInTheMiddle()
    broadcast = Broadcast()
    for number in range(8):
        await engine.append([frames.frame("orders", [b"%d" % number])])
    pipe = Pipe()
    async with streaming(topic_of(engine), pipe, broadcast):
        await pipe.until(5)
    assert frames.values(b"".join(pipe.frames)) == [b"0", b"1", b"5", b"6", b"7"]
    gap = pipe.texts[1]
    assert (gap["code"], gap["first_offset"], gap["next_offset"]) == ("damaged", 2, 5)


async def test_a_silent_stream_has_heartbeats_that_say_where_the_log_ends(
    engine: EmbeddedEngine, broadcast: Broadcast, frames: Any
) -> None:
    assert HEARTBEAT_S == 5.0, "as the wire promises"
    await engine.append([frames.frame("orders", [b"a", b"b"])])
    pipe = Pipe()
    stream = Stream(
        topic_of(engine),
        pipe,
        broadcast,
        StreamTotals(),
        positions={0: 2},
        credit=1,
        follow=True,
        heartbeat_s=0.001,
    )
    stream.open()
    async with asyncio.timeout(60):
        while len(pipe.texts) < 3:
            pipe.arrived.clear()
            await pipe.arrived.wait()
    stream.close()
    assert pipe.texts[1] == pipe.texts[2] == {"type": "heartbeat", "end_offsets": {"0": 2}}


async def test_a_full_socket_gets_no_heartbeat(
    engine: EmbeddedEngine, broadcast: Broadcast
) -> None:
    pipe = Pipe(limit=0)
    stream = Stream(
        topic_of(engine),
        pipe,
        broadcast,
        StreamTotals(),
        positions={0: 0},
        credit=1,
        follow=True,
        heartbeat_s=0.001,
    )
    stream.open()
    await asyncio.sleep(0.02)
    stream.close()
    assert [text["type"] for text in pipe.texts] == ["opened"]


async def test_a_reader_that_takes_nothing_for_too_long_is_given_up(
    engine: EmbeddedEngine, broadcast: Broadcast, frames: Any
) -> None:
    assert STALL_S_MAX >= 60, "a reader may pause"
    await engine.append([frames.frame("orders", [b"a"])])
    stream = Stream(
        topic_of(engine),
        Pipe(limit=0),
        broadcast,
        StreamTotals(),
        positions={0: 0},
        credit=10**6,
        follow=True,
        stall_s_max=0.001,
    )
    stream.open()
    with pytest.raises(StreamEnded, match="took nothing") as caught:
        await stream.run()
    assert caught.value.code == "stalled"
    stream.close()
