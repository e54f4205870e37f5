"""The cache of one issuer's keys: when to use them, when to fetch, and when to give up.

The decision is a table over three facts, tested over all inputs; `KeyCache` only acts on it. Keys
are fetched ahead of their age, by one fetch at a time; while the issuer fails, the last keys are
used up to a limit; a token that names an unknown key causes a fetch, but not more often than the
cooldown allows. Times are of a monotonic clock.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final

from gatekeeper.identity.authentication_errors import IssuerUnavailable, Reason, TokenRefused
from gatekeeper.identity.jwk import VerificationKey
from gatekeeper.identity.key_fetcher import KeyFetchError
from gatekeeper.identity.key_set import KeySet

log = logging.getLogger("sidegate.gatekeeper")


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """The cache's times, in seconds."""

    refresh_s: float = 300.0
    """Fetched anew at this age: a key that its issuer withdraws is out within five minutes."""
    stale_s_max: float = 3600.0
    """Not used beyond this age, however long the issuer is down: a withdrawn key would live on."""
    cooldown_s: float = 10.0
    """After a fetch, unknown keys cause no further one for so long: made-up ones cost nothing."""
    backoff_s_min: float = 1.0
    backoff_s_max: float = 60.0
    """After failures: doubling between the two, so that an issuer that recovers is not flooded."""

    def __post_init__(self) -> None:
        if not 0 < self.refresh_s < self.stale_s_max:
            raise ValueError("refresh_s must be above 0 and below stale_s_max")
        if not 0 < self.backoff_s_min <= self.backoff_s_max or self.cooldown_s <= 0:
            raise ValueError("cooldown_s and backoff_s must be above 0")


class Age(Enum):
    """What the keys at hand are worth."""

    FRESH = auto()
    AGING = auto()
    UNUSABLE = auto()
    """None yet, or too old."""


class Fetching(Enum):
    """Whether a fetch may begin now."""

    ALLOWED = auto()
    IN_FLIGHT = auto()
    COOLING = auto()
    """The last one succeeded a moment ago."""
    BACKING_OFF = auto()
    """The last one failed a moment ago."""


class Step(Enum):
    """What to do for a token that needs a key."""

    USE = auto()
    USE_AND_FETCH = auto()
    WAIT = auto()
    FETCH_AND_WAIT = auto()
    KEY_UNKNOWN = auto()
    UNAVAILABLE = auto()


_BY_FETCHING: Final[Mapping[tuple[Age, bool], tuple[Step, Step, Step, Step]]] = {
    # (age, key is at hand):  ALLOWED              IN_FLIGHT    COOLING           BACKING_OFF
    (Age.FRESH, True): (Step.USE, Step.USE, Step.USE, Step.USE),
    (Age.AGING, True): (Step.USE_AND_FETCH, Step.USE, Step.USE, Step.USE),
    (Age.FRESH, False): (Step.FETCH_AND_WAIT, Step.WAIT, Step.KEY_UNKNOWN, Step.UNAVAILABLE),
    (Age.AGING, False): (Step.FETCH_AND_WAIT, Step.WAIT, Step.KEY_UNKNOWN, Step.UNAVAILABLE),
    # Keys that can't be used are not at hand, whatever they hold.
    (Age.UNUSABLE, True): (Step.FETCH_AND_WAIT, Step.WAIT, Step.UNAVAILABLE, Step.UNAVAILABLE),
    (Age.UNUSABLE, False): (Step.FETCH_AND_WAIT, Step.WAIT, Step.UNAVAILABLE, Step.UNAVAILABLE),
}
STEPS: Final[Mapping[tuple[Age, bool, Fetching], Step]] = {
    (age, at_hand, fetching): step
    for (age, at_hand), steps in _BY_FETCHING.items()
    for fetching, step in zip(Fetching, steps, strict=True)
}


@dataclass(frozen=True, slots=True)
class KeyState:
    """What is known about one issuer's keys. Changed only by the three functions below."""

    keys: KeySet | None = None
    generation: int = 0
    """Counts the sets that were taken up, so that others can see a change."""
    fetched_at: float = 0.0
    ended_at: float = 0.0
    failures: int = 0
    in_flight: bool = False
    problem: str | None = "the keys have not been fetched yet"


def begun(state: KeyState) -> KeyState:
    """A fetch begins."""
    return replace(state, in_flight=True)


def succeeded(state: KeyState, keys: KeySet, now: float) -> KeyState:
    """A fetch has brought `keys`."""
    return KeyState(
        keys=keys, generation=state.generation + 1, fetched_at=now, ended_at=now, problem=None
    )


def failed(state: KeyState, problem: str, now: float) -> KeyState:
    """A fetch has failed; the last keys stay."""
    failures = state.failures + 1
    return replace(state, failures=failures, ended_at=now, in_flight=False, problem=problem)


