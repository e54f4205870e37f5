"""Broadcast: who gets which frame next, decided without a byte being moved.

`Reader` is one stream's place in its partitions: pure decisions over offsets, lengths and
credit. `Broadcast` hands each commit to those who listen. May import the log's values only; the
sockets are elsewhere (`core_log.outlet`).

How replay joins live delivery. A partition of a reader is *live* when everything committed so
far has been handed out, and *behind* otherwise. A live one takes commits as they are told; a
behind one ignores them and is read from the log. It becomes live again only when its position
has reached the log's end, checked in the same step of the event loop. Frames can be read before
their commit is told, so at that moment every frame is either handed out or still to be told: no
gap. A commit that was already read is known by its offsets and skipped: no duplicate.

A reader holds no queue. One that can't take a frame (no credit, a full socket) merely becomes
behind; it costs the others nothing, and memory holds no more than what its socket buffers.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple, Protocol

from core_log.log.results import Committed

READ_BYTES_MAX: Final = 256 * 1024
"""What a reader that is behind gets at a time, so that many of them take turns on the loop."""


class Verdict(Enum):
    """What to do with a commit that a reader is told of."""

    SEND = "send"
    """Hand it out now: the reader's position has moved past it."""
    SKIP = "skip"
    """Nothing to do: it was handed out before, or will be read from the log."""
    LAG = "lag"
    """The reader can't take it now; read it from the log when it can."""


class Due(NamedTuple):
    """A partition to read next for a reader that is behind."""

    partition: int
    offset: int
    bytes_max: int


class Reader:
    """One stream's position in each of its partitions, and its credit in bytes.

    While it is `stopped` it gives out nothing.

    Invariant: from where it began, every frame that exists below a partition's position has been
    handed out exactly once, in order. Credit above zero allows one more frame, so that it falls
    below zero by less than one frame. Not thread-safe.
    """

    __slots__ = ("_behind", "_held", "_positions", "credit", "stopped")

    def __init__(self, positions: Mapping[int, int], credit: int) -> None:
        self.credit = credit
        self.stopped = False
        self._held: set[int] = set()
        self._positions = dict(positions)
        # Whose turn it is comes first. Everything begins behind: nothing has been read yet.
        self._behind = dict.fromkeys(self._positions)

    @property
    def positions(self) -> Mapping[int, int]:
        """The next offset of each partition."""
        return self._positions

    @property
    def behind(self) -> Iterable[int]:
        """Partitions that have to be read from the log."""
        return self._behind.keys()

    def add_partition(self, partition: int, offset: int) -> None:
        """Follow one more partition; a partition that is followed already stays as it is."""
        if partition not in self._positions:
            self._positions[partition] = offset
            self._behind[partition] = None

    def drop_partition(self, partition: int) -> None:
        """Follow a partition no more."""
        self._positions.pop(partition, None)
        self._behind.pop(partition, None)
        self._held.discard(partition)

    def hold(self, partition: int, *, held: bool) -> bool:
        """Give out nothing of a partition while it is held; True where that is a change."""
        if partition not in self._positions or (partition in self._held) is held:
            return False
        if held:
            self._held.add(partition)
            self._behind[partition] = None
        else:
            self._held.discard(partition)
        return True

    def grant(self, credit: int) -> None:
        """Allow that many bytes more."""
        self.credit += credit

    def offer(
        self, partition: int, base_offset: int, next_offset: int, length: int, *, room: bool
    ) -> Verdict:
        """Decide on a commit. `room` says whether the socket would take it without waiting."""
        position = self._positions.get(partition)
        if position is None or partition in self._behind or next_offset <= position:
            return Verdict.SKIP
        if base_offset > position or self.credit <= 0 or self.stopped or not room:
            self._behind[partition] = None
            return Verdict.LAG
        self._positions[partition] = next_offset
        self.credit -= length
        return Verdict.SEND

    def due(self) -> Due | None:
        """What to read next, if anything may be sent and anything is behind."""
        if self.credit <= 0 or self.stopped:
            return None
        for partition in self._behind:
            if partition in self._held:
                continue
            limit = min(self.credit, READ_BYTES_MAX)
            return Due(partition, self._positions[partition], limit)
        return None

    def took(self, partition: int, next_offset: int, length: int) -> None:
        """The frames of a read were handed out; the next partition has its turn."""
        self._positions[partition] = max(next_offset, self._positions[partition])
        self.credit -= length
        if partition in self._behind:
            del self._behind[partition]
            self._behind[partition] = None

    def caught_up(self, partition: int, end_offset: int) -> bool:
        """Make the partition live if nothing lies between its position and the log's end."""
        if self._positions[partition] < end_offset:
            return False
        self._behind.pop(partition, None)
        return True


class Listener(Protocol):
    """Somebody who is told of commits."""

    def offer(self, batch: Committed) -> bool:
        """Take or leave a commit; True asks for `flush` once the whole group was offered."""

    def flush(self) -> None:
        """Do at once what the group's commits have brought together."""


class Broadcast:
    """Who listens to which partition. Every listener gets the same bytes object.

    Belongs to the event loop. A listener may be added or removed at any time, also while a group
    is being told.
    """

    def __init__(self) -> None:
        self._listeners: dict[tuple[str, int], tuple[Listener, ...]] = {}

    def add(self, topic: str, partitions: Iterable[int], listener: Listener) -> None:
        """Tell `listener` of these partitions' commits from now on."""
        for partition in partitions:
            key = topic, partition
            self._listeners[key] = (*self._listeners.get(key, ()), listener)

    def remove(self, topic: str, partitions: Iterable[int], listener: Listener) -> None:
        """Tell it no more."""
        for partition in partitions:
            key = topic, partition
            rest = tuple(each for each in self._listeners.get(key, ()) if each is not listener)
            if rest:
                self._listeners[key] = rest
            else:
                self._listeners.pop(key, None)

    def publish(self, group: Sequence[Committed]) -> None:
        """Tell of a group of commits, in order, and then let each listener act once."""
        touched: dict[Listener, None] = {}
        for batch in group:
            for listener in self._listeners.get((batch.topic, batch.partition), ()):
                if listener.offer(batch):
                    touched[listener] = None
        for listener in touched:
            listener.flush()
