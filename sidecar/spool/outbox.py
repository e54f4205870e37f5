"""The spool as the event loop sees it: stores what lanes must keep, and feeds it back to them.

One thread does the file work of `spool_files.py`. Whatever waits when it becomes free is written
and synced together, so that an fsync is shared by all who need one. Knows lanes and batches;
what an app is told when something is stored is the publisher's matter.
"""

import asyncio
import errno
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from hosting.lifecycle import StartError
from sidecar.publish.backlog import Place
from sidecar.publish.batch import Batch
from sidecar.publish.lane import Lane
from sidecar.spool.pace import Pace
from sidecar.spool.quarantine import Quarantine
from sidecar.spool.spool_files import FileLayer, SpoolFailed, SpoolFiles, SpoolFull
from sidecar.spool.spool_reader import Backlogs, SpoolReader

log = logging.getLogger("sidegate.sidecar")

GROUP_BYTES_MAX: Final = 8 * 1024 * 1024
"""Written and synced in one go; more would make the first of them wait for the last."""
FULL_RETRY_S: Final = 1.0
"""How soon a full disk is tried again."""
_MISCONFIGURED: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR})
"""The folder is not ours to write to, now and later: better said at the start."""
MARKS_S: Final = 0.02
"""Marks of settled batches wait this long for company, unless a batch waits for them."""


@dataclass(slots=True)
class _Group:
    """What one round of the thread writes."""

    batches: list[tuple[Lane, Batch, bytes]] = field(default_factory=list)
    marks: list[tuple[Lane, int]] = field(default_factory=list)


