"""The disk-space policy: keep a reserve, refuse in time, come back without help.

Imports the file layer and the clock. Decides from numbers alone; it writes nothing but a log line
when the disk has become full and when there is room again.
"""

import errno
import logging
from pathlib import Path
from typing import Final

from core_log.clock import Clock
from core_log.log.files import Files

FULL_ERRNOS: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""What a write answers when there is no room: the disk's, the user's quota's, the file's limit."""

RECHECK_S: Final = 0.25
"""How often a full disk is looked at again: soon enough to come back unnoticed, and cheap."""

LOOK_S: Final = 1.0
"""How old the number may be while there is room: others write to the same disk too."""

_log = logging.getLogger("sidegate.core.log")


class Space:
    """Whether appends may go on.

    Invariant: `full` is True from the moment that free space fell below the reserve, or a write
    found no room, until a later look finds the reserve and as much again as a group may need.
    `free` is what the last look found, less what was appended since. Any thread may ask; two
    that look at the same time both tell the truth.

    The system's own topics may use the upper quarter of the reserve: a gatekeeper lets nobody read
    whose decision it can't record, and reads have to go on while the disk is full.
    """

    def __init__(
        self, files: Files, directory: Path, clock: Clock, *, reserve: int, margin: int
    ) -> None:
        self._files = files
        self._directory = directory
        self._clock = clock
        self._reserve = reserve
        self._margin = margin
        self._looked_at = float("-inf")
        self._refused = False
        self.full = False
        self.free = 0
        self.look()

    def look(self) -> None:
        """Ask the file system, and change `full` where the answer says so."""
        self._looked_at = self._clock.monotonic()
        self._refused = False
        self.free = self._files.free_bytes(self._directory)
        self._become(full=self.free < self._reserve + (self._margin if self.full else 0))

    def took(self, length: int) -> None:
        """So much was appended. Looks again when that matters, and every now and then."""
        self.free -= length
        if self.free < self._reserve + self._margin or self._stale(LOOK_S):
            self.look()

    def _stale(self, seconds: float) -> bool:
        return self._clock.monotonic() - self._looked_at >= seconds

    def found_full(self) -> None:
        """A write found no room, whatever the file system says of itself."""
        self._looked_at = self._clock.monotonic()
        self._refused = True
        self._become(full=True)

    def _become(self, *, full: bool) -> None:
        changed, self.full = full != self.full, full
        if changed and full:
            _log.error("the disk is full, appends are refused: %s", self.refusal())
        elif changed:
            _log.warning("there is room again, appends go on: %d bytes are free", self.free)

    def may_append(self, *, of_system: bool = False) -> bool:
        """True if there is room; while full, looks again from time to time.

        `of_system` is for batches of the system's own topics only.
        """
        if self.full and self._stale(RECHECK_S):
            self.look()
        if not self.full:
            return True
        return of_system and not self._refused and self.free > self._reserve * 3 // 4

    def refusal(self) -> str:
        """Why appends are refused, and what to do."""
        return (
            f"the log's disk has {self.free} bytes free, and {self._reserve} are kept in reserve "
            f"(disk_reserve_bytes): free space or shorten a topic's retention; reads go on"
        )
