"""The key cache: its table over all inputs, its times, and one fetch at a time."""

import asyncio
import itertools
from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gatekeeper.identity.authentication_errors import IssuerUnavailable, Reason, TokenRefused
from gatekeeper.identity.jwk import VerificationKey
from gatekeeper.identity.jwks import (
    STEPS,
    Age,
    Fetching,
    KeyCache,
    KeyLimits,
    KeyState,
    Step,
    age_of,
    begun,
    failed,
    fetching_of,
    retry_in_s,
    succeeded,
)
from gatekeeper.identity.key_fetcher import KeyFetchError
from gatekeeper.identity.key_set import KeySet

LIMITS = KeyLimits()


def key(kid: str) -> VerificationKey:
    return VerificationKey(kid, frozenset({"ES256"}), kid.encode(), b"")


def keys(*kids: str) -> KeySet:
    return KeySet(tuple(key(kid) for kid in kids))


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Source:
    """A place to fetch from whose answers and moments the test decides."""

    def __init__(self, *kids: str) -> None:
        self.result: KeySet | Exception = keys(*kids)
        self.fetches = 0
        self.held: asyncio.Event | None = None

    async def fetch(self) -> KeySet:
        self.fetches += 1
        if self.held is not None:
            await self.held.wait()
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def new_cache(clock: Clock) -> Callable[[Source], KeyCache]:
    return lambda source: KeyCache("corp", source.fetch, clock=clock)


async def settled(cache: KeyCache) -> None:
    if cache._flight is not None:
        await asyncio.wait([cache._flight])


@pytest.mark.parametrize(
    ("age", "at_hand", "fetching"), list(itertools.product(Age, (True, False), Fetching))
)
def test_the_table_answers_every_situation_safely(age, at_hand, fetching) -> None:
    step = STEPS[age, at_hand, fetching]
    uses = step in (Step.USE, Step.USE_AND_FETCH)
    assert uses == (at_hand and age is not Age.UNUSABLE), "used exactly when it may be"
    if step in (Step.FETCH_AND_WAIT, Step.USE_AND_FETCH):
        assert fetching is Fetching.ALLOWED, "no fetch beyond what is allowed"
    if step is Step.WAIT:
        assert fetching is Fetching.IN_FLIGHT, "nobody waits for nothing"
    if step is Step.KEY_UNKNOWN:
        assert fetching is Fetching.COOLING, "unknown only after a recent look"


def test_the_table_is_complete() -> None:
    assert len(STEPS) == len(Age) * 2 * len(Fetching)


def test_ages_begin_and_end_at_their_limits() -> None:
    state = succeeded(KeyState(), keys("k1"), 1000.0)
    assert age_of(KeyState(), LIMITS, 0) is Age.UNUSABLE
    for after, age in (
        (0, Age.FRESH),
        (LIMITS.refresh_s - 0.1, Age.FRESH),
        (LIMITS.refresh_s, Age.AGING),
        (LIMITS.stale_s_max - 0.1, Age.AGING),
        (LIMITS.stale_s_max, Age.UNUSABLE),
    ):
        assert age_of(state, LIMITS, 1000.0 + after) is age


def test_failures_back_off_by_doubling_up_to_a_limit() -> None:
    state = KeyState()
    waits = []
    for _ in range(20):
        state = failed(begun(state), "down", 1000.0)
        waits.append(retry_in_s(state, LIMITS, 1000.0))
    assert waits[:7] == [1, 2, 4, 8, 16, 32, 60]
    assert set(waits[7:]) == {60}
    assert fetching_of(state, LIMITS, 1059.9) is Fetching.BACKING_OFF
    assert fetching_of(state, LIMITS, 1060.0) is Fetching.ALLOWED


def test_a_failure_keeps_the_last_keys_and_a_success_forgets_the_failures() -> None:
    state = succeeded(KeyState(), keys("k1"), 1000.0)
    state = failed(begun(state), "down", 1400.0)
    assert state.keys == keys("k1")
    assert state.problem == "down"
    state = succeeded(begun(state), keys("k2"), 1500.0)
    assert (state.failures, state.problem, state.generation) == (0, None, 2)