class Outbox:
    """A hosting component. Belongs to the event loop.

    `on_stored` and `on_refused` are told of batches that are on disk now, or cannot be; `on_ready`
    of lanes that may have something to send.
    """

    name = "spool"

    def __init__(
        self,
        folder: Path,
        *,
        bytes_max: int,
        segment_bytes: int,
        drain_bytes_per_s: int,
        files: FileLayer | None = None,
    ) -> None:
        self._files = SpoolFiles(folder, segment_bytes=segment_bytes, files=files)
        self._bytes_max = bytes_max
        self._pace = Pace(drain_bytes_per_s)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="spool")
        self._dirty: dict[Lane, None] = {}
        self._marks: list[tuple[Lane, int]] = []
        self._work = asyncio.Event()
        self._pump: asyncio.Task[None] | None = None
        self._feeds: set[asyncio.Task[None]] = set()
        self._promised_bytes = 0
        self._writing_bytes = 0
        self._full: str | None = None
        self._prober: asyncio.Task[None] | None = None
        self._reader = SpoolReader(self._files, Quarantine(folder / "quarantine"))
        self._folder = folder
        self._idle = asyncio.Event()
        self._idle.set()
        self.on_found: Callable[[str, int, list[Place]], Lane] = _nobody
        self.on_stored: Callable[[Lane, list[Batch]], None] = lambda *_: None
        self.on_refused: Callable[[Lane, list[Batch], Exception], None] = lambda *_: None
        self.on_ready: Callable[[Lane], None] = lambda _: None
        self.on_drain: Callable[[], None] = lambda: None
        self.on_ids: Callable[[str, list[bytes], float], None] = lambda *_: None
        self.messages = 0
        self.lost_records = 0

    @property
    def records(self) -> int:
        """Batches in the spool that are not settled."""
        return self._files.live

    @property
    def bytes_used(self) -> int:
        """Bytes on disk."""
        return self._files.bytes_used

    @property
    def bytes_max(self) -> int:
        """The configured bound."""
        return self._bytes_max

    @property
    def damaged_bytes(self) -> int:
        """Bytes on disk that were no records when the spool was opened."""
        return self._files.damaged_bytes

    @property
    def problem(self) -> str | None:
        """Why the disk takes nothing now, or nothing more until a restart, if so."""
        return self._files.failed or self._full

    @property
    def quarantined(self) -> int:
        """Batches that were set aside because they are no frames."""
        return self._reader.quarantined

    @property
    def next_order(self) -> int:
        """Above the order of every stored batch; known after the start."""
        return self._files.next_order

    def has_room(self, size: int) -> bool:
        """Whether a message of this size can be promised a place."""
        used = self._files.bytes_used + self._promised_bytes + self._writing_bytes
        return self.problem is None and used + size <= self._bytes_max

    async def start(self) -> None:
        """Find what an earlier run has left, and hand it to its lanes."""
        loop = asyncio.get_running_loop()
        backlogs = await loop.run_in_executor(self._thread, self._open)
        if self._full is not None:
            self._found_full(self._full)
        for (topic, partition), backlog in backlogs.items():
            places, superseded = backlog.resolve()
            lane = self.on_found(topic, partition, places)
            self.messages += backlog.messages(places)
            if backlog.ids:
                self.on_ids(topic, backlog.ids, time.time())
            self._mark(lane, superseded)
        if self.records:
            fields = {"batches": self.records, "messages": self.messages}
            log.info("spool holds messages of an earlier run", extra={"fields": fields})
        if self.damaged_bytes:
            fields = {"bytes": self.damaged_bytes}
            log.error("spool is damaged; some messages are lost", extra={"fields": fields})
        self._pump = asyncio.create_task(self._run(), name="spool")

    async def drain(self) -> None:
        """Store what is still in memory, and finish what is being written."""
        self.on_drain()
        await self._idle.wait()

    async def stop(self) -> None:
        """Write what is promised, then end."""
        tasks = [*self._feeds, *(each for each in (self._pump, self._prober) if each is not None)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._thread, self._files.close)
        self._thread.shutdown(wait=True)

    def keep(self, lane: Lane, size: int = 0) -> None:
        """Store everything of `lane` that is not on disk yet; `size` bytes of it are new."""
        self._promised_bytes += size
        self._dirty[lane] = None
        self._idle.clear()
        self._work.set()

    def settle(self, lane: Lane, batch: Batch) -> None:
        """`batch` is settled: its records are of no use any more."""
        positions = [*batch.replaces, *([] if batch.position is None else [batch.position])]
        if batch.position is not None or batch.replaces:
            self.messages -= batch.producer.count
        batch.position, batch.replaces = None, []
        self._mark(lane, positions)

    def feed(self, lane: Lane) -> None:
        """Read the lane's next batches, if it has any on disk and room for them."""
        if lane.wants_refill():
            task = asyncio.create_task(self._feed(lane, lane.begin_refill()), name="spool feed")
            self._feeds.add(task)
            task.add_done_callback(self._fed)

    def _open(self) -> Backlogs:
        """In the thread: what is there. A disk that takes nothing now stops no start."""
        backlogs: Backlogs = {}
        try:
            self._reader.open(backlogs)
        except SpoolFull as error:
            self._full = str(error)
        except SpoolFailed as error:
            cause = error.__cause__
            if isinstance(cause, OSError) and cause.errno in _MISCONFIGURED:
                raise StartError(f"data: {self._folder} cannot be written: {cause}") from error
            log.critical("spool takes nothing", extra={"fields": {"error": str(error)}})
        return backlogs

    def _mark(self, lane: Lane, positions: list[int]) -> None:
        if positions:
            lane.unsynced += len(positions)
            self._marks += [(lane, position) for position in positions]
            self._work.set()

    async def _run(self) -> None:
        while True:
            await self._work.wait()
            self._work.clear()
            if not self._dirty and not any(lane.awaits_marks for lane, _ in self._marks):
                await asyncio.sleep(MARKS_S)
            while self._dirty or self._marks:
                group = self._collect()
                if not await self._write(group):
                    await asyncio.sleep(FULL_RETRY_S)
            self._idle.set()

    def _collect(self) -> _Group:
        """Close what the dirty lanes hold and take as much of it as one round writes."""
        group = _Group()
        size = 0
        self._promised_bytes = 0
        for lane in list(self._dirty):
            lane.close_all()
            whole = True
            for batch in lane.to_store():
                if group.batches and size + len(batch.frame) > GROUP_BYTES_MAX:
                    whole = False
                    break
                batch.storing = True
                size += len(batch.frame)
                group.batches.append((lane, batch, batch.frame))
            if whole:
                del self._dirty[lane]
        self._writing_bytes = size
        group.marks, self._marks = self._marks, []
        return group

    async def _write(self, group: _Group) -> bool:
        """One round. False where the disk is full and it makes sense to wait a little."""
        loop = asyncio.get_running_loop()
        now_us = time.time_ns() // 1000
        good = True
        if group.batches:
            frames = [(batch.order, frame) for _lane, batch, frame in group.batches]
            append = partial(self._files.append, frames, now_us)
            try:
                positions = await loop.run_in_executor(self._thread, append)
            except (SpoolFull, SpoolFailed) as error:
                good = False
                self._refuse(group, error)
            else:
                self._note(group, positions, now_us / 1e6)
        self._writing_bytes = 0
        if group.marks:
            good = await self._write_marks(group, now_us) and good
        return good

    async def _write_marks(self, group: _Group, now_us: int) -> bool:
        loop = asyncio.get_running_loop()
        mark = partial(self._files.mark, [position for _, position in group.marks], now_us)
        try:
            await loop.run_in_executor(self._thread, mark)
        except SpoolFull as error:
            self._found_full(str(error))
            good = False
        except SpoolFailed as error:
            log.warning("spool failed", extra={"fields": {"error": str(error)}})
            good = False
        else:
            good = True
        # A failed disk must not stop the sending of what is in memory: duplicates after a crash
        # are then the lesser evil, and the log recognises them.
        counts: dict[Lane, int] = {}
        for lane, _ in group.marks:
            counts[lane] = counts.get(lane, 0) + 1
        for lane, count in counts.items():
            lane.done_synced(count)
            self.on_ready(lane)
        return good

    def _found_full(self, why: str) -> None:
        """The disk is full: say so, and ask it again until it is not."""
        if self._full is None or self._prober is None:
            log.error("spool takes nothing", extra={"fields": {"error": why}})
        self._full = why
        if self._prober is None:
            self._prober = asyncio.create_task(self._probe(), name="spool probe")

    async def _probe(self) -> None:
        loop = asyncio.get_running_loop()
        while self._full is not None:
            await asyncio.sleep(FULL_RETRY_S)
            try:
                await loop.run_in_executor(self._thread, self._files.probe)
            except SpoolFull as error:
                self._full = str(error)
            except SpoolFailed:
                # `failed` has the reason from now on.
                self._full = None
            else:
                self._full = None
                log.info("spool takes messages again")
        self._prober = None

    def _note(self, group: _Group, positions: list[int], written_s: float) -> None:
        by_lane: dict[Lane, list[Batch]] = {}
        for (lane, batch, frame), position in zip(group.batches, positions, strict=True):
            first_time = batch.position is None and not batch.replaces
            useless = lane.stored(batch, position, frame)
            if first_time and not batch.resolved:
                self.messages += batch.producer.count
            self._mark(lane, useless)
            by_lane.setdefault(lane, []).append(batch)
        for lane, batches in by_lane.items():
            self.on_stored(lane, batches)
            lane.shelve(written_s)
            if any(batch.replaces for batch in lane.queue):
                self.keep(lane)
            self.on_ready(lane)

    def _refuse(self, group: _Group, error: SpoolFull | SpoolFailed) -> None:
        if isinstance(error, SpoolFull):
            self._found_full(str(error))
        else:
            log.error("spool takes nothing", extra={"fields": {"error": str(error)}})
        by_lane: dict[Lane, list[Batch]] = {}
        for lane, batch, _ in group.batches:
            lane.not_stored(batch)
            by_lane.setdefault(lane, []).append(batch)
        for lane, batches in by_lane.items():
            self.on_refused(lane, batches, error)
            if lane.must_store:
                self._dirty[lane] = None

    async def _feed(self, lane: Lane, positions: list[int]) -> None:
        loop = asyncio.get_running_loop()
        try:
            found = await loop.run_in_executor(self._thread, self._reader.batches, positions)
        except OSError as error:
            log.warning("spool could not be read", extra={"fields": {"error": str(error)}})
            await asyncio.sleep(FULL_RETRY_S)
            lane.cancel_refill(positions, time.time())
            self.on_ready(lane)
            return
        batches = [batch for batch in found if batch is not None]
        size = sum(len(batch.frame) for batch in batches)
        await asyncio.sleep(self._pace.delay_s(size, loop.time()))
        lane.end_refill(batches)
        gone = [at for at, batch in zip(positions, found, strict=True) if batch is None]
        self.lost_records += len(gone)
        self._mark(lane, gone)
        if lane.must_store:
            self.keep(lane)
        self.on_ready(lane)

    def _fed(self, task: asyncio.Task[None]) -> None:
        self._feeds.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("spool could not be read", exc_info=error)


def _nobody(*_: object) -> Lane:
    raise RuntimeError("the outbox was started before anybody listens to it")
