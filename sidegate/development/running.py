"""What runs in a state folder, told by locks that the system releases itself, and by a record.

`run/up.lock` is held by `sidegate up` alone: while it is held, the pid in the record is alive and
is ours. `run/mesh.lock` is inherited by every service: while it is held, something still uses the
data, even when `sidegate up` was killed. `run/up.json` says what runs and where.
`run/state.lock` is held for the moment in which files of the state folder are made.
Standard library only; must never know what the services are.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# A look at a lock takes it for microseconds; who wants to keep it tries again for this long.
LOOK_S_MAX = 0.5
# Services whose `sidegate up` is gone notice at once and stop within 5 s.
LEFTOVERS_S_MAX = 7.0
# Making certificates and files takes a fraction of a second.
CHANGE_S_MAX = 10.0
# Between two looks at a lock. No system lets a process wait for a lock with a time limit.
LOOK_AGAIN_S = 0.05


class AlreadyUpError(Exception):
    """Another `sidegate up` runs in this state folder."""


class LeftoversError(Exception):
    """Services of an earlier `sidegate up` do not end."""


class BusyError(Exception):
    """Another command changes the state folder and does not end."""


@dataclass(frozen=True, slots=True)
class Running:
    """The run folder at `folder`."""

    folder: Path

    @property
    def record_file(self) -> Path:
        return self.folder / "up.json"

    @contextmanager
    def held(self) -> Iterator[int]:
        """Hold both locks; yields the descriptor that the services must inherit."""
        with _opened(self.folder / "up.lock") as up, _opened(self.folder / "mesh.lock") as mesh:
            if not _locked(up, LOOK_S_MAX):
                raise AlreadyUpError
            if not _locked(mesh, LEFTOVERS_S_MAX):
                raise LeftoversError
            try:
                yield mesh
            finally:
                self.record_file.unlink(missing_ok=True)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Hold the state folder's files for oneself; whoever comes second waits."""
        with _opened(self.folder / "state.lock") as lock:
            if not _locked(lock, CHANGE_S_MAX):
                raise BusyError("another command changes the state folder and does not end")
            yield

    def is_up(self) -> bool:
        """Whether a `sidegate up` runs here."""
        return _is_held(self.folder / "up.lock")

    def is_in_use(self) -> bool:
        """Whether anything that it started still runs, itself included."""
        return self.is_up() or _is_held(self.folder / "mesh.lock")

    def record(self) -> dict[str, Any] | None:
        """What the running `sidegate up` wrote last; None where none runs."""
        if not self.is_in_use():
            return None
        try:
            document = json.loads(self.record_file.read_bytes())
        except FileNotFoundError:
            return None
        return document if isinstance(document, dict) else None

    def write_record(self, document: dict[str, Any]) -> None:
        """Replace the record in one step."""
        fresh = self.folder / ".up.json"
        fresh.touch(mode=0o600)
        fresh.write_text(json.dumps(document, indent=2) + "\n")
        fresh.replace(self.record_file)

    def stop(self, seconds: float) -> bool:
        """Ask the running `sidegate up` to stop; True once nothing of it runs any more."""
        record = self.record()
        if record is not None and self.is_up():
            os.kill(int(record["pid"]), signal.SIGTERM)
        end = time.monotonic() + seconds
        while self.is_in_use():
            if time.monotonic() > end:
                return False
            time.sleep(LOOK_AGAIN_S)
        return True


@contextmanager
def _opened(file: Path) -> Iterator[int]:
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _locked(descriptor: int, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                return False
            time.sleep(LOOK_AGAIN_S)
        else:
            return True


def _is_held(file: Path) -> bool:
    try:
        # To look is enough: the folder may be one that can't be written.
        descriptor = os.open(file, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(descriptor)
