"""Waits grow, stay below their limit, and are spread over all of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.uplink.backoff import Backoff


def test_the_first_try_does_not_wait():
    assert Backoff().delay_s(0, 1.0) == 0.0


def test_the_wait_doubles_up_to_its_limit():
    waits = [Backoff(0.1, 1.0).delay_s(failures, 1.0) for failures in range(1, 7)]
    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0, 1.0])


@given(st.integers(0, 10**9), st.floats(0, 1), st.floats(0.001, 10), st.floats(0.001, 100))
def test_no_wait_is_negative_or_above_the_limit_however_many_failures(failures, chance, first, top):
    assert 0.0 <= Backoff(first, top).delay_s(failures, chance) <= top


def test_chance_spreads_the_wait_from_nothing_to_all_of_it():
    backoff = Backoff(1.0, 8.0)
    assert backoff.delay_s(3, 0.0) == 0.0
    assert backoff.delay_s(3, 0.5) == 2.0
    assert backoff.delay_s(3, 1.0) == 4.0
