"""A polite rate holds on average, and a rest earns one second's worth and no more."""

from hypothesis import given
from hypothesis import strategies as st

from sidecar.spool.pace import Pace


def test_a_seconds_worth_goes_at_once_and_the_rest_waits():
    pace = Pace(100)
    assert pace.delay_s(100, now=5.0) == 0.0
    assert pace.delay_s(50, now=5.0) == 0.5
    assert pace.delay_s(0, now=5.5) == 0.0


def test_a_long_rest_earns_one_seconds_worth_alone():
    pace = Pace(100)
    pace.delay_s(100, now=0.0)
    assert pace.delay_s(100, now=1000.0) == 0.0
    assert pace.delay_s(100, now=1000.0) == 1.0


def test_a_clock_that_steps_back_earns_nothing():
    pace = Pace(100)
    pace.delay_s(100, now=10.0)
    assert pace.delay_s(100, now=5.0) == 1.0


@given(st.lists(st.tuples(st.integers(0, 500), st.floats(0, 3)), min_size=1, max_size=40))
def test_whoever_waits_as_told_never_exceeds_the_rate(steps):
    pace, now, sent = Pace(100), 0.0, 0
    for size, idle in steps:
        now += idle
        now += pace.delay_s(size, now)
        sent += size
        assert sent <= 100 * (now + 1.0) + 1e-3
