"""The log from outside: many threads in, one order out, and an orderly end."""

import errno
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from core_log.log.files import OsFiles
from core_log.log.log import Log
from core_log.log.log_errors import LogClosed, LogFailed, LogLocked, Overloaded
from core_log.log.options import LogOptions, Retention
from core_log.log.results import Appended

WAIT_S = 30


@pytest.fixture
def open_log(tmp_path: Path) -> Any:
    opened: list[Log] = []

    def open_it(folder: Path = tmp_path / "log", **changes: Any) -> Log:
        events = {
            name: changes.pop(name) for name in ("on_commit", "on_failure") if name in changes
        }
        options = {"disk_reserve_bytes": 0, **changes}
        files = options.pop("files", None)
        log = Log.open(folder, LogOptions(**options), files=files, **events)
        opened.append(log)
        return log

    yield open_it
    for log in opened:
        log.close()


def submit(log: Log, *frames: Any) -> "Future[list]":
    answer: Future[list] = Future()
    log.submit(frames, answer.set_result)
    return answer


def append(log: Log, *frames: Any) -> list:
    return list(submit(log, *frames).result(WAIT_S))


def test_what_is_acknowledged_can_be_read_at_once(open_log: Any, frames: Any) -> None:
    log = open_log()
    (outcome,) = append(log, frames.frame("orders", [b"a", b"b"]))
    assert (outcome.base_offset, outcome.count, outcome.durability) == (0, 2, "committed")
    result = log.read("orders", 0, 1, 1000)
    assert frames.values(result.frames[0]) == [b"a", b"b"]
    assert (log.start_offset("orders", 0), log.end_offset("orders", 0)) == (0, 2)
    assert log.partitions() == [("orders", 0)]


def test_readers_get_the_bytes_object_that_was_written(open_log: Any, frames: Any) -> None:
    groups = []
    log = open_log(on_commit=groups.append)
    append(log, frames.frame())
    ((committed,),) = groups
    assert log.read("orders", 0, 0, 1000).frames[0] is committed.frame
    assert log.read_hot("orders", 0, 0, 1000).frames[0] is committed.frame


def test_many_threads_get_offsets_without_gaps_in_their_own_order(
    open_log: Any, frames: Any
) -> None:
    log = open_log(segment_bytes=100_000)
    makers = [type(frames)() for _ in range(8)]

    def work(number: int) -> list[int]:
        offsets = []
        for value in range(50):
            frame = makers[number].frame("orders", [b"%d:%d" % (number, value)], producer_id=number)
            offsets.append(append(log, frame)[0].base_offset)
        return offsets

    with ThreadPoolExecutor(8) as pool:
        told = list(pool.map(work, range(8)))
    assert all(offsets == sorted(offsets) for offsets in told)
    assert sorted(offset for offsets in told for offset in offsets) == list(range(400))
    found, at = [], 0
    while (result := log.read("orders", 0, at, 10_000)).frames:
        found += [value for frame in result.frames for value in frames.values(frame)]
        at = result.next_offset
    for number, offsets in enumerate(told):
        assert [found[offset] for offset in offsets] == [b"%d:%d" % (number, n) for n in range(50)]


def test_frames_that_wait_together_are_committed_together(open_log: Any, frames: Any) -> None:
    """The writer is held up in its first answer; all that comes meanwhile is one group."""
    groups = []
    log = open_log(on_commit=lambda group: groups.append(len(group)))
    held, go_on = threading.Event(), threading.Event()

    def first(outcomes: Any) -> None:
        held.set()
        go_on.wait(WAIT_S)

    log.submit([frames.frame()], first)
    assert held.wait(WAIT_S)
    answers = [submit(log, frames.frame()) for _ in range(20)]
    go_on.set()
    assert [answer.result(WAIT_S)[0].base_offset for answer in answers] == list(range(1, 21))
    assert groups == [1, 20]


def test_what_is_in_flight_is_bounded(open_log: Any, frames: Any) -> None:
    log = open_log(in_flight_bytes_max=5000)
    held, go_on = threading.Event(), threading.Event()

    def first(outcomes: Any) -> None:
        held.set()
        go_on.wait(WAIT_S)

    log.submit([frames.frame()], first)
    assert held.wait(WAIT_S)
    big = frames.frame("orders", [b"x" * 3000])
    answer = submit(log, big)
    with pytest.raises(Overloaded, match="in_flight_bytes_max"):
        log.submit([frames.frame("audit", [b"y" * 3000])], lambda _: None)
    assert log.status().in_flight_bytes == big.envelope.frame_len
    go_on.set()
    answer.result(WAIT_S)


def test_exactly_once_holds_across_restarts(open_log: Any, frames: Any) -> None:
    log = open_log()
    sent = [frames.frame("orders", [b"%d" % number]) for number in range(5)]
    first = append(log, *sent)
    log.close()
    log = open_log()
    again = append(log, *sent)
    assert all(outcome.duplicate for outcome in again)
    assert [(each.base_offset, each.leaf, each.append_us) for each in again] == [
        (each.base_offset, each.leaf, each.append_us) for each in first
    ]
    (following,) = append(log, frames.frame())
    assert (following.base_offset, following.duplicate) == (5, False)
    state = log.producer("billing", 1, "orders", 0)
    assert (state.epoch, state.next_sequence) == (0, 6)


