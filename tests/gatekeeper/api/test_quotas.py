import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatekeeper.api.quotas import BURST_S, STREAM_RETRY_S, UNLIMITED, Limits, OverQuota, Quotas
from log_format.limits import RECORDS_MAX

LIMITS = Limits(messages_per_s=200, bytes_per_s=1000, streams=2)


def take(
    quotas: Quotas, messages: int, size: int = 0, now: float = 0.0, who: str = "a"
) -> OverQuota | None:
    return quotas.take(who, LIMITS, messages=messages, size=size, now=now)


def test_a_second_of_the_rate_passes_at_once_and_no_more() -> None:
    quotas = Quotas()
    assert take(quotas, 150) is None
    assert take(quotas, 50) is None
    over = take(quotas, 1)
    assert over == OverQuota("messages_per_s", 200, pytest.approx(1 / 200))


def test_the_bucket_fills_at_its_rate_and_never_above_one_second() -> None:
    quotas = Quotas()
    assert take(quotas, 200) is None
    assert take(quotas, 101, now=0.5) is not None
    assert take(quotas, 100, now=0.5) is None
    assert take(quotas, 200, now=1000.0) is None
    assert take(quotas, 1, now=1000.0) is not None


def test_bytes_count_as_messages_do_and_the_longer_wait_is_told() -> None:
    quotas = Quotas()
    assert take(quotas, 200, size=1000) is None
    over = take(quotas, 1, size=500)
    assert over == OverQuota("bytes_per_s", 1000, pytest.approx(0.5))
    over = take(quotas, 200, size=1)
    assert over == OverQuota("messages_per_s", 200, pytest.approx(1.0))


def test_a_refused_batch_takes_nothing() -> None:
    quotas = Quotas()
    assert take(quotas, 1, size=1000) is None
    for _ in range(10):
        assert take(quotas, 100, size=1) is not None
    assert take(quotas, 199, size=0) is None


def test_a_batch_above_the_burst_passes_when_the_bucket_is_full_and_leaves_a_debt() -> None:
    quotas = Quotas()
    assert take(quotas, 1000) is None
    over = take(quotas, 1)
    assert over is not None
    assert over.retry_after_s == pytest.approx(801 / 200)
    assert take(quotas, 1, now=4.0) is not None
    assert take(quotas, 1, now=4.006) is None


def test_another_large_batch_waits_until_the_bucket_is_full_again() -> None:
    quotas = Quotas()
    assert take(quotas, 1000) is None
    over = take(quotas, 1000)
    assert over is not None
    assert over.retry_after_s == pytest.approx(5.0)
    assert take(quotas, 1000, now=5.0) is None


def test_a_rate_below_one_lets_one_message_pass_in_its_time() -> None:
    limits = Limits(messages_per_s=0.5)
    quotas = Quotas()
    assert quotas.take("a", limits, messages=1, size=0, now=0.0) is None
    over = quotas.take("a", limits, messages=1, size=0, now=0.0)
    assert over is not None
    assert over.retry_after_s == pytest.approx(2.0)
    assert quotas.take("a", limits, messages=1, size=0, now=2.0) is None


@given(
    rate=st.floats(0.01, 1e9),
    costs=st.lists(st.integers(1, RECORDS_MAX), min_size=1, max_size=20),
)
def test_whoever_waits_as_told_passes_and_the_rate_holds(rate: float, costs: list[int]) -> None:
    quotas = Quotas()
    limits = Limits(messages_per_s=rate)
    now = 0.0
    sent = 0
    for cost in costs:
        over = quotas.take("a", limits, messages=cost, size=0, now=now)
        if over is not None:
            assert over.retry_after_s > 0
            now += over.retry_after_s
            assert quotas.take("a", limits, messages=cost, size=0, now=now) is None
        # What was sent before this batch, and a burst: never more than the rate allows.
        assert sent <= rate * (now + BURST_S) * (1 + 1e-6) + max(costs)
        sent += cost


def test_a_clock_that_steps_back_gives_nothing_and_breaks_nothing() -> None:
    quotas = Quotas()
    assert take(quotas, 200, now=100.0) is None
    assert take(quotas, 1, now=50.0) is not None
    assert take(quotas, 100, now=100.5) is None
    assert take(quotas, 1, now=100.5) is not None


def test_principals_do_not_share_a_bucket() -> None:
    quotas = Quotas()
    assert take(quotas, 200) is None
    assert take(quotas, 200, who="b") is None


def test_without_limits_nothing_is_counted() -> None:
    quotas = Quotas()
    for _ in range(5):
        assert quotas.take("a", UNLIMITED, messages=10**9, size=10**9, now=0.0) is None
    assert len(quotas) == 0


def test_a_limit_that_changes_holds_from_then_on() -> None:
    quotas = Quotas()
    wide, narrow = Limits(messages_per_s=1000), Limits(messages_per_s=10)
    assert quotas.take("a", wide, messages=500, size=0, now=0.0) is None
    assert quotas.take("a", narrow, messages=10, size=0, now=0.0) is None
    assert quotas.take("a", narrow, messages=1, size=0, now=0.0) is not None


def test_a_limit_that_was_lifted_and_set_again_goes_on() -> None:
    quotas = Quotas()
    assert take(quotas, 200, size=1000) is None
    only_bytes = Limits(bytes_per_s=1000)
    assert quotas.take("a", only_bytes, messages=10**6, size=1000, now=1.0) is None
    assert take(quotas, 200, size=0, now=1.0) is None


def test_the_principal_that_sent_least_recently_is_forgotten_first() -> None:
    quotas = Quotas(accounts_max=2)
    for who in ("a", "b"):
        assert take(quotas, 200, who=who) is None
    assert take(quotas, 1, who="a") is not None
    assert take(quotas, 1, who="c") is None
    assert len(quotas) == 2
    assert take(quotas, 1, who="a") is not None
    assert take(quotas, 200, who="b") is None
    assert len(quotas) == 2


def test_streams_are_counted_while_they_are_open() -> None:
    quotas = Quotas()
    assert quotas.open_stream("a", LIMITS) is None
    assert quotas.open_stream("a", LIMITS) is None
    assert quotas.open_stream("a", LIMITS) == OverQuota("streams", 2, STREAM_RETRY_S)
    assert quotas.open_stream("b", LIMITS) is None
    assert quotas.streams_of("a") == 2
    quotas.close_stream("a")
    assert quotas.open_stream("a", LIMITS) is None
    assert quotas.open_stream("a", UNLIMITED) is None
    assert quotas.streams_of("a") == 3


def test_a_stream_is_closed_once() -> None:
    quotas = Quotas()
    quotas.open_stream("a", LIMITS)
    quotas.close_stream("a")
    assert quotas.streams_of("a") == 0
    with pytest.raises(ValueError, match="no open stream"):
        quotas.close_stream("a")


def test_a_refusal_names_the_limit_and_the_next_step() -> None:
    over = OverQuota("messages_per_s", 200.0, 0.25)
    assert over.text == (
        "over the quota messages_per_s = 200 on this gatekeeper; try again in 0.25 s"
    )
