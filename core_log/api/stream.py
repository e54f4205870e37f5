"""One stream: a reader joined to the log it reads and to the socket it fills.

The shell around `streams.Reader`: it asks what is due, reads it, and writes it out. Knows
neither HTTP nor WebSockets; the outlet does.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from core_log.api import stream_messages
from core_log.api.stream_messages import FromOffsets, FromTime, Open, Start
from core_log.api.streams import Broadcast, Due, Reader, Verdict
from core_log.control.topic_log import Extent, TopicLog
from core_log.control.topics import Topic
from core_log.log.log_errors import Damaged
from core_log.log.results import Committed, ReadResult

BURST_BYTES_MAX: Final = 512 * 1024
"""What one group of commits may put into a socket at once. A reader that would get more lags
and gets the rest as its socket drains; without this a large group could fill every buffer."""
HEARTBEAT_S: Final = 5.0
"""Silence after which a reader is told that the stream lives, and where the log ends."""
STALL_S_MAX: Final = 300.0
"""A reader whose socket takes nothing for this long is given up; it can come back and resume."""


class StreamEnded(Exception):
    """The stream is over: `code` and the text go to the reader as its last message."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


class Outlet(Protocol):
    """Where a stream's messages go: a socket with a bounded buffer."""

    @property
    def room(self) -> bool:
        """True while the buffer is below its limit."""

    def send_frames(self, frames: Sequence[bytes]) -> None:
        """Buffer each frame as one binary message. Never waits, and copies no frame."""

    def send_text(self, text: bytes) -> None:
        """Buffer a text message. Never waits."""

    async def drained(self) -> None:
        """Return once there is room."""


@dataclass(slots=True)
class StreamTotals:
    """What all streams together have sent, for whoever counts."""

    frames: int = 0
    bytes: int = 0
    lags: int = 0


async def begin_at(log: TopicLog, request: Open) -> dict[int, int]:
    """The offset at which each partition of a new stream begins."""
    wanted = request.partitions
    chosen = range(log.topic.partitions) if wanted is None else wanted
    return {
        partition: await offset_at(log, log.check_partition(partition), request.start)
        for partition in chosen
    }


async def offset_at(log: TopicLog, partition: int, start: Start) -> int:
    """The offset of a place to begin in a partition."""
    extent = log.extent(partition)
    match start:
        case "earliest":
            return extent.start
        case "latest":
            return extent.end
        case FromOffsets(offsets):
            # A place behind the end can only come from another life of this log; its reader
            # must not miss what is appended now.
            return min(max(offsets.get(partition, extent.start), extent.start), extent.end)
        case FromTime(time_us):
            return await log.offset_for_time(partition, time_us)


