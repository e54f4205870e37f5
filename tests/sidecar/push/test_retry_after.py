"""Retry-After: seconds and dates are understood, nonsense says nothing, nobody waits for ever."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.push.retry_after import RETRY_AFTER_S_MAX, parse_retry_after

NOW_S = 1_445_412_480.0
"""Wed, 21 Oct 2015 07:28:00 GMT."""


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0.0),
        (" 17 ", 17.0),
        ("Wed, 21 Oct 2015 07:28:30 GMT", 30.0),
        ("Wednesday, 21-Oct-15 07:28:30 GMT", 30.0),
        ("Wed Oct 21 07:28:30 2015", 30.0),
        ("Wed, 21 Oct 2015 07:00:00 GMT", 0.0),
        ("9" * 400, RETRY_AFTER_S_MAX),
        ("99999", RETRY_AFTER_S_MAX),
        ("Wed, 21 Oct 2099 07:28:30 GMT", RETRY_AFTER_S_MAX),
    ],
)
def test_seconds_and_dates_are_understood_and_bounded(value, seconds):
    assert parse_retry_after(value, NOW_S) == seconds


@pytest.mark.parametrize("value", [None, "", "soon", "-5", "1.5", "٣", "Wed, 99 Oct 2015 07:28:30"])
def test_what_is_neither_says_nothing(value):
    assert parse_retry_after(value, NOW_S) is None


@given(st.text())
def test_whatever_an_app_sends_the_wait_is_bounded(value):
    wait = parse_retry_after(value, NOW_S)
    assert wait is None or 0 <= wait <= RETRY_AFTER_S_MAX
