"""The log of cursors: how far every subscription has come, durable before it is told.

Cursors move with every acknowledgement, far too often for the control log, whose records stay for
ever. They are records in a log of their own, of the same class. Everything that has changed while
one sync runs is written with the next: a thousand acknowledgements cost one sync and one small
record for each partition.

It can't grow without bound: when it has grown by far more than a snapshot, a new log that begins
with one is made in the other of two folders, a small file is turned to that one, and the old
folder is emptied. An open reads that file, one snapshot and what follows it.

May import the engine and the cursor; must never know of members or streams.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Final

import orjson

from core_log.clock import Clock, SystemClock
from core_log.control.records import append_records, chunks, read_frames, record_frame
from core_log.log.embedded import EmbeddedEngine
from core_log.log.files import Files, OsFiles, replace_file
from core_log.log.log_errors import DiskFull, LogError
from core_log.log.options import MIB, LogOptions
from core_log.subscriptions.cursor import Change, Cursor, Place
from core_log.subscriptions.cursor_records import Key, cursor_records, parse_change

log = logging.getLogger("sidegate.core")

TOPIC: Final = "_cursors"
FOLDERS: Final = ("a", "b")
CURRENT_NAME: Final = "current"
GROWTH_BYTES: Final = 32 * MIB
"""What may follow a snapshot before the next: hours of steady work, and read in a second."""
GROWTH_FACTOR: Final = 4
"""Or so many times a snapshot's own length, so that all snapshots together write little."""
FRAME_BYTES: Final = MIB
"""Records of one frame, far below the format's limit on a body."""
INTERVAL_S: Final = 0.005
"""Between the begins of two writes: an idle log writes at once, a busy one syncs 200 times a second
at most and leaves the disk to messages. A confirmation is in nobody's way."""
RETRY_S: Final = 1.0
"""How long a full disk is left alone."""

OPTIONS: Final = LogOptions(
    tree=False,
    segment_bytes=16 * MIB,
    hot_tail_bytes=0,
    # Smaller than the main log's: acknowledgements go on where appends are refused.
    disk_reserve_bytes=8 * MIB,
    checkpoint_bytes=8 * MIB,
    require_provenance=False,
    check_sequences=False,
)

Written = Callable[[Mapping[Key, int]], None]
"""Is told of the low marks that were just made durable."""


class CursorsDamaged(Exception):
    """The log of cursors can't be read."""


