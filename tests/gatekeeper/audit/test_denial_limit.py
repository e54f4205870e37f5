"""Denials: the first ones one by one, the rest as counts, never more memory than agreed."""

from hypothesis import given
from hypothesis import strategies as st

from gatekeeper.audit.denial_limit import (
    OTHERS,
    PRINCIPALS_MAX,
    SAMPLES_MAX,
    SUMMARIES_MAX,
    DenialLimit,
)


def test_a_burst_passes_and_then_the_rate_counts() -> None:
    limit = DenialLimit(per_s=2.0, burst=3)
    assert [limit.admit("a", 0.0) for _ in range(5)] == [True, True, True, False, False]
    assert limit.admit("a", 0.5)
    assert not limit.admit("a", 0.5)


def test_one_principals_flood_costs_another_nothing() -> None:
    limit = DenialLimit(per_s=1.0, burst=1)
    for _ in range(100):
        limit.admit("loud", 0.0)
    assert limit.admit("quiet", 0.0)


@given(st.lists(st.floats(0, 100), min_size=1, max_size=200))
def test_never_more_than_burst_and_rate_allow(times: list[float]) -> None:
    limit = DenialLimit(per_s=2.0, burst=5)
    admitted = sum(limit.admit("a", now) for now in sorted(times))
    assert admitted <= 5 + 2.0 * (max(times) - min(times)) + 1e-6


def test_a_clock_that_goes_back_gives_nothing() -> None:
    limit = DenialLimit(per_s=1.0, burst=1)
    assert limit.admit("a", 100.0)
    assert not limit.admit("a", 0.0)


def test_what_is_not_written_is_counted_with_samples_and_times() -> None:
    limit = DenialLimit(per_s=1.0, burst=1)
    for number in range(10):
        limit.suppress("a", "publish", "no_rule", f"t{number}", 100 + number)
    limit.suppress("a", "subscribe", "no_rule", "t", 5)
    first, second = limit.take_summaries()
    assert (first.count, first.first_us, first.last_us) == (10, 100, 109)
    assert first.topics == [f"t{number}" for number in range(SAMPLES_MAX)]
    assert second.count == 1
    record = first.record("gk")
    assert record["kind"] == "denials"
    assert record["count"] == 10
    assert limit.take_summaries() == []


def test_memory_is_bounded_in_principals_and_in_counts() -> None:
    limit = DenialLimit(per_s=1.0, burst=1)
    for number in range(PRINCIPALS_MAX + 50):
        limit.admit(str(number), 0.0)
    assert limit.admit("0", 0.0), "the one seen longest ago was forgotten"
    for number in range(SUMMARIES_MAX + 50):
        limit.suppress(str(number), "publish", "no_rule", "t", 1)
    summaries = limit.take_summaries()
    assert len(summaries) == SUMMARIES_MAX + 1
    assert summaries[-1].principal == OTHERS
    assert sum(summary.count for summary in summaries) == SUMMARIES_MAX + 50


def test_a_summary_that_could_not_be_written_is_added_to_the_next() -> None:
    limit = DenialLimit(per_s=1.0, burst=1)
    limit.suppress("a", "publish", "no_rule", "t", 10)
    (taken,) = limit.take_summaries()
    limit.suppress("a", "publish", "no_rule", "t", 20)
    limit.restore(taken)
    (whole,) = limit.take_summaries()
    assert (whole.count, whole.first_us, whole.last_us) == (2, 10, 20)
