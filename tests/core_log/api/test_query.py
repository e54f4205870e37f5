"""URL parameters: each once, none unknown, all problems at once."""

import pytest

from core_log.api.query import BadQuery, Query


def test_parameters_are_taken_by_name() -> None:
    query = Query([("topic", "orders"), ("offset", "7")])
    assert query.text("topic") == "orders"
    assert query.integer("offset", 0) == 7
    assert query.integer("wait_ms", 5) == 5
    query.finish()


@pytest.mark.parametrize(
    "text", ["", "-1", "1.0", "0x1", "1e3", "\u0669", "99999999999999999", "11"]
)
def test_only_plain_decimals_within_their_limits_are_integers(text: str) -> None:
    query = Query([("n", text)])
    query.integer("n", 0, most=10)
    with pytest.raises(BadQuery, match="n: must be an integer between 0 and 10"):
        query.finish()


def test_repeated_and_unknown_parameters_are_refused_together() -> None:
    query = Query([("a", "1"), ("a", "2"), ("b", "3")])
    query.integer("a", 0)
    with pytest.raises(BadQuery) as caught:
        query.finish()
    assert str(caught.value) == "a: is given twice; b: is not known here; known are a"
