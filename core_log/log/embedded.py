"""The embedded engine: `Log` on this machine's disk, behind the engine's interface.

A thin shell: it moves what the log's writer thread says to the event loop, runs what may touch
the disk in threads, and knows which partitions have appends in flight. Decides nothing else.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from core_log.clock import Clock, SystemClock
from core_log.control.topics import Topic
from core_log.log.engine import Capabilities, Outcome, Tail
from core_log.log.files import Files, OsFiles
from core_log.log.handoff import Handoff
from core_log.log.log import Log
from core_log.log.options import LogOptions, Retention
from core_log.log.results import CleanReport, Committed, LogStatus, ReadResult, Refused
from log_format.frame import Frame

T = TypeVar("T")

READ_THREADS: Final = 4
"""Disk reads at a time: enough to keep a disk's queue busy, few enough not to starve the loop."""

_CAPABILITIES: Final = Capabilities(
    conditional_append=True, exactly_once=True, durable=True, time_lookup=True, retention=True
)


class EmbeddedEngine:
    """One open log. Make it with `open`; it belongs to the loop that runs at that time."""

    def __init__(self, log: Log, clock: Clock, handoff: "Handoff[Callable[[], None]]") -> None:
        self.log = log
        self._clock = clock
        self._handoff = handoff
        self._loop = asyncio.get_running_loop()
        self._tails: list[Tail] = []
        self._in_flight: Counter[tuple[str, int]] = Counter()
        self._settling: list[tuple[str, asyncio.Future[None]]] = []
        self._readers = ThreadPoolExecutor(READ_THREADS, thread_name_prefix="log-read")
        self._cleaner = ThreadPoolExecutor(1, thread_name_prefix="log-clean")

    @classmethod
    async def open(
        cls,
        directory: Path,
        options: LogOptions,
        *,
        on_failure: Callable[[Exception], None],
        clock: Clock | None = None,
        files: Files | None = None,
    ) -> "EmbeddedEngine":
        """Open or make the log in `directory`. `on_failure` may be called from any thread."""
        clock = clock or SystemClock()
        handoff: Handoff[Callable[[], None]] = Handoff(asyncio.get_running_loop(), _run_all)
        opened: list[EmbeddedEngine] = []

        def on_commit(group: Sequence[Committed]) -> None:
            handoff.put(lambda: opened[0]._tell(group))

        opening = asyncio.ensure_future(
            asyncio.to_thread(
                Log.open,
                directory,
                options,
                clock=clock,
                files=files or OsFiles(),
                on_commit=on_commit,
                on_failure=on_failure,
            )
        )
        try:
            log = await asyncio.shield(opening)
        except asyncio.CancelledError:
            # The thread can't be called back; what it opens must not stay open.
            await asyncio.to_thread((await opening).close)
            raise
        opened.append(cls(log, clock, handoff))
        return opened[0]

    @property
    def capabilities(self) -> Capabilities:
        """Everything."""
        return _CAPABILITIES

    def put_topic(self, topic: Topic) -> None:
        """Nothing to do: one log holds all topics, and a partition begins with its first frame."""

    async def drop_topic(self, name: str) -> None:
        """Wait for what is in flight; the cleaner removes what is stored."""
        if any(topic == name for topic, _ in self._in_flight):
            settled: asyncio.Future[None] = self._loop.create_future()
            self._settling.append((name, settled))
            await settled

    def append(self, frames: Sequence[Frame]) -> "asyncio.Future[Sequence[Outcome]]":
        """One submission to the writer; the answer comes after the group's sync."""
        answer: asyncio.Future[Sequence[Outcome]] = self._loop.create_future()
        keys = [
            (frame.envelope.producer.topic, frame.envelope.producer.partition) for frame in frames
        ]

        def done(outcomes: Sequence[Outcome]) -> None:
            self._handoff.put(partial(self._answer, answer, keys, outcomes))

        self.log.submit(frames, done)
        self._in_flight.update(keys)
        return answer

    async def append_if(self, frame: Frame, end_offset: int) -> Outcome:
        """Compare and append: sound because every submission passes through this thread."""
        producer = frame.envelope.producer
        key = producer.topic, producer.partition
        end = self.end_offset(*key)
        busy = self._in_flight[key]
        if busy or end != end_offset:
            why = "other appends to it are in flight" if busy else f"its end is {end}"
            return Refused(
                producer.topic,
                producer.partition,
                "condition_failed",
                f"the partition was to end at {end_offset} but {why}; read on and decide again",
                retryable=bool(busy),
                members={"end_offset": end},
            )
        return (await self.append([frame]))[0]

    def read_hot(
        self, topic: str, partition: int, offset: int, bytes_max: int
    ) -> ReadResult | None:
        """From the hot tail; the very bytes that were written."""
        return self.log.read_hot(topic, partition, offset, bytes_max)

    async def read(self, topic: str, partition: int, offset: int, bytes_max: int) -> ReadResult:
        """From disk, in a thread."""
        return await self._in_thread(
            self._readers, lambda: self.log.read(topic, partition, offset, bytes_max)
        )

    def partitions(self) -> Sequence[tuple[str, int]]:
        """Every topic and partition that the log has ever held."""
        return self.log.partitions()

    def start_offset(self, topic: str, partition: int) -> int:
        """The first offset that can still be read."""
        return self.log.start_offset(topic, partition)

    def end_offset(self, topic: str, partition: int) -> int:
        """The offset that the next message will get."""
        return self.log.end_offset(topic, partition)

    async def offset_for_time(self, topic: str, partition: int, time_us: int) -> int:
        """By append time, in a thread."""
        return await self._in_thread(
            self._readers, lambda: self.log.offset_for_time(topic, partition, time_us)
        )

    def tail(self, listener: Tail) -> None:
        """Tell `listener` of every commit from now on."""
        self._tails.append(listener)

    async def clean(self, retention: Mapping[str, Retention]) -> CleanReport:
        """One pass of the cleaner, in a thread of its own so that reads never wait for it."""
        now_us = self._clock.now_us()
        return await self._in_thread(self._cleaner, lambda: self.log.clean(retention, now_us))

    def status(self) -> LogStatus:
        """The log at a glance."""
        return self.log.status()

    async def close(self) -> None:
        """Finish what was accepted and close the files."""
        await asyncio.to_thread(self.log.close)
        self._readers.shutdown(wait=False, cancel_futures=True)
        self._cleaner.shutdown(wait=False, cancel_futures=True)

    def _tell(self, group: Sequence[Committed]) -> None:
        for tail in self._tails:
            tail(group)

    def _answer(
        self,
        answer: "asyncio.Future[Sequence[Outcome]]",
        keys: Sequence[tuple[str, int]],
        outcomes: Sequence[Outcome],
    ) -> None:
        for key in keys:
            if self._in_flight[key] == 1:
                del self._in_flight[key]
            else:
                self._in_flight[key] -= 1
        if self._settling:
            self._settle()
        if not answer.done():
            answer.set_result(outcomes)

    def _settle(self) -> None:
        busy = {topic for topic, _ in self._in_flight}
        for name, settled in self._settling:
            if name not in busy and not settled.done():
                settled.set_result(None)
        self._settling = [entry for entry in self._settling if not entry[1].done()]

    async def _in_thread(self, pool: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        return await self._loop.run_in_executor(pool, work)


def _run_all(actions: Sequence[Callable[[], None]]) -> None:
    for action in actions:
        try:
            action()
        except Exception as error:  # noqa: BLE001 - reported, and others still get their answer
            asyncio.get_running_loop().call_exception_handler(
                {"message": "a listener of the log failed", "exception": error}
            )