class CursorLog:
    """All cursors, and the one who writes them down. Belongs to one event loop.

    Invariant: whatever is on disk is a state that the cursors had, and `Written` is called only
    for what is on disk. `run` is greater than in every earlier run.
    """

    def __init__(
        self,
        directory: Path,
        *,
        clock: Clock,
        files: Files,
        on_failure: Callable[[Exception], None],
    ) -> None:
        self._directory = directory
        self._clock = clock
        self._files = files
        self._on_failure = on_failure
        self._options = OPTIONS
        self._growth_bytes = GROWTH_BYTES
        self._cursors: dict[Key, Cursor] = {}
        self._changed: dict[Key, None] = {}
        self._waiting: list[Written] = []
        self._gone = (0, 0)
        self._work = asyncio.Event()
        self._closing = False
        self._engine: EmbeddedEngine
        self._folder = FOLDERS[0]
        self._snapshot_bytes = 0
        self._task: asyncio.Task[None] | None = None
        self.run = 0
        self.batch = 0
        """The number of the write that will hold what is noted now."""

    @classmethod
    async def open(
        cls,
        directory: Path,
        *,
        on_failure: Callable[[Exception], None],
        clock: Clock | None = None,
        files: Files | None = None,
        options: LogOptions = OPTIONS,
        growth_bytes: int = GROWTH_BYTES,
    ) -> "CursorLog":
        """Open or make the log of cursors, and begin a new run."""
        self = cls(
            directory,
            clock=clock or SystemClock(),
            files=files or OsFiles(),
            on_failure=on_failure,
        )
        self._options, self._growth_bytes = options, growth_bytes
        current = await asyncio.to_thread(self._current)
        if current is None:
            self.run = 1
            self._folder = FOLDERS[1]
            await self._begin_anew()
        else:
            self._folder = current
            self._engine = await self._open_engine(current)
            try:
                await self._load()
            except BaseException:
                await self._engine.close()
                raise
        self._task = asyncio.create_task(self._write_all(), name="cursors")
        return self

    def __len__(self) -> int:
        return len(self._cursors)

    def cursor(self, key: Key, low: int) -> Cursor:
        """The cursor of a subscription's partition; one that is new begins at `low`."""
        cursor = self._cursors.get(key)
        if cursor is None:
            cursor = self._cursors[key] = Cursor(Place(low))
            # Its first record has to say where it began.
            cursor.not_written()
        return cursor

    def moved(self, key: Key, then: Written | None = None) -> None:
        """A cursor has changed; `then` is called once that is durable."""
        self._changed[key] = None
        if then is not None:
            self._waiting.append(then)
        self._work.set()

    async def durable(self, keys: Iterable[Key]) -> None:
        """Return once the changes of these cursors are durable."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def written(_lows: Mapping[Key, int]) -> None:
            if not done.done():
                done.set_result(None)

        self._changed |= dict.fromkeys(keys)
        self._waiting.append(written)
        self._work.set()
        await done

    def forget(self, ids: Collection[int]) -> None:
        """These subscriptions are gone."""
        self._drop(lambda key: key[0] in ids)

    def keep(self, ids: Collection[int]) -> None:
        """Only these subscriptions exist."""
        self._drop(lambda key: key[0] not in ids)

    def _drop(self, gone: Callable[[Key], bool]) -> None:
        for key in [key for key in self._cursors if gone(key)]:
            cursor = self._cursors.pop(key)
            self._gone = self._gone[0] + cursor.redelivered, self._gone[1] + cursor.expired
            self._changed.pop(key, None)

    def totals(self) -> tuple[int, int]:
        """Messages given again, and expired, of all subscriptions and of those gone in this run."""
        cursors = self._cursors.values()
        return (
            self._gone[0] + sum(each.redelivered for each in cursors),
            self._gone[1] + sum(each.expired for each in cursors),
        )

    def find(self, key: Key) -> Cursor | None:
        """A cursor that was used before."""
        return self._cursors.get(key)

    async def close(self) -> None:
        """Write what waits, and close the files."""
        if self._task is not None:
            self._closing = True
            self._work.set()
            await self._task
            await self._engine.close()

    # Writing.

    async def _write_all(self) -> None:
        while not (self._closing and not self._changed and not self._waiting):
            await self._work.wait()
            self._work.clear()
            while self._changed or self._waiting:
                began = self._clock.monotonic()
                try:
                    await self._write()
                except DiskFull as error:
                    log.warning("cursors wait for room", extra={"fields": {"detail": str(error)}})
                    if self._closing:
                        return
                    await asyncio.sleep(RETRY_S)
                except LogError:
                    # The log has told the service, which is about to end.
                    log.exception("cursors can't be written")
                    return
                except OSError as error:
                    # The folders beside the log: to go on could only hide what is wrong.
                    self._on_failure(error)
                    raise
                rest = began + INTERVAL_S - self._clock.monotonic()
                if rest > 0 and not self._closing:
                    await asyncio.sleep(rest)

    async def _write(self) -> None:
        keys, self._changed = self._changed, {}
        waiting, self._waiting = self._waiting, []
        self.batch += 1
        taken = [(key, self._cursors[key]) for key in keys if key in self._cursors]
        lows = {key: cursor.low for key, cursor in taken}
        changes = [(key, cursor.take_change()) for key, cursor in taken if cursor.changed]
        try:
            await self._append(changes)
        except LogError:
            for key, cursor in taken:
                cursor.not_written()
                self._changed[key] = None
            self._waiting = waiting + self._waiting
            raise
        for written in waiting:
            written(lows)
        grown = self._engine.status().bytes
        if grown > max(self._growth_bytes, GROWTH_FACTOR * self._snapshot_bytes):
            await self._rotate()

    async def _append(self, changes: list[tuple[Key, Change | Place]]) -> None:
        if changes:
            now_us = self._clock.now_us()
            frames = [
                record_frame(TOPIC, chunk, now_us)
                for chunk in chunks(cursor_records(changes), FRAME_BYTES)
            ]
            await append_records(self._engine, *frames)

    # Beginning anew.

    async def _rotate(self) -> None:
        """Go on in the other folder. What is written stays where it is until that is complete."""
        old, snapshot_bytes = self._engine, self._snapshot_bytes
        try:
            await self._begin_anew()
        except (LogError, OSError) as error:
            # The old log serves on; it is tried again when it has grown as much once more.
            self._engine, self._snapshot_bytes = old, snapshot_bytes + self._growth_bytes
            fields = {"detail": str(error)}
            log.warning("snapshot of cursors was not written", extra={"fields": fields})
            return
        await old.close()
        await asyncio.to_thread(self._empty, self._other())

    async def _begin_anew(self) -> None:
        target = self._other()
        await asyncio.to_thread(self._empty, target)
        engine = await self._open_engine(target)
        try:
            now_us = self._clock.now_us()
            run = orjson.dumps({"record": "run", "run": self.run})
            await append_records(engine, record_frame(TOPIC, [run], now_us))
            whole = [(key, cursor.place) for key, cursor in self._cursors.items()]
            for chunk in chunks(cursor_records(whole), FRAME_BYTES):
                await append_records(engine, record_frame(TOPIC, chunk, now_us))
            await asyncio.to_thread(
                replace_file, self._files, self._directory / CURRENT_NAME, [target.encode()]
            )
        except BaseException:
            await engine.close()
            raise
        self._engine, self._folder = engine, target
        self._snapshot_bytes = engine.status().bytes

    def _other(self) -> str:
        return FOLDERS[1 - FOLDERS.index(self._folder)]

    def _empty(self, folder: str) -> None:
        directory = self._directory / folder
        self._files.make_directory(directory)
        for name in self._files.names(directory):
            self._files.remove(directory / name)
        self._files.sync_directory(directory)

    # Opening.

    def _current(self) -> str | None:
        """The folder that counts; None where there was no run before."""
        self._files.make_directory(self._directory)
        path = self._directory / CURRENT_NAME
        if not self._files.exists(path):
            return None
        file = self._files.open(path, "read")
        try:
            name = file.read(0, 16).decode("ascii", "replace").strip()
        finally:
            file.close()
        if name not in FOLDERS:
            raise CursorsDamaged(
                f"{path} says {name!r} and must name a folder beside it; restore the folder "
                "`cursors` from a backup, or remove it: then subscriptions begin where they began"
            )
        return name

    async def _open_engine(self, folder: str) -> EmbeddedEngine:
        return await EmbeddedEngine.open(
            self._directory / folder,
            self._options,
            on_failure=self._on_failure,
            clock=self._clock,
            files=self._files,
        )

    async def _load(self) -> None:
        end = self._engine.end_offset(TOPIC, 0)
        try:
            for frame in await read_frames(self._engine, TOPIC, 0, end):
                for value in frame.columns().value:
                    self._apply(orjson.loads(value or b""))
        except (LogError, orjson.JSONDecodeError, LookupError, TypeError, ValueError) as error:
            raise CursorsDamaged(
                f"the log of cursors can't be read: {error}; restore the folder `cursors` from a "
                "backup, or remove it: then subscriptions begin where they began"
            ) from error
        self._snapshot_bytes = self._engine.status().bytes
        self.run += 1
        run = orjson.dumps({"record": "run", "run": self.run})
        try:
            await append_records(self._engine, record_frame(TOPIC, [run], self._clock.now_us()))
        except DiskFull as error:
            # Acknowledgements of before could be taken for those of now: rare, and harmless next
            # to a core that does not start because its disk is full.
            log.warning("the run was not noted", extra={"fields": {"detail": str(error)}})

    def _apply(self, record: dict[str, object]) -> None:
        if record["record"] == "run":
            self.run = int(str(record["run"]))
            return
        moved = record["cursors"]
        if not isinstance(moved, list):
            raise TypeError("`cursors` must be a list")
        for each in moved:
            key = int(each["id"]), int(each["partition"])
            change = parse_change(each)
            if isinstance(change, Place):
                self._cursors[key] = Cursor(change)
            elif key in self._cursors:
                self._cursors[key].replay(change)
