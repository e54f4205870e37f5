"""One turn of the writer: one write and one sync for all that waits, and one answer each."""

import errno
from pathlib import Path
from typing import Any

import pytest

from core_log.log.files import OsFiles
from core_log.log.inbox import Inbox, Submission
from core_log.log.journal import Journal
from core_log.log.keeper import Keeper
from core_log.log.options import LogOptions
from core_log.log.results import Appended
from core_log.log.space import Space
from core_log.log.writer import Writer


class CountedFile:
    """A file that counts its writes and syncs, and fails when told to."""

    def __init__(self, file: Any, files: "CountedFiles") -> None:
        self._file = file
        self._files = files

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, position: Any, buffers: Any) -> int:
        self._files.happened.append("write")
        if self._files.fail_write is not None:
            raise OSError(self._files.fail_write, "write")
        return self._file.write(position, buffers)

    def sync(self) -> None:
        self._files.happened.append("sync")
        if self._files.fail_sync is not None:
            raise OSError(self._files.fail_sync, "sync")
        self._file.sync()


class CountedFiles(OsFiles):
    def __init__(self) -> None:
        self.happened: list[str] = []
        self.fail_write: int | None = None
        self.fail_sync: int | None = None

    def open(self, path: Any, mode: Any) -> Any:
        return CountedFile(super().open(path, mode), self)


class Desk:
    """A writer with all that it needs."""

    def __init__(self, folder: Any, clock: Any, **options: Any) -> None:
        self.options = LogOptions(disk_reserve_bytes=0, **options)
        self.files = CountedFiles()
        self.clock = clock
        self.journal = Journal.open(self.files, folder, self.options, clock)
        self.inbox = Inbox(self.options.in_flight_bytes_max)
        self.keeper = Keeper(self.journal, lambda: None)
        self.news: list[tuple[str, int]] = []
        self.writer = Writer(
            self.journal,
            self.inbox,
            self.keeper,
            Space(self.files, folder, clock, reserve=0, margin=0),
            self.options,
            clock,
            lambda group: self.news.append(("commit", len(group))),
        )
        self.files.happened.clear()

    def submit(self, *frames: Any) -> list:
        outcomes: list = []

        def done(results: Any) -> None:
            self.news.append(("done", len(results)))
            outcomes.extend(results)

        size = sum(frame.envelope.frame_len for frame in frames)
        self.inbox.put(Submission(frames, size, done))
        return outcomes


@pytest.fixture
def make_desk(tmp_path: Path, manual_clock: Any) -> Any:
    return lambda **options: Desk(tmp_path, manual_clock, **options)


def test_all_that_waits_is_one_write_and_one_sync(make_desk: Any, frames: Any) -> None:
    desk = make_desk()
    answers = [desk.submit(frames.frame(), frames.frame("audit")) for _ in range(5)]
    desk.writer.turn()
    assert desk.files.happened == ["write", "sync"]
    assert [outcome.leaf for outcomes in answers for outcome in outcomes] == list(range(10))
    assert desk.news == [("commit", 10), *[("done", 2)] * 5]
    assert (desk.inbox.in_flight, desk.writer.groups) == (0, 1)


def test_readers_are_told_before_the_callers_and_after_the_sync(
    make_desk: Any, frames: Any
) -> None:
    desk = make_desk()
    seen = []
    desk.writer._on_commit = lambda group: seen.append(list(desk.files.happened))
    desk.submit(frames.frame())
    desk.writer.turn()
    assert seen == [["write", "sync"]]


def test_a_group_takes_no_more_bytes_than_it_may(make_desk: Any, frames: Any) -> None:
    desk = make_desk(group_bytes_max=3000)
    for _ in range(6):
        desk.submit(frames.frame("orders", [b"x" * 1000]))
    desk.writer.turn()
    assert desk.journal.next_leaf == 2
    desk.writer.turn()
    desk.writer.turn()
    assert desk.journal.next_leaf == 6


def test_refusals_and_repeats_alone_need_no_disk(make_desk: Any, frames: Any) -> None:
    desk = make_desk()
    frame = frames.frame()
    desk.submit(frame)
    desk.writer.turn()
    desk.files.happened.clear()
    again = desk.submit(frame)
    gap = desk.submit(frames.frame(sequence=500))
    desk.writer.turn()
    assert again[0].duplicate
    assert gap[0].code == "sequence_gap"
    assert desk.files.happened == []


