"""Options: what is understood, and that every problem is named at once."""

import pytest

from spark.options import BadOptions, Bounds, Options, parse_options, parse_time


def test_a_path_is_enough_and_verification_is_on() -> None:
    assert parse_options({"path": "log"}) == Options("log")
    assert parse_options({"path": "log"}).verify == "hash"


def test_bounds_are_offsets_or_times_and_topics_a_list() -> None:
    options = parse_options(
        {"path": "log", "topics": "orders.eu, _audit", "from": "10", "to": "2026-01-01T00:00:00Z"}
    )
    assert options.bounds == Bounds(
        frozenset({"orders.eu", "_audit"}), first_offset=10, until_us=1_767_225_600_000_000
    )
    assert parse_options({"path": "l", "from": "earliest", "to": "latest"}).bounds == Bounds()


def test_names_are_taken_in_any_case_as_spark_gives_them() -> None:
    assert parse_options({"PATH": "log", "Verify": "tree"}).verify == "tree"


def test_every_problem_is_named_at_once() -> None:
    with pytest.raises(BadOptions) as raised:
        parse_options(
            {
                "colums": "topic",
                "from": "yesterday",
                "verify": "yes",
                "topics": "a..b",
                "split_bytes": "1",
            }
        )
    text = str(raised.value)
    for part in ("colums: there is no such", "path: name", "from: 'yesterday'", "verify: 'yes'"):
        assert part in text
    assert "topics: 'a..b' has an empty segment" in text
    assert "split_bytes: '1' is not a whole number of at least 4096" in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01", 0),
        ("1970-01-01T00:00:00.000001Z", 1),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1969-12-31T23:59:59Z", -1_000_000),
    ],
)
def test_a_time_is_exact_and_utc_where_it_names_no_zone(text: str, expected: int) -> None:
    assert parse_time(text) == expected
