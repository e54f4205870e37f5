"""Tokens are renewed in time, and not by all sidecars in the same second."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.uplink.token_schedule import JITTER, REFRESH_AT, TokenLife


def test_the_next_token_is_fetched_at_three_quarters_of_the_life():
    assert TokenLife(100.0, 500.0).refresh_at(0.5) == 400.0


@given(st.floats(0, 1e9), st.floats(1, 1e6), st.floats(0, 1))
def test_jitter_stays_within_its_bounds_and_before_the_end(received_at, life_s, chance):
    life = TokenLife(received_at, received_at + life_s)
    moment = life.refresh_at(chance)
    slack = 1e-6 * max(received_at, 1.0)
    assert moment >= received_at + life_s * (REFRESH_AT - JITTER) - slack
    assert moment <= received_at + life_s * (REFRESH_AT + JITTER) + slack
    assert moment < life.expires_at


def test_chance_spreads_the_moment():
    life = TokenLife(0.0, 100.0)
    assert life.refresh_at(0.0) == pytest.approx(70.0)
    assert life.refresh_at(1.0) == pytest.approx(80.0)


def test_a_token_is_over_from_its_end_on():
    life = TokenLife(0.0, 10.0)
    assert not life.is_over(9.99)
    assert life.is_over(10.0)
