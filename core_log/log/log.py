"""The log: takes frames from any thread, commits them in groups, answers after the sync.

One writer thread takes everything that waits, stamps it, writes it with one `writev`, syncs once,
and only then tells readers and callers. This file is the outside: admission, threads, the end.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock, Thread
from typing import Final

from core_log.clock import Clock, SystemClock
from core_log.log.cleaner import Cleaner
from core_log.log.files import Files, OsFiles
from core_log.log.files import Lock as FileLock
from core_log.log.inbox import Done, Inbox, Submission
from core_log.log.journal import Journal
from core_log.log.keeper import Keeper
from core_log.log.log_errors import DiskFull, LogClosed, LogFailed, LogLocked
from core_log.log.options import LogOptions, Retention
from core_log.log.producers import ProducerKey, ProducerState
from core_log.log.results import CleanReport, LogStatus, ReadResult, RecoveryReport
from core_log.log.space import FULL_ERRNOS, Space
from core_log.log.writer import OnCommit, Writer
from core_log.tree.tree import Tree
from log_format.frame import Frame
from log_format.topic import is_system_topic

OnFailure = Callable[[Exception], None]

LOCK_NAME: Final = "lock"
_log = logging.getLogger("sidegate.core.log")


def _ignore(_news: object) -> None:
    """What an owner hears that asked for no news."""


class Log:
    """One open log in one folder, which it holds locked.

    Invariant: for each accepted `submit`, `done` is called exactly once, in the order of the
    submits, on the writer thread, after the group's sync (in mode `fsync`) and after `on_commit`
    has seen the group. What was refused is never seen by a reader.

    `submit`, `read_hot`, the offsets and `status` may be called from any thread and never wait
    for the disk; `read` and `offset_for_time` from any thread too, but they may. The hashes of
    bodies are believed: who takes frames from outside checks them before `submit`.
    """

    def __init__(
        self,
        journal: Journal,
        lock: FileLock,
        space: Space,
        options: LogOptions,
        clock: Clock,
        files: Files,
        directory: Path,
        on_commit: OnCommit,
        on_failure: OnFailure,
    ) -> None:
        self._journal = journal
        self._lock = lock
        self._space = space
        self._options = options
        self._on_failure = on_failure
        self._inbox = Inbox(options.in_flight_bytes_max)
        self._keeper = Keeper(journal, self._inbox.poke)
        self._writer = Writer(journal, self._inbox, self._keeper, space, options, clock, on_commit)
        self._cleaner = Cleaner(journal, files, directory, options, clock)
        self._cleaning = Lock()
        self._failure: Exception | None = None
        self._thread: Thread | None = None

    @classmethod
    def open(
        cls,
        directory: Path,
        options: LogOptions,
        *,
        clock: Clock | None = None,
        files: Files | None = None,
        on_commit: OnCommit = _ignore,
        on_failure: OnFailure = _ignore,
        threads: bool = True,
    ) -> "Log":
        """Open the log in `directory`, or make one there. Recovery is done when this returns.

        `on_commit` and `on_failure` are called on the writer thread: they hand over and return,
        and never call `close`.

        With `threads=False` nothing happens by itself: call `turn`. That is for simulations.
        """
        clock = SystemClock() if clock is None else clock
        files = OsFiles() if files is None else files
        files.make_directory(directory)
        lock = files.lock(directory / LOCK_NAME)
        if lock is None:
            raise LogLocked(f"another process has the log in {directory} open; stop it first")
        try:
            space = Space(
                files,
                directory,
                clock,
                reserve=options.disk_reserve_bytes,
                margin=options.group_bytes_max,
            )
            journal = Journal.open(files, directory, options, clock)
        except BaseException:
            lock.release()
            raise
        log = cls(journal, lock, space, options, clock, files, directory, on_commit, on_failure)
        if threads:
            log._start()
        return log

    @property
    def recovery(self) -> RecoveryReport:
        """What opening found and did."""
        return self._journal.report

    @property
    def log_id(self) -> bytes:
        """This log's identity, as every segment's head has it."""
        return self._journal.log_id

    @property
    def tree(self) -> Tree | None:
        """The Merkle tree over this log's leaves, if it keeps one."""
        return self._journal.tree

    def segment_ends(self) -> list[int]:
        """The leaves behind which segments end, rising; all of them are synced."""
        return [sealed.end_leaf for sealed in self._journal.segments.sealed]

    def leaf_of(self, topic: str, partition: int, offset: int) -> int | None:
        """The leaf of the batch that holds `offset`; None if there is none. May read the disk."""
        return self._journal.leaf_of((topic, partition), offset)

    # Appending.

    def submit(self, frames: Sequence[Frame], done: Done) -> None:
        """Append `frames` in order, and call `done` with one outcome for each.

        Raises Overloaded, DiskFull, LogFailed or LogClosed; then nothing was taken and `done` is
        not called.
        """
        self._inbox.check()
        if not self._space.may_append() and not self._may_use_reserve(frames):
            raise DiskFull(self._space.refusal())
        size = sum(frame.envelope.frame_len for frame in frames)
        self._inbox.put(Submission(frames, size, done))

    def _may_use_reserve(self, frames: Sequence[Frame]) -> bool:
        of_system = all(is_system_topic(frame.envelope.producer.topic) for frame in frames)
        return self._space.may_append(of_system=of_system)

    # The writer's thread.

    def _start(self) -> None:
        self._keeper.start()
        self._thread = Thread(target=self._run, name="log-writer", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while self._inbox.wait(self._writer.pause_s()):
            if not self._turn():
                break
        self._end()

    def turn(self) -> None:
        """Do once, in the caller's thread, what the threads do. Only with `threads=False`."""
        if self._failure is None and self._turn():
            self._keeper.turn()

    def _turn(self) -> bool:
        try:
            self._writer.turn()
        except Exception as error:  # noqa: BLE001 - a log that may be wrong must not go on
            self._fail(error)
            return False
        return True

    def _fail(self, error: Exception) -> None:
        """Stop for good: nobody knows what is on disk, and trying again would hide it."""
        self._failure = error
        self._inbox.shut(self._failed)
        _log.critical("the log has stopped", exc_info=error)
        self._writer.strand(error)
        self._on_failure(error)

    def _failed(self) -> LogFailed:
        return LogFailed(f"the log has stopped ({self._failure}); restart the core to recover")

    def _end(self) -> None:
        """Nothing waits any more: save the index, so that the next open has nothing to scan."""
        self._keeper.stop()
        if self._failure is None:
            try:
                self._journal.save(self._journal.snapshot())
            except OSError as error:
                if error.errno not in FULL_ERRNOS:
                    self._fail(error)

    # Reading.

    def read(self, topic: str, partition: int, offset: int, max_bytes: int) -> ReadResult:
        """Whole frames from the one that holds `offset`, or the first after it that still exists.

        At least one frame if there is one; past the end, none. Raises Damaged.
        """
        return self._journal.read((topic, partition), offset, max_bytes)

    def read_hot(
        self, topic: str, partition: int, offset: int, max_bytes: int
    ) -> ReadResult | None:
        """Like `read`, from memory alone; None if that offset is not there."""
        return self._journal.read_hot((topic, partition), offset, max_bytes)

    def start_offset(self, topic: str, partition: int) -> int:
        """The first offset that can be read."""
        held = self._journal.partitions.get((topic, partition))
        return 0 if held is None else held.start

    def end_offset(self, topic: str, partition: int) -> int:
        """The offset that the next message will get; everything below is committed."""
        held = self._journal.partitions.get((topic, partition))
        return 0 if held is None else held.end

    def partitions(self) -> list[tuple[str, int]]:
        """Every topic and partition that ever had a message."""
        return [partition.key for partition in self._journal.partitions]

    def offset_for_time(self, topic: str, partition: int, time_us: int) -> int:
        """The first offset appended at or after `time_us`; the end if there is none.

        By the greatest append time so far: if the clock had been ahead once, an earlier one.
        """
        return self._journal.offset_for_time((topic, partition), time_us)

    def producer(
        self, principal: str, producer_id: int, topic: str, partition: int
    ) -> ProducerState | None:
        """What is remembered of a producer: its epoch and the sequence that is next."""
        key = ProducerKey(principal, producer_id, topic, partition)
        return self._journal.producers.get(key)

    # Keeping house.

    def clean(self, retention: Mapping[str, Retention], now_us: int) -> CleanReport:
        """Drop what retention has ended. From a background thread; it may take long."""
        with self._cleaning:
            self._inbox.check()
            try:
                cleaned = self._cleaner.clean(retention, now_us)
            except OSError as error:
                self._keeper.fail(error)
                raise LogFailed(f"the disk failed under the cleaner: {error}") from error
        if cleaned.roll:
            self._writer.roll_wanted = True
            self._inbox.poke()
        return cleaned.report

    def status(self) -> LogStatus:
        """The log at a glance."""
        journal = self._journal
        self._space.may_append()
        return LogStatus(
            leaves=journal.next_leaf,
            durable_leaves=journal.durable_leaf,
            segments=len(journal.segments),
            partitions=len(journal.partitions),
            bytes=journal.bytes,
            free_bytes=self._space.free,
            disk_full=self._space.full,
            failed=self._failure is not None,
            durability=self._options.durability,
            in_flight_bytes=self._inbox.in_flight,
            hot_bytes=journal.hot.size,
            producers=len(journal.producers),
            lost_leaves=journal.lost,
            groups=self._writer.groups,
            last_sync_s=self._writer.last_sync_s,
            checkpoint_leaf=journal.checkpoint_leaf,
        )

    def close(self) -> None:
        """Finish what was accepted, sync, save the index. Calling it again does nothing."""
        self._inbox.shut(lambda: LogClosed("the log is closed; ask again once the core is back"))
        self._cleaner.stop()
        if self._thread is not None:
            self._thread.join()
        elif self._failure is None:
            while self._inbox.wait(0) and self._turn():
                pass
            self._end()
        with self._cleaning:
            self._lock.release()