@pytest.mark.parametrize("durability", ["interval", "os"])
def test_weaker_modes_answer_before_any_sync_and_say_so(
    make_desk: Any, frames: Any, durability: Any
) -> None:
    desk = make_desk(durability=durability)
    outcomes = desk.submit(frames.frame())
    desk.writer.turn()
    assert desk.files.happened == ["write"]
    assert outcomes[0].durability == durability
    assert desk.journal.durable_leaf == 0


def test_a_failed_sync_answers_nobody_until_the_end(make_desk: Any, frames: Any) -> None:
    desk = make_desk()
    first = desk.submit(frames.frame())
    desk.files.fail_sync = errno.EIO
    with pytest.raises(OSError, match="sync"):
        desk.writer.turn()
    assert first == []
    later = desk.submit(frames.frame())
    desk.writer.strand(OSError(errno.EIO, "broken"))
    for outcomes in (first, later):
        assert [(each.code, each.retryable) for each in outcomes] == [("storage_failed", True)]
    assert desk.inbox.in_flight == 0
    assert desk.journal.read(("orders", 0), 0, 100).frames == ()


def test_a_failed_write_other_than_for_space_ends_the_log_too(make_desk: Any, frames: Any) -> None:
    desk = make_desk()
    desk.submit(frames.frame())
    desk.files.fail_write = errno.EIO
    with pytest.raises(OSError, match="write"):
        desk.writer.turn()


def test_no_room_refuses_the_group_and_the_next_one_is_taken(make_desk: Any, frames: Any) -> None:
    desk = make_desk()
    frame = frames.frame()
    refused = desk.submit(frame)
    desk.files.fail_write = errno.ENOSPC
    desk.writer.turn()
    assert [(each.code, each.retryable) for each in refused] == [("disk_full", True)]
    desk.files.fail_write = None
    taken = desk.submit(frame)
    desk.writer.turn()
    assert isinstance(taken[0], Appended)
    assert (taken[0].leaf, taken[0].duplicate) == (0, False)


def test_an_error_of_the_keeper_stops_the_writer(make_desk: Any) -> None:
    desk = make_desk()
    desk.keeper.fail(OSError(errno.EIO, "checkpoint"))
    with pytest.raises(OSError, match="checkpoint"):
        desk.writer.turn()


def test_a_callback_that_raises_stops_nobody_else(
    make_desk: Any, frames: Any, caplog: pytest.LogCaptureFixture
) -> None:
    desk = make_desk()

    def broken(outcomes: Any) -> None:
        raise RuntimeError("a bug of the caller")

    frame = frames.frame()
    desk.inbox.put(Submission([frame], frame.envelope.frame_len, broken))
    outcomes = desk.submit(frames.frame("audit"))
    desk.writer.turn()
    assert isinstance(outcomes[0], Appended)
    assert "a callback of the log failed" in caplog.text


def test_a_wanted_roll_happens_between_groups(make_desk: Any, frames: Any) -> None:
    desk = make_desk()
    desk.submit(frames.frame())
    desk.writer.turn()
    desk.writer.roll_wanted = True
    desk.writer.turn()
    assert len(desk.journal.segments) == 2
    assert not desk.writer.roll_wanted


def test_a_roll_without_room_is_given_up_for_now(make_desk: Any, frames: Any) -> None:
    desk = make_desk()
    desk.submit(frames.frame())
    desk.writer.turn()
    desk.writer.roll_wanted = True
    desk.files.fail_write = errno.ENOSPC
    desk.writer.turn()
    assert len(desk.journal.segments) == 1


def test_the_pause_ends_when_something_is_due(
    make_desk: Any, frames: Any, manual_clock: Any
) -> None:
    desk = make_desk(durability="interval", sync_interval_s=0.2, checkpoint_idle_s=1.0)
    assert desk.writer.pause_s() is None
    desk.submit(frames.frame())
    desk.writer.turn()
    assert desk.writer.pause_s() == pytest.approx(0.2)
    manual_clock.seconds += 0.2
    desk.writer.turn()
    assert desk.journal.durable_leaf == 1
    assert desk.writer.pause_s() == pytest.approx(0.8)
    manual_clock.seconds += 0.8
    desk.writer.turn()
    assert desk.keeper.busy
    assert desk.writer.pause_s() is None
    desk.keeper.turn()
    assert desk.journal.checkpoint_leaf == 1
    assert desk.writer.pause_s() is None


def test_a_checkpoint_comes_after_so_many_bytes(make_desk: Any, frames: Any) -> None:
    desk = make_desk(checkpoint_bytes=2000)
    for _ in range(2):
        desk.submit(frames.frame("orders", [b"x" * 1200]))
        desk.writer.turn()
    assert desk.keeper.busy
