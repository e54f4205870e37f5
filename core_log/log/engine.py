"""The engine: all that the core needs from whatever keeps its batches, and what it may lack.

An interface and its values. `embedded` fulfils it on this machine's disk, `memory_topics` with no
disk at all; an engine on Kafka can come later without a change above this line. May import the
log's values; must never know of HTTP, of streams or of who is asking.

Concurrency: every method is called on the event loop's thread and none of them blocks it. Frames
can be read before their commit is told to `tail`, so that who reads to the end and then listens
misses nothing.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from core_log.control.topics import Topic
from core_log.log.options import Retention
from core_log.log.results import Appended, CleanReport, Committed, ReadResult, Refused
from log_format.frame import Frame


@dataclass(frozen=True, slots=True)
class Announced:
    """A frame that went to whoever listened and was stored nowhere. It has no leaf."""

    topic: str
    partition: int
    base_offset: int
    count: int
    append_us: int
    duplicate: bool


Outcome = Appended | Announced | Refused
"""What became of one frame."""

Tail = Callable[[Sequence[Committed]], None]
"""Is told of every group of new frames, in the order of the log."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What an engine can do beyond append, read and tail."""

    conditional_append: bool
    """`append_if` works; without it the call raises NotSupported."""

    exactly_once: bool
    """Producers' sequences are kept: repeats are recognised and gaps refused."""

    durable: bool
    """What was acknowledged is there after a restart."""

    time_lookup: bool
    """`offset_for_time` finds old messages, not only the end."""

    retention: bool
    """`clean` frees what a topic's retention lets go."""


class NotSupported(Exception):
    """This engine lacks the capability; ask `capabilities` first."""


class Engine(Protocol):
    """Keeps batches by topic and partition; offsets rise from 0 without gaps."""

    @property
    def capabilities(self) -> Capabilities:
        """What this engine can do."""

    def put_topic(self, topic: Topic) -> None:
        """Know of a new or altered topic before the first append to it."""

    async def drop_topic(self, name: str) -> None:
        """Forget a topic; returns once nothing of it is in flight any more."""

    def append(self, frames: Sequence[Frame]) -> Awaitable[Sequence[Outcome]]:
        """Append each frame to its own topic and partition, in order; one outcome per frame.

        Raises a LogError at once, for all of them, where nothing can be accepted.
        """

    async def append_if(self, frame: Frame, end_offset: int) -> Outcome:
        """Append only where the frame's first offset will be `end_offset`.

        Refused with `condition_failed` otherwise, and also while other appends to the partition
        are in flight: their outcome would decide, and is not known yet.
        """

    def read_hot(
        self, topic: str, partition: int, offset: int, bytes_max: int
    ) -> ReadResult | None:
        """Frames from memory, or None where only `read` can tell. The bytes are shared."""

    async def read(self, topic: str, partition: int, offset: int, bytes_max: int) -> ReadResult:
        """Whole frames from the one that holds `offset` on; at least one if there is one."""

    def partitions(self) -> Sequence[tuple[str, int]]:
        """Every topic and partition of which something may be kept, of deleted topics too."""

    def start_offset(self, topic: str, partition: int) -> int:
        """The first offset that can still be read."""

    def end_offset(self, topic: str, partition: int) -> int:
        """The offset that the next message will get."""

    async def offset_for_time(self, topic: str, partition: int, time_us: int) -> int:
        """The first offset appended at or after a time; the end if there is none."""

    def tail(self, listener: Tail) -> None:
        """Tell `listener` of every commit from now on."""

    async def clean(self, retention: Mapping[str, Retention]) -> CleanReport:
        """Free what each topic's retention lets go. Topics that are not named keep everything."""
