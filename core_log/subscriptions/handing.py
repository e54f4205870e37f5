"""What the state machines of a subscription tell their shell to do, and what they refuse.

Values only. `token` is a generation where the mode is ordered, a lease where it is fcfs.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final, Protocol

from core_log.subscriptions.cursor import Cursor, Range
from core_log.subscriptions.members import Members
from core_log.subscriptions.tries import Tries

RUN_BITS: Final = 32
"""Numbers that one run of the core may give out; with the run in front they stay below 2**53 for
two million runs."""


class Numbers:
    """Generations and leases: each greater than all before it, also those of earlier runs."""

    def __init__(self, run: int) -> None:
        self._next = count((run << RUN_BITS) + 1)

    def __call__(self) -> int:
        return next(self._next)


@dataclass(frozen=True, slots=True)
class Assign:
    """The partition is this session's from now on, beginning at its cursor's low mark."""

    session: int
    partition: int
    generation: int


@dataclass(frozen=True, slots=True)
class Revoke:
    """The session must stop with this; give it no more of it."""

    session: int
    partition: int
    token: int


@dataclass(frozen=True, slots=True)
class Redeliver:
    """Send the frames that hold these offsets once more."""

    session: int
    partition: int
    generation: int
    offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Fenced:
    """What the session said is about something that is no longer its own."""

    session: int
    partition: int
    token: int


@dataclass(frozen=True, slots=True)
class Ended:
    """The session is no member any more; tell it and close."""

    session: int
    code: str
    detail: str


Effect = Assign | Revoke | Redeliver | Fenced | Ended


class BadAnswer(Exception):
    """A member spoke of something that it was never given. Its stream ends with `bad_message`."""


def within(ranges: list[Range], first: int, last: int) -> Iterator[Range]:
    """The parts of sorted `ranges` that lie between `first` and `last`."""
    for begin, end in ranges:
        if begin <= last and end >= first:
            yield max(begin, first), min(end, last)


def without(ranges: list[Range], first: int, last: int) -> list[Range]:
    """Sorted `ranges` without what lies between `first` and `last`."""
    rest: list[Range] = []
    for begin, end in ranges:
        if end < first or begin > last:
            rest.append((begin, end))
            continue
        if begin < first:
            rest.append((begin, first - 1))
        if end > last:
            rest.append((last + 1, end))
    return rest


def size(ranges: list[Range]) -> int:
    """How many offsets they hold."""
    return sum(last - first + 1 for first, last in ranges)


class Part(Protocol):
    """What both modes know of a partition."""

    @property
    def cursor(self) -> Cursor:
        """How far it has come."""

    @property
    def in_flight(self) -> int:
        """Messages that were given out and not acknowledged."""


class Group(Protocol):
    """What both modes offer: events with their time in, effects out."""

    @property
    def members(self) -> Members:
        """Who is there."""

    @property
    def partitions(self) -> Sequence[Part]:
        """All partitions of the topic."""

    def join(self, session: int, name: str, /, *, now: float, since_us: int) -> list[Effect]:
        """A member has come; one of the same name is replaced by it."""

    def lost(self, session: int, now: float, /) -> list[Effect]:
        """A member's stream is gone."""

    def heard(self, session: int, now: float, /) -> None:
        """A sign of life."""

    def ack(
        self, session: int, partition: int, token: int, ranges: Sequence[Range], now: float, /
    ) -> list[Effect]:
        """Done. Raises BadAnswer and TooManyRanges."""

    def ack_by_hand(self, partition: int, ranges: Sequence[Range], now: float, /) -> list[Effect]:
        """Done, whoever has it. Raises TooManyRanges."""

    def nack(
        self,
        session: int,
        partition: int,
        token: int,
        offsets: Sequence[int],
        again_at: float,
        now: float,
        /,
    ) -> list[Effect]:
        """Not done; to be given again at `again_at`. Raises BadAnswer."""

    def nack_by_hand(
        self, partition: int, offsets: Sequence[int], again_at: float, now: float, /
    ) -> list[Effect]:
        """One attempt more, whoever has it."""

    def attempts(
        self,
        session: int,
        partition: int,
        token: int,
        totals: Mapping[int, int],
        history: Mapping[int, Tries],
        /,
    ) -> list[Effect]:
        """A member's own count of failed tries, and what became of them."""

    def released(self, session: int, partition: int, token: int, now: float, /) -> list[Effect]:
        """A member has given back what it held."""

    def seek(self, lows: Mapping[int, int], now: float, /) -> list[Effect]:
        """Begin anew at these offsets."""

    def grow(self, cursors: Iterable[Cursor], now: float, /) -> list[Effect]:
        """The topic has more partitions."""

    def skip(self, partition: int, first: int, end: int, now: float, /) -> list[Effect]:
        """These offsets can't be read any more."""

    def next_due(self) -> float | None:
        """When `tick` has something to do, if nothing happens before."""

    def tick(self, now: float, /) -> list[Effect]:
        """Do what time has brought about."""
