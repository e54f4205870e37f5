"""When the index is saved, and by whom."""

import errno
from threading import Event
from typing import Any

import pytest

from core_log.log.keeper import Keeper, checkpoint_due
from core_log.log.options import LogOptions

OPTIONS = LogOptions(checkpoint_bytes=1000, checkpoint_interval_s=30, checkpoint_idle_s=1)


@pytest.mark.parametrize(
    ("unsaved_bytes", "since_last_s", "idle_s", "due"),
    [
        (1, 0.0, 0.0, False),
        (999, 29.9, 0.9, False),
        (1000, 0.0, 0.0, True),
        (1, 30.0, 0.0, True),
        (1, 2.0, 1.0, True),
        (1, 0.5, 99.0, False),
    ],
)
def test_a_checkpoint_is_due_after_bytes_time_or_silence(
    unsaved_bytes: Any, since_last_s: Any, idle_s: Any, due: Any
) -> None:
    assert (
        checkpoint_due(
            OPTIONS, unsaved_bytes=unsaved_bytes, since_last_s=since_last_s, idle_s=idle_s
        )
        is due
    )


class FakeJournal:
    """Saves nothing, and may fail."""

    def __init__(self, error: OSError | None = None) -> None:
        self.error = error
        self.saved: list[object] = []
        self.done = Event()

    def save(self, snapshot: Any) -> None:
        self.saved.append(snapshot)
        self.done.set()
        if self.error is not None:
            raise self.error


def test_what_is_offered_is_saved_on_the_keepers_own_thread() -> None:
    journal = FakeJournal()
    keeper = Keeper(journal, lambda: None)
    keeper.start()
    keeper.offer("a moment")
    assert journal.done.wait(10)
    keeper.stop()
    assert journal.saved == ["a moment"]
    assert not keeper.busy


def test_what_was_offered_is_saved_before_the_thread_ends() -> None:
    journal = FakeJournal()
    keeper = Keeper(journal, lambda: None)
    keeper.offer("the last moment")
    keeper.start()
    keeper.stop()
    assert journal.saved == ["the last moment"]


def test_a_full_disk_only_delays_a_checkpoint() -> None:
    told = []
    keeper = Keeper(FakeJournal(OSError(errno.ENOSPC, "full")), lambda: told.append(1))
    keeper.offer("a moment")
    assert keeper.busy
    keeper.turn()
    assert (keeper.error, told, keeper.busy) == (None, [], False)


def test_any_other_error_is_handed_to_the_writer() -> None:
    told = []
    error = OSError(errno.EIO, "broken")
    keeper = Keeper(FakeJournal(error), lambda: told.append(1))
    keeper.offer("a moment")
    keeper.turn()
    assert (keeper.error, told) == (error, [1])


def test_without_a_thread_nothing_is_saved_unless_asked() -> None:
    journal = FakeJournal()
    keeper = Keeper(journal, lambda: None)
    keeper.turn()
    assert journal.saved == []
    keeper.stop()
