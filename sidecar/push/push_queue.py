"""Which parcels go out next: in order within a key, past a key that is stuck, never too many.

Pure: time and chance come in as numbers; what is to be done goes out as parcels. In `ordered`
subscriptions the next of a key waits until the one before it is settled; parcels without a key,
and all parcels of `fcfs` subscriptions, wait for nobody.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any, Final

from sidecar.delivery.tries import Try, bounded, cut_error
from sidecar.push.parcel import ENDS, Effect, Event, Parcel, State
from sidecar.uplink.backoff import Backoff

BURY_BACKOFF: Final = Backoff(first_s=1.0, max_s=60.0)
"""Between tries to write a dead letter: what stands in the way is an outage or a person's error."""
Lane = deque[Parcel]


@dataclass(frozen=True, slots=True)
class Patience:
    """How often a message is tried, and how long is waited in between."""

    max_attempts: int | None = 10
    """None: until it is taken."""
    backoff: Backoff = field(default_factory=lambda: Backoff(first_s=0.5, max_s=60.0))
    waits_unreached: bool = True
    """While nothing can be sent at all, the whole subscription waits and no try is counted."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a try came to. `status` is None where no answer came."""

    delivered: bool
    reached: bool
    status: int | None = None
    error: str = ""
    retry_after_s: float | None = None
    hold_all: bool = False
    """The app asks for quiet: 429, or 503, with Retry-After."""


@dataclass(slots=True)
class Rest:
    """The destination as a whole: while it rests, one parcel at a time tries whether it is back."""

    failures: int = 0
    until_s: float = 0.0
    since_us: int | None = None


