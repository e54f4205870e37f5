"""What can go wrong in the log, as types. None of them knows of HTTP.

Each says what its reader may do next; `members` carries the numbers that a client needs.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

NO_MEMBERS: Final[Mapping[str, object]] = MappingProxyType({})


class LogError(Exception):
    """Anything that the log refuses or cannot do."""

    code = "log"

    def __init__(self, text: str, members: Mapping[str, object] = NO_MEMBERS) -> None:
        super().__init__(text)
        self.members = members


class Overloaded(LogError):
    """Too many bytes wait for the disk. Ask again shortly; nothing of this was taken."""

    code = "overloaded"


class DiskFull(LogError):
    """The disk's reserve is reached. Reads go on; appends are taken again once there is room."""

    code = "disk_full"


class LogFailed(LogError):
    """The disk failed under the log. What was in flight is in doubt; restart to recover."""

    code = "storage_failed"


class LogClosed(LogError):
    """The log is closing. Ask again once the service is back."""

    code = "unavailable"


class LogLocked(LogError):
    """Another process has this log open."""

    code = "log_locked"


class LogRefused(LogError):
    """This folder cannot be opened as a log; the text says what an operator has to decide."""

    code = "log_refused"


class Damaged(LogError):
    """The offsets from `first` up to `end` cannot be read. What lies around them can.

    Continue at `end`. `sidegate log verify` tells more.
    """

    code = "damaged"

    def __init__(self, topic: str, partition: int, first: int, end: int, why: str) -> None:
        super().__init__(
            f"{topic}/{partition}: offsets {first} to {end - 1} cannot be read: {why}; "
            f"continue at {end}, and run `sidegate log verify` for the whole extent",
            {"topic": topic, "partition": partition, "first_offset": first, "next_offset": end},
        )
        self.topic = topic
        self.partition = partition
        self.first = first
        self.end = end
        self.why = why