@pytest.mark.parametrize(
    "wrong",
    [
        {"refresh_s": 0},
        {"refresh_s": 10, "stale_s_max": 10},
        {"cooldown_s": 0},
        {"backoff_s_min": 0},
        {"backoff_s_min": 2, "backoff_s_max": 1},
    ],
)
def test_limits_that_make_no_sense_are_refused(wrong) -> None:
    with pytest.raises(ValueError, match="must be"):
        KeyLimits(**wrong)


async def test_the_first_token_waits_for_the_keys(new_cache) -> None:
    source = Source("k1")
    assert (await new_cache(source).find("k1", "ES256")).kid == "k1"
    assert source.fetches == 1


async def test_a_hundred_waiting_tokens_cause_one_fetch(new_cache) -> None:
    source = Source("k1")
    source.held = asyncio.Event()
    cache = new_cache(source)
    waiting = [asyncio.create_task(cache.find("k1", "ES256")) for _ in range(100)]
    await asyncio.sleep(0)
    source.held.set()
    assert {found.kid for found in await asyncio.gather(*waiting)} == {"k1"}
    assert source.fetches == 1


async def test_a_cancelled_request_does_not_end_the_fetch_of_the_others(new_cache) -> None:
    source = Source("k1")
    source.held = asyncio.Event()
    cache = new_cache(source)
    first = asyncio.create_task(cache.find("k1", "ES256"))
    second = asyncio.create_task(cache.find("k1", "ES256"))
    await asyncio.sleep(0)
    first.cancel()
    source.held.set()
    assert (await second).kid == "k1"
    assert source.fetches == 1


async def test_ageing_keys_are_used_at_once_and_fetched_behind(new_cache, clock) -> None:
    source = Source("k1")
    cache = new_cache(source)
    await cache.find("k1", "ES256")
    clock.now += LIMITS.refresh_s
    source.held = asyncio.Event()
    assert (await cache.find("k1", "ES256")).kid == "k1"
    await asyncio.sleep(0)
    assert source.fetches == 2
    source.result = keys("k2")
    source.held.set()
    await settled(cache)
    assert (await cache.find("k2", "ES256")).kid == "k2"


async def test_the_timer_fetches_ahead_without_any_request(new_cache, clock) -> None:
    source = Source("k1")
    cache = new_cache(source)
    for expected in (1, 1):
        cache.refresh_ahead()
        await settled(cache)
        assert source.fetches == expected
    clock.now += LIMITS.refresh_s
    cache.refresh_ahead()
    cache.refresh_ahead()
    await settled(cache)
    assert source.fetches == 2


async def test_a_rotated_key_is_found_by_one_fetch(new_cache, clock) -> None:
    source = Source("k1")
    cache = new_cache(source)
    await cache.find("k1", "ES256")
    clock.now += LIMITS.cooldown_s
    source.result = keys("k1", "k2")
    assert (await cache.find("k2", "ES256")).kid == "k2"
    assert source.fetches == 2


async def test_made_up_key_names_cannot_flood_the_issuer(new_cache, clock) -> None:
    source = Source("k1")
    cache = new_cache(source)
    await cache.find("k1", "ES256")
    for number in range(1000):
        with pytest.raises(TokenRefused) as caught:
            await cache.find(f"made-up-{number}", "ES256")
        assert caught.value.reason is Reason.KEY_UNKNOWN
        clock.now += 0.1
    assert source.fetches <= 1 + 100 / LIMITS.cooldown_s


async def test_while_the_issuer_is_down_known_keys_work_up_to_their_greatest_age(
    new_cache, clock
) -> None:
    source = Source("k1")
    cache = new_cache(source)
    await cache.find("k1", "ES256")
    source.result = KeyFetchError("down")
    while clock.now < 1000.0 + LIMITS.stale_s_max - 61:
        clock.now += 61
        assert (await cache.find("k1", "ES256")).kid == "k1"
        await settled(cache)
    assert cache.usable()
    clock.now = 1000.0 + LIMITS.stale_s_max
    with pytest.raises(IssuerUnavailable):
        await cache.find("k1", "ES256")
    assert not cache.usable()