class Stream:
    """One reader's stream of one topic. Belongs to the event loop.

    `follow` says whether partitions that the topic gains later are read too.
    """

    def __init__(
        self,
        log: TopicLog,
        outlet: Outlet,
        broadcast: Broadcast,
        totals: StreamTotals,
        *,
        positions: Mapping[int, int],
        credit: int,
        follow: bool,
        heartbeat_s: float = HEARTBEAT_S,
        stall_s_max: float = STALL_S_MAX,
    ) -> None:
        self._log = log
        self._outlet = outlet
        self._broadcast = broadcast
        self._totals = totals
        self._reader = Reader(positions, credit)
        self._follow = follow
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._ended: StreamEnded | None = None
        self._loop = asyncio.get_running_loop()
        self._last_sent = self._loop.time()
        self._heartbeat_s = heartbeat_s
        self._stall_s_max = stall_s_max
        self._heartbeat: asyncio.TimerHandle | None = None
        self._wake = asyncio.Event()

    @property
    def topic(self) -> str:
        """The topic that it reads."""
        return self._log.topic.name

    def open(self) -> None:
        """Say where the stream begins, and listen."""
        begins = [(at, self._log.extent(p)) for p, at in self._reader.positions.items()]
        self._send_text(stream_messages.opened(self.topic, begins))
        self._broadcast.add(self.topic, self._reader.positions, self)
        self._heartbeat = self._loop.call_later(self._heartbeat_s, self._beat)
        self._wake.set()

    def close(self) -> None:
        """Listen no more."""
        self._broadcast.remove(self.topic, self._reader.positions, self)
        if self._heartbeat is not None:
            self._heartbeat.cancel()

    def grant(self, credit: int) -> None:
        """The reader can take that many bytes more."""
        self._reader.grant(credit)
        self._wake.set()

    def topic_changed(self, topic: Topic | None) -> None:
        """The topic was altered, or is gone; another one of the same name is not this one."""
        if topic is None or topic.created_us != self._log.topic.created_us:
            text = f"topic {self.topic!r} was deleted"
            self._ended = StreamEnded("topic_deleted", text)
        elif self._follow and topic.partitions > len(self._reader.positions):
            self._grow(TopicLog(topic, self._log.engine))
        self._wake.set()

    def offer(self, batch: Committed) -> bool:
        """Take a commit into the group's burst, or fall behind."""
        length = len(batch.frame)
        room = self._outlet.room and self._pending_bytes < BURST_BYTES_MAX
        verdict = self._reader.offer(
            batch.partition,
            batch.base_offset,
            batch.base_offset + batch.count,
            length,
            room=room,
        )
        if verdict is Verdict.SEND:
            self._pending.append(batch.frame)
            self._pending_bytes += length
            self._gave(batch.partition, batch.base_offset + batch.count)
            return True
        if verdict is Verdict.LAG:
            self._totals.lags += 1
            self._wake.set()
        return False

    def flush(self) -> None:
        """Write the group's burst."""
        frames, self._pending, self._pending_bytes = self._pending, [], 0
        self._send_frames(frames)

    async def run(self) -> None:
        """Serve what is behind, for ever. Raises StreamEnded, or ConnectionError by the outlet."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while True:
                if self._ended is not None:
                    raise self._ended
                await self._wait_for_room()
                due = self._reader.due()
                if due is None:
                    break
                end = self._log.extent(due.partition).end
                if not self._reader.caught_up(due.partition, end):
                    await self._serve(due)

    async def _serve(self, due: Due) -> None:
        try:
            result = await self._log.read(due.partition, due.offset, due.bytes_max)
        except Damaged as error:
            if self._still_wanted(due):
                self._reader.took(due.partition, error.end, 0)
                self._tell_gap(due.partition, due.offset, error.end, "damaged", str(error))
            return
        if self._still_wanted(due):
            self._take(due, result)
        # One turn for everybody else: a long replay from memory would never wait otherwise.
        await asyncio.sleep(0)

    def _still_wanted(self, due: Due) -> bool:
        """False where the reader has moved, or must not get anything, since this was due."""
        position = self._reader.positions.get(due.partition)
        return position == due.offset and not self._reader.stopped

    def _take(self, due: Due, result: ReadResult) -> None:
        if result.next_offset <= due.offset:
            raise RuntimeError(
                f"{self.topic}/{due.partition}: a read at {due.offset}, below the end, got nowhere"
            )
        extent = self._log.extent(due.partition)
        if due.offset < extent.start:
            first = min(extent.start, result.next_offset)
            text = "retention has removed these messages, or a memory topic has forgotten them"
            self._tell_gap(due.partition, due.offset, first, "expired", text)
        length = sum(map(len, result.frames))
        self._reader.took(due.partition, result.next_offset, length)
        if result.frames:
            self._send_frames(result.frames)
            self._gave(due.partition, result.next_offset)

    def _gave(self, partition: int, next_offset: int) -> None:
        """Everything of a partition up to `next_offset` is on its way."""

    def _tell_gap(self, partition: int, first: int, end: int, code: str, text: str) -> None:
        self._send_text(stream_messages.gap(partition, first, end, code, text))

    async def _wait_for_room(self) -> None:
        if self._outlet.room:
            return
        try:
            async with asyncio.timeout(self._stall_s_max):
                await self._outlet.drained()
        except TimeoutError as error:
            text = f"the reader's socket took nothing for {self._stall_s_max:.0f} s"
            raise StreamEnded("stalled", text) from error

    def _grow(self, log: TopicLog) -> None:
        added = range(len(self._reader.positions), log.topic.partitions)
        self._log = log
        begins: list[tuple[int, Extent]] = []
        for partition in added:
            extent = log.extent(partition)
            self._reader.add_partition(partition, extent.start)
            begins.append((extent.start, extent))
        self._broadcast.add(self.topic, added, self)
        self._send_text(stream_messages.partitions_added(self.topic, begins))

    def _send_frames(self, frames: Sequence[bytes]) -> None:
        self._last_sent = self._loop.time()
        self._totals.frames += len(frames)
        self._totals.bytes += sum(map(len, frames))
        self._outlet.send_frames(frames)

    def _send_text(self, text: bytes) -> None:
        self._last_sent = self._loop.time()
        self._outlet.send_text(text)

    def _beat(self) -> None:
        silent = self._loop.time() - self._last_sent
        if silent >= self._heartbeat_s:
            # A full socket is not silent: its reader has something to read.
            if self._outlet.room:
                ends = {p: self._log.extent(p).end for p in self._reader.positions}
                self._send_text(stream_messages.heartbeat(ends))
            silent = 0.0
        self._heartbeat = self._loop.call_later(self._heartbeat_s - silent, self._beat)