def test_closing_finishes_what_was_accepted(open_log: Any, frames: Any) -> None:
    log = open_log()
    answers = [submit(log, frames.frame()) for _ in range(200)]
    log.close()
    assert all(isinstance(answer.result(0)[0], Appended) for answer in answers)
    with pytest.raises(LogClosed, match="closed"):
        log.submit([frames.frame()], lambda _: None)
    with pytest.raises(LogClosed):
        log.clean({}, 0)
    log.close()
    reopened = open_log()
    assert reopened.recovery.clean
    assert reopened.end_offset("orders", 0) == 200


def test_one_process_at_a_time(open_log: Any, tmp_path: Path, frames: Any) -> None:
    log = open_log()
    with pytest.raises(LogLocked, match="stop it first"):
        open_log()
    log.close()
    open_log()


class FailingFiles(OsFiles):
    """Files whose syncs fail once `broken` is set."""

    def __init__(self) -> None:
        self.broken = threading.Event()
        self.writing = threading.Event()

    def open(self, path: Path, mode: Any) -> Any:
        file = super().open(path, mode)
        return FailingFile(file, self) if path.suffix == ".seg" else file


class FailingFile:
    def __init__(self, file: Any, files: FailingFiles) -> None:
        self._file = file
        self._files = files

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def sync(self) -> None:
        if self._files.broken.is_set():
            raise OSError(errno.EIO, "the disk is broken")
        self._file.sync()


def test_a_failed_sync_stops_the_log_for_good_and_tells_its_owner(
    open_log: Any, frames: Any
) -> None:
    files = FailingFiles()
    failed: Future[Exception] = Future()
    log = open_log(files=files, on_failure=failed.set_result)
    append(log, frames.frame("orders", [b"kept"]))
    files.broken.set()
    (outcome,) = append(log, frames.frame())
    assert (outcome.code, outcome.retryable) == ("storage_failed", True)
    assert "broken" in str(failed.result(WAIT_S))
    with pytest.raises(LogFailed, match="restart"):
        log.submit([frames.frame()], lambda _: None)
    with pytest.raises(LogFailed):
        log.clean({}, 0)
    assert log.status().failed
    assert frames.values(log.read("orders", 0, 0, 100).frames[0]) == [b"kept"]
    log.close()
    files.broken.clear()
    open_log()


def test_a_silent_log_saves_its_index_by_itself(open_log: Any, frames: Any) -> None:
    log = open_log(checkpoint_idle_s=0.01)
    append(log, frames.frame())
    waited = threading.Event()
    for _ in range(WAIT_S * 100):
        if log.status().checkpoint_leaf == 1:
            break
        waited.wait(0.01)
    assert log.status().checkpoint_leaf == 1


def test_cleaning_seals_what_has_waited_and_the_next_pass_erases_it(
    open_log: Any, frames: Any
) -> None:
    log = open_log(erase_delay_s=0.0, checkpoint_idle_s=0.01)
    append(log, *[frames.frame() for _ in range(5)])
    dropped = {"orders": Retention(drop_below={0: 5})}
    log.clean(dropped, 1)
    assert (log.start_offset("orders", 0), log.read("orders", 0, 0, 100).frames) == (5, ())
    waited = threading.Event()
    removed = 0
    for _ in range(WAIT_S * 100):
        removed += log.clean(dropped, 1).bodies_removed
        if removed:
            break
        append(log, frames.frame("audit"))
        waited.wait(0.01)
    assert removed == 5
    assert log.end_offset("orders", 0) == 5


def test_the_status_tells_what_there_is(open_log: Any, frames: Any) -> None:
    log = open_log(segment_bytes=4096)
    for _ in range(10):
        append(log, frames.frame("orders", [b"x" * 500]), frames.frame("audit"))
    status = log.status()
    assert (status.leaves, status.durable_leaves, status.partitions) == (20, 20, 2)
    assert (status.producers, status.groups, status.durability) == (2, 10, "fsync")
    assert status.segments > 1
    folder = sum(path.stat().st_size for path in log._journal.segments.path(0).parent.glob("*.seg"))
    assert status.bytes == folder
    assert status.free_bytes > 0
    assert (status.disk_full, status.failed) == (False, False)
    assert (status.lost_leaves, status.in_flight_bytes) == (0, 0)
    assert status.last_sync_s > 0
    assert status.hot_bytes > 0


def test_reading_while_writing_and_cleaning_never_gives_a_wrong_frame(
    open_log: Any, frames: Any
) -> None:
    log = open_log(segment_bytes=20_000, hot_tail_bytes=3000, erase_delay_s=0.0)
    stop = threading.Event()
    problems: list[BaseException] = []

    def guarded(work: Any) -> None:
        try:
            while not stop.is_set():
                work()
        except BaseException as error:
            problems.append(error)
            raise

    def read() -> None:
        at = log.start_offset("orders", 0)
        while (result := log.read("orders", 0, at, 5000)).frames:
            for frame in result.frames:
                base = frames.offset(frame)
                assert frames.values(frame) == [b"%d" % base * 20]
                assert base >= at
                at = base + 1

    def clean() -> None:
        log.clean({"orders": Retention(bytes=40_000)}, 1)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in (read, read, clean)]
    for thread in threads:
        thread.start()
    for first in range(0, 400, 50):
        numbers = range(first, first + 50)
        append(log, *[frames.frame("orders", [b"%d" % number * 20]) for number in numbers])
    stop.set()
    for thread in threads:
        thread.join(WAIT_S)
    assert not problems
    assert log.start_offset("orders", 0) > 0
