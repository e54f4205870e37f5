"""The requests of one partition that are under way, and when an answer to one may be acted upon.

Pure. On the way to the log a request may overtake the one before it, and so may its answer on the
way back. What is committed counts as soon as everything before it is; any other answer is only
understood beside those of all requests that were under way with it, for it may be a consequence
of theirs. Two rules follow, `landed` and `may_follow`; what answers mean is in `settlement.py`.
"""

from collections.abc import Sequence
from enum import Enum, auto
from typing import Final

from sidecar.publish.batch import Batch
from sidecar.publish.results import IN_THE_LOG, AppendResult

BATCHES_IN_FLIGHT_MAX: Final = 5
"""As many as a log with Kafka's rules remembers of a producer, so that a repeat is recognised."""
FLIGHTS_MAX: Final = 3
"""Requests of one partition under way: one each for sidecar, gatekeeper and core to work on."""


class State(Enum):
    """Of a request: how much its answer says by itself."""

    UNDER_WAY = auto()
    COMMITTED = auto()
    """All of it is in the log."""
    OTHER = auto()
    """No answer will come, or one that is no reason to go on as before."""


class Flight:
    """The batches of one request, in order. `alone` where no other one of the lane was under way
    when it was sent: only then can nothing but the log itself be the reason for a gap.
    """

    __slots__ = ("alone", "answers", "batches")

    def __init__(self, batches: Sequence[Batch], *, alone: bool) -> None:
        self.batches = batches
        self.alone = alone
        self.answers: Sequence[AppendResult] | None = None

    @property
    def state(self) -> State:
        """What is known of it."""
        if self.answers is None:
            return State.UNDER_WAY
        committed = all(answer.verdict in IN_THE_LOG for answer in self.answers)
        return State.COMMITTED if committed else State.OTHER


def landed(states: Sequence[State]) -> int:
    """How many of the oldest requests are settled now: all, once none is under way; until then
    those that are committed and have nothing else before them.
    """
    if State.UNDER_WAY not in states:
        return len(states)
    return next(at for at, state in enumerate(states) if state is not State.COMMITTED)


def may_follow(states: Sequence[State]) -> bool:
    """Whether another request may be sent behind these.

    Not behind an answer that needs thought: what follows may have to be sent in another form.
    """
    return len(states) < FLIGHTS_MAX and State.OTHER not in states


class Flights:
    """Those of one lane, oldest first. Belongs to the event loop.

    Invariant: their batches are the first `batches` of the lane's queue, in its order.
    """

    __slots__ = ("_flights", "batches")

    def __init__(self) -> None:
        self._flights: list[Flight] = []
        self.batches = 0

    def __len__(self) -> int:
        return len(self._flights)

    @property
    def may_follow(self) -> bool:
        """Whether another one may be sent."""
        return self.batches < BATCHES_IN_FLIGHT_MAX and may_follow(self._states())

    def begin(self, batches: Sequence[Batch]) -> Flight:
        """A request with these batches is sent now."""
        flight = Flight(batches, alone=not self._flights)
        self._flights.append(flight)
        self.batches += len(batches)
        return flight

    def answer(self, flight: Flight, answers: Sequence[AppendResult]) -> list[Flight]:
        """Note what came back; return those that are settled with it, which are gone from here."""
        if len(answers) != len(flight.batches):
            raise ValueError(f"{len(answers)} answers to {len(flight.batches)} batches")
        flight.answers = answers
        count = landed(self._states())
        down, self._flights = self._flights[:count], self._flights[count:]
        self.batches -= sum(len(each.batches) for each in down)
        return down

    def _states(self) -> list[State]:
        return [flight.state for flight in self._flights]
