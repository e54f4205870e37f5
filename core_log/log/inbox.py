"""What waits for the writer: a bounded queue from any thread to one.

Imports the errors that it raises; knows nothing of disks.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Condition, Lock

from core_log.log.group import Outcome
from core_log.log.log_errors import LogError, Overloaded
from log_format.frame import Frame

Done = Callable[[Sequence[Outcome]], None]


@dataclass(frozen=True, slots=True)
class Submission:
    """Frames of one caller, and how to tell it what became of them."""

    frames: Sequence[Frame]
    bytes: int
    done: Done


class Inbox:
    """At most `bytes_max` bytes that were accepted and not yet answered.

    Invariant: submissions are taken in the order in which they were put; `in_flight` counts those
    that wait and those that were taken and not yet `answered`. A submission larger than the limit
    passes when nothing else is in flight. Thread-safe.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._waiting: deque[Submission] = deque()
        self._changed = Condition(Lock())
        self._poked = False
        self._shut: Callable[[], LogError] | None = None
        self.in_flight = 0

    def check(self) -> None:
        """Raise what `shut` was told, if it was."""
        if self._shut is not None:
            raise self._shut()

    def put(self, submission: Submission) -> None:
        """Accept, or raise Overloaded, or what `shut` was told. Never waits."""
        with self._changed:
            self.check()
            if self.in_flight and self.in_flight + submission.bytes > self._bytes_max:
                raise Overloaded(
                    f"{self.in_flight} bytes wait for the disk and the limit is {self._bytes_max} "
                    "(in_flight_bytes_max); ask again shortly"
                )
            self.in_flight += submission.bytes
            self._waiting.append(submission)
            if len(self._waiting) == 1:
                self._changed.notify()

    def take(self, bytes_max: int) -> list[Submission]:
        """Everything that waits, up to `bytes_max` bytes, and at least one if there is one."""
        taken: list[Submission] = []
        size = 0
        with self._changed:
            while self._waiting and (not taken or size + self._waiting[0].bytes <= bytes_max):
                taken.append(self._waiting.popleft())
                size += taken[-1].bytes
        return taken

    def answered(self, submissions: Sequence[Submission]) -> None:
        """These are no longer in flight."""
        with self._changed:
            self.in_flight -= sum(submission.bytes for submission in submissions)

    def wait(self, seconds: float | None) -> bool:
        """Sleep until something waits, somebody pokes or time is up; False once shut and empty."""
        with self._changed:
            if not (self._waiting or self._poked or self._shut is not None):
                self._changed.wait(seconds)
            self._poked = False
            return self._shut is None or bool(self._waiting)

    def poke(self) -> None:
        """Wake the writer for another reason than a submission."""
        with self._changed:
            self._poked = True
            self._changed.notify()

    def shut(self, reason: Callable[[], LogError]) -> bool:
        """Accept nothing more; False if it was shut before. The first reason stays."""
        with self._changed:
            first = self._shut is None
            if first:
                self._shut = reason
            self._changed.notify()
            return first
