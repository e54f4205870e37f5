"""Saves indexes and checkpoints beside the writer, so that no append waits for them.

Imports the journal. Decides when a checkpoint is due, from numbers alone.
"""

from collections.abc import Callable
from threading import Condition, Lock, Thread

from core_log.log.journal import Journal, Snapshot
from core_log.log.options import LogOptions
from core_log.log.space import FULL_ERRNOS


def checkpoint_due(
    options: LogOptions, *, unsaved_bytes: int, since_last_s: float, idle_s: float
) -> bool:
    """True if the index has to be saved, given that something is not saved.

    A log that is silent is not saved more often than it may be silent: one that cannot be saved,
    because the disk is full, must not keep its writer busy with trying.
    """
    return (
        unsaved_bytes >= options.checkpoint_bytes
        or since_last_s >= options.checkpoint_interval_s
        or min(idle_s, since_last_s) >= options.checkpoint_idle_s
    )


class Keeper:
    """One snapshot at a time, saved on a thread of its own, or by `turn` where there is none.

    The writer offers, the keeper saves. A full disk only delays a checkpoint; any other error is
    kept in `error` for the writer to stop the log with.
    """

    def __init__(self, journal: Journal, on_error: Callable[[], None]) -> None:
        self._journal = journal
        self._on_error = on_error
        self._changed = Condition(Lock())
        self._snapshot: Snapshot | None = None
        self._stop = False
        self._thread: Thread | None = None
        self.error: OSError | None = None

    @property
    def busy(self) -> bool:
        """True while a snapshot waits or is being saved."""
        return self._snapshot is not None

    def start(self) -> None:
        """Begin to work by itself."""
        self._thread = Thread(target=self._run, name="log-keeper", daemon=True)
        self._thread.start()

    def offer(self, snapshot: Snapshot) -> None:
        """Have a snapshot saved. Not while `busy`."""
        with self._changed:
            self._snapshot = snapshot
            self._changed.notify()

    def stop(self) -> None:
        """Finish what was offered and end the thread."""
        with self._changed:
            self._stop = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                while self._snapshot is None and not self._stop:
                    self._changed.wait()
            if self._snapshot is None:
                return
            self.turn()

    def turn(self) -> None:
        """Save what was offered, if anything was."""
        if self._snapshot is not None:
            try:
                self._journal.save(self._snapshot)
            except OSError as error:
                if error.errno not in FULL_ERRNOS:
                    self.fail(error)
            finally:
                self._snapshot = None

    def fail(self, error: OSError) -> None:
        """The disk failed beside the writer: have it stop the log."""
        self.error = error
        self._on_error()