class PushQueue:
    """The parcels of one push subscription in one sidecar. Belongs to the event loop."""

    def __init__(self, *, concurrency: int, ordered: bool, patience: Patience) -> None:
        self._concurrency = concurrency
        self._ordered = ordered
        self._patience = patience
        self._lanes: dict[bytes, Lane] = {}
        self._ready: Lane = deque()
        self._timers: list[tuple[float, int, Parcel]] = []
        self._number = 0
        self._by_hold: dict[Any, dict[tuple[int, int], Parcel]] = {}
        self._down = Rest()
        self._quiet_until_s = 0.0
        self.busy = 0
        """Parcels whose outcome is awaited."""
        self.held = 0
        self.held_bytes = 0
        self.last_failure: Try | None = None

    def __iter__(self) -> Iterator[Parcel]:
        for parcels in self._by_hold.values():
            yield from parcels.values()

    @property
    def down_since_us(self) -> int | None:
        """Since when the destination cannot be reached; None where it can."""
        return self._down.since_us

    def add(self, parcel: Parcel) -> None:
        """Take a parcel in. Those of one key come in the order of their offsets."""
        self._by_hold.setdefault(parcel.hold, {})[parcel.partition, parcel.offset] = parcel
        self.held += 1
        self.held_bytes += parcel.size
        if parcel.key is None or not self._ordered:
            self._ready.append(parcel)
            return
        lane = self._lanes.get(parcel.key)
        if lane is None:
            self._lanes[parcel.key] = deque([parcel])
            self._ready.append(parcel)
        else:
            lane.append(parcel)

    def due(self, now_s: float) -> list[tuple[Parcel, Effect]]:
        """What is to be done now. Each parcel given out must come back by `tried` or `buried`."""
        while self._timers and self._timers[0][0] <= now_s:
            parcel = heappop(self._timers)[2]
            if parcel.state in (State.RESTING, State.UNBURIED):
                # What has waited goes before what is fresh.
                self._ready.appendleft(parcel)
        chosen: list[tuple[Parcel, Effect]] = []
        while self._ready and self.busy < self._places(now_s):
            parcel = self._ready.popleft()
            if parcel.state in ENDS:
                continue
            chosen.append((parcel, parcel.move(Event.SENT)))
            parcel.awaited = True
            self.busy += 1
        return chosen

    def next_s(self, now_s: float) -> float | None:
        """When `due` may have something to say again, unless something comes or ends before.

        None: not by itself. Never too late, sometimes too early.
        """
        times = [self._timers[0][0]] if self._timers else []
        if self._ready:
            if now_s < self._quiet_until_s:
                times.append(self._quiet_until_s)
            elif self._down.since_us is not None and not self.busy:
                times.append(self._down.until_s)
        return min(times, default=None)

    def tried(
        self, parcel: Parcel, verdict: Verdict, now_s: float, now_us: int, chance: float
    ) -> Effect:
        """A try has ended; what to do besides."""
        self._came_back(parcel)
        if verdict.reached:
            self._down = Rest()
        if verdict.delivered:
            return self._end(parcel, Event.DELIVERED)
        failed = Try(parcel.tries + 1, now_us, verdict.status, cut_error(verdict.error))
        self.last_failure = failed
        if verdict.hold_all and verdict.retry_after_s is not None:
            self._quiet_until_s = max(self._quiet_until_s, now_s + verdict.retry_after_s)
        if not verdict.reached and self._patience.waits_unreached:
            self._rest(now_s, now_us, chance)
            effect = parcel.move(Event.NOT_REACHED)
            if effect is Effect.PUT_BACK:
                self._ready.appendleft(parcel)
            return effect
        if parcel.state is State.GONE:
            return parcel.move(Event.FAILED)
        parcel.tries += 1
        parcel.history = bounded((*parcel.history, failed))
        parcel.untold = bounded((*parcel.untold, failed))
        limit = self._patience.max_attempts
        if limit is not None and parcel.tries >= limit:
            parcel.awaited = True
            self.busy += 1
            return parcel.move(Event.EXHAUSTED)
        wait_s = self._patience.backoff.delay_s(parcel.tries, chance)
        self._wake(parcel, now_s + max(wait_s, verdict.retry_after_s or 0.0))
        return parcel.move(Event.FAILED)

    def buried(self, parcel: Parcel, error: str | None, now_s: float, chance: float) -> Effect:
        """Its dead letter was written, or was not, for the reason in `error`."""
        self._came_back(parcel)
        if error is None:
            return self._end(parcel, Event.BURIED)
        if parcel.state is not State.GONE:
            parcel.unburied += 1
            # Full jitter would now and then mean no wait at all, while nothing has changed.
            wait_s = BURY_BACKOFF.delay_s(parcel.unburied, 0.5 + chance / 2)
            self._wake(parcel, now_s + wait_s)
        return parcel.move(Event.REFUSED)

    def lose(self, hold: Any) -> list[Parcel]:
        """Another member has these now. What is under way ends unseen, and only then does the
        next of its key go out: the app must not see two of a key at one time."""
        return self._let_go(list(self._by_hold.get(hold, {}).values()))

    def lose_idle(self, hold: Any) -> list[Parcel]:
        """Let go of everything under `hold` that is not under way just now."""
        idle = [each for each in self._by_hold.get(hold, {}).values() if not each.awaited]
        return self._let_go(idle)

    def holds(self, hold: Any) -> int:
        """How many parcels are under `hold`."""
        return len(self._by_hold.get(hold, ()))

    def next_try_s(self) -> float | None:
        """When the next of those that wait for their time has its turn."""
        times = [each.due_s for each in self if each.state in (State.RESTING, State.UNBURIED)]
        if self._down.since_us is not None:
            times.append(self._down.until_s)
        return min(times, default=None)

    def _places(self, now_s: float) -> int:
        if now_s < self._quiet_until_s:
            return 0
        if self._down.since_us is not None:
            return 1 if now_s >= self._down.until_s else 0
        return self._concurrency

    def _rest(self, now_s: float, now_us: int, chance: float) -> None:
        down = self._down
        if down.since_us is None or now_s >= down.until_s:
            down.failures += 1
            # A tenth at least: a destination that is down is not asked in a tight loop.
            wait_s = self._patience.backoff.delay_s(down.failures, max(chance, 0.1))
            down.until_s = now_s + wait_s
        if down.since_us is None:
            down.since_us = now_us

    def _wake(self, parcel: Parcel, at_s: float) -> None:
        parcel.due_s = at_s
        self._number += 1
        heappush(self._timers, (at_s, self._number, parcel))

    def _came_back(self, parcel: Parcel) -> None:
        parcel.awaited = False
        self.busy -= 1
        if parcel.state is State.GONE:
            self._leave_lane(parcel)

    def _end(self, parcel: Parcel, event: Event) -> Effect:
        effect = parcel.move(event)
        if parcel.state is State.SETTLED:
            self._forget(parcel)
            self._leave_lane(parcel)
        return effect

    def _let_go(self, parcels: list[Parcel]) -> list[Parcel]:
        for parcel in parcels:
            parcel.move(Event.LOST)
            self._forget(parcel)
            if not parcel.awaited:
                self._leave_lane(parcel)
        return parcels

    def _forget(self, parcel: Parcel) -> None:
        kept = self._by_hold[parcel.hold]
        del kept[parcel.partition, parcel.offset]
        if not kept:
            del self._by_hold[parcel.hold]
        self.held -= 1
        self.held_bytes -= parcel.size

    def _leave_lane(self, parcel: Parcel) -> None:
        if parcel.key is None or not self._ordered:
            return
        lane = self._lanes[parcel.key]
        was_first = lane[0] is parcel
        lane.remove(parcel)
        if not lane:
            del self._lanes[parcel.key]
        elif was_first:
            self._ready.append(lane[0])