async def test_an_unknown_key_while_the_issuer_is_down_is_a_passing_failure(
    new_cache, clock
) -> None:
    source = Source("k1")
    cache = new_cache(source)
    await cache.find("k1", "ES256")
    clock.now += LIMITS.cooldown_s
    source.result = KeyFetchError("down")
    for _ in range(3):
        with pytest.raises(IssuerUnavailable) as caught:
            await cache.find("k2", "ES256")
        assert caught.value.headers["Retry-After"] == "1"
    assert source.fetches == 2


async def test_an_issuer_that_was_never_up_is_asked_again_after_the_backoff(
    new_cache, clock
) -> None:
    source = Source()
    source.result = KeyFetchError("down")
    cache = new_cache(source)
    for _ in range(3):
        with pytest.raises(IssuerUnavailable):
            await cache.find("k1", "ES256")
    assert source.fetches == 1
    source.result = keys("k1")
    clock.now += 1
    assert (await cache.find("k1", "ES256")).kid == "k1"


async def test_a_defect_in_fetching_is_not_hidden_and_does_not_stop_later_fetches(
    new_cache, clock
) -> None:
    source = Source()
    source.result = ZeroDivisionError("defect")
    cache = new_cache(source)
    with pytest.raises(ZeroDivisionError):
        await cache.find("k1", "ES256")
    source.result = keys("k1")
    clock.now += 1
    assert (await cache.find("k1", "ES256")).kid == "k1"


async def test_closing_ends_a_fetch_that_hangs(new_cache) -> None:
    source = Source("k1")
    source.held = asyncio.Event()
    cache = new_cache(source)
    cache.refresh_ahead()
    await asyncio.sleep(0)
    await cache.close()
    assert not cache.usable()
    assert cache.state.problem == "the fetch was cut short"
    assert not cache.state.in_flight


async def test_the_age_of_the_keys_is_told(new_cache, clock) -> None:
    cache = new_cache(Source("k1"))
    assert cache.age_s() is None
    await cache.find("k1", "ES256")
    clock.now += 7
    assert cache.age_s() == 7


class IssuerLife(RuleBasedStateMachine):
    """Any sequence of fetches, failures and pauses keeps the promises of the limits."""

    def __init__(self) -> None:
        super().__init__()
        self.state = KeyState()
        self.now = 1000.0
        self.begun_at: list[float] = []

    @rule(seconds=st.floats(0, 4000))
    def pause(self, seconds: float) -> None:
        self.now += seconds

    @precondition(lambda self: fetching_of(self.state, LIMITS, self.now) is Fetching.ALLOWED)
    @rule(ok=st.booleans(), takes_s=st.floats(0, 10))
    def fetch(self, ok: bool, takes_s: float) -> None:
        self.begun_at.append(self.now)
        self.state = begun(self.state)
        assert fetching_of(self.state, LIMITS, self.now) is Fetching.IN_FLIGHT
        self.now += takes_s
        self.state = (
            succeeded(self.state, keys("k1"), self.now)
            if ok
            else failed(self.state, "down", self.now)
        )

    @invariant()
    def fetches_keep_their_distance(self) -> None:
        gaps = [b - a for a, b in itertools.pairwise(self.begun_at)]
        assert all(gap >= LIMITS.backoff_s_min - 1e-6 for gap in gaps)

    @invariant()
    def old_keys_are_never_used(self) -> None:
        if age_of(self.state, LIMITS, self.now) is not Age.UNUSABLE:
            assert self.state.keys is not None
            assert self.now - self.state.fetched_at < LIMITS.stale_s_max


TestIssuerLife = IssuerLife.TestCase
TestIssuerLife.settings = settings(max_examples=50, stateful_step_count=30)