def age_of(state: KeyState, limits: KeyLimits, now: float) -> Age:
    """What the keys at hand are worth at `now`."""
    if state.keys is None or now - state.fetched_at >= limits.stale_s_max:
        return Age.UNUSABLE
    return Age.FRESH if now - state.fetched_at < limits.refresh_s else Age.AGING


def fetching_of(state: KeyState, limits: KeyLimits, now: float) -> Fetching:
    """Whether a fetch may begin at `now`."""
    if state.in_flight:
        return Fetching.IN_FLIGHT
    if state.failures:
        held = retry_in_s(state, limits, now) > 0
        return Fetching.BACKING_OFF if held else Fetching.ALLOWED
    if state.keys is not None and now - state.ended_at < limits.cooldown_s:
        return Fetching.COOLING
    return Fetching.ALLOWED


def retry_in_s(state: KeyState, limits: KeyLimits, now: float) -> float:
    """How long no fetch begins after the failures so far."""
    doublings = min(state.failures - 1, 16)
    backoff_s = min(limits.backoff_s_min * (1 << doublings), limits.backoff_s_max)
    return max(0.0, state.ended_at + backoff_s - now)


class KeyCache:
    """One issuer's keys. Used from one event loop; `close` ends what is under way."""

    def __init__(
        self,
        issuer: str,
        fetch: Callable[[], Awaitable[KeySet]],
        *,
        clock: Callable[[], float],
        limits: KeyLimits | None = None,
    ) -> None:
        self.issuer = issuer
        self.state = KeyState()
        self.limits = limits or KeyLimits()
        self._fetch = fetch
        self._clock = clock
        self._flight: asyncio.Task[None] | None = None

    async def find(self, kid: str | None, algorithm: str) -> VerificationKey:
        """The key that a token names. Raises TokenRefused, or IssuerUnavailable."""
        waited = False
        while True:
            now = self._clock()
            age = age_of(self.state, self.limits, now)
            usable = self.state.keys if age is not Age.UNUSABLE else None
            key = usable.find(kid, algorithm) if usable is not None else None
            step = STEPS[age, key is not None, fetching_of(self.state, self.limits, now)]
            if key is not None:
                if step is Step.USE_AND_FETCH:
                    self._begin()
                return key
            if step is Step.UNAVAILABLE or (waited and usable is None):
                raise self._unavailable(now)
            if step is Step.KEY_UNKNOWN or waited:
                raise TokenRefused(
                    Reason.KEY_UNKNOWN,
                    f"the token names a key that {self.issuer} does not publish",
                )
            waited = True
            # Shielded: the fetch is everybody's, and goes on when this request is cancelled.
            await asyncio.shield(self._begin())

    def refresh_ahead(self) -> None:
        """Begin a fetch when it is time for one. Called by a timer."""
        now = self._clock()
        if age_of(self.state, self.limits, now) is Age.FRESH:
            return
        if fetching_of(self.state, self.limits, now) is Fetching.ALLOWED:
            self._begin()

    def age_s(self) -> float | None:
        """Seconds since the keys were fetched; None without keys."""
        return None if self.state.keys is None else self._clock() - self.state.fetched_at

    def usable(self) -> bool:
        """True while tokens can be checked."""
        return age_of(self.state, self.limits, self._clock()) is not Age.UNUSABLE

    async def close(self) -> None:
        """End a fetch that is under way."""
        if self._flight is not None:
            self._flight.cancel()
            await asyncio.gather(self._flight, return_exceptions=True)

    def _begin(self) -> asyncio.Task[None]:
        """The fetch that is under way, or a new one: never two."""
        if self._flight is None or self._flight.done():
            self.state = begun(self.state)
            self._flight = asyncio.create_task(self._run(), name=f"keys of {self.issuer}")
        return self._flight

    async def _run(self) -> None:
        try:
            fetched = await self._fetch()
        except KeyFetchError as error:
            self.state = failed(self.state, str(error), self._clock())
            fields = {"issuer": self.issuer, "problem": str(error)}
            log.warning("the issuer's keys could not be fetched", extra={"fields": fields})
        except BaseException:
            self.state = failed(self.state, "the fetch was cut short", self._clock())
            raise
        else:
            self._take_up(fetched)

    def _take_up(self, fetched: KeySet) -> None:
        before = self.state.keys.problems if self.state.keys is not None else ()
        self.state = succeeded(self.state, fetched, self._clock())
        for problem in fetched.problems:
            if problem not in before:
                fields = {"issuer": self.issuer, "problem": problem}
                log.warning("a key of the issuer is not used", extra={"fields": fields})

    def _unavailable(self, now: float) -> IssuerUnavailable:
        return IssuerUnavailable(
            f"the keys of {self.issuer} can't be fetched, so its tokens can't be checked; the "
            "gatekeeper's log and /readyz say why",
            retry_after_s=retry_in_s(self.state, self.limits, now),
        )
