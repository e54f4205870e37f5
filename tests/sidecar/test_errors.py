"""Errors carry what the answer needs, and know no HTTP status."""

import pytest

from sidecar.errors import BadQuery, Denied, retry_after


def test_an_error_brings_its_members_and_headers():
    error = Denied("no", members={"decision_id": "d"}, headers={"Retry-After": "1"})
    assert str(error) == "no"
    assert error.members == {"decision_id": "d"}
    assert error.headers == {"Retry-After": "1"}
    assert Denied("no").members == Denied("no").headers == {}


def test_a_bad_parameter_is_named_in_the_text_and_as_a_member():
    error = BadQuery("limit", "is not a number")
    assert str(error) == "limit: is not a number"
    assert error.members == {"field": "limit"}


@pytest.mark.parametrize(
    ("seconds", "value"), [(0.0, "1"), (0.05, "1"), (1.0, "1"), (1.01, "2"), (59.5, "60")]
)
def test_retry_after_is_whole_seconds_rounded_up_and_at_least_one(seconds, value):
    assert retry_after(seconds) == {"Retry-After": value}
