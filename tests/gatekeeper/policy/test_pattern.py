import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatekeeper.policy.pattern import (
    PATTERN_CHARS_MAX,
    TEMPLATE_VALUE,
    Pattern,
    Template,
    Wild,
    parse_pattern,
)
from log_format.topic import check_topic

TEAM = Template("corp", "team")


@pytest.mark.parametrize(
    ("text", "segments", "rest"),
    [
        ("orders", ("orders",), False),
        ("orders.eu", ("orders", "eu"), False),
        ("Orders._x.-y", ("Orders", "_x", "-y"), False),
        ("_audit", ("_audit",), False),
        ("_audit.dead", ("_audit", "dead"), False),
        ("*", (Wild.ONE,), False),
        (">", (), True),
        ("orders.*", ("orders", Wild.ONE), False),
        ("*.eu.>", (Wild.ONE, "eu"), True),
        ("team.{corp:team}.>", ("team", TEAM), True),
        ("{corp:team}", (TEAM,), False),
        ("{corp:https://x.y/t}.*", (Template("corp", "https://x.y/t"), Wild.ONE), False),
    ],
)  # fmt: skip
def test_patterns_are_read(text: str, segments: tuple[object, ...], rest: bool) -> None:
    assert parse_pattern(text) == Pattern(text, segments, rest)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("orders.>.x", "must be the last segment"),
        (">.x", "must be the last segment"),
        (">.>", "must be the last segment"),
        ("**", "whole segments"),
        ("orders.**", "whole segments"),
        ("orders*", "whole segments"),
        ("orders.e*", "whole segments"),
        (">>", "whole segments"),
        ("orders.a>", "whole segments"),
        ("*\n", "whole segments"),
        ("> ", "whole segments"),
        ("orders..*", "empty segment"),
        (".*", "empty segment"),
        ("*.", "empty segment"),
        ("orders..eu", "empty segment"),
        ("orders.", "empty segment"),
        ("", 'put quotes around ">"'),
        ("\n", 'put quotes around ">"'),
        ("ord?rs", "not a topic or pattern"),
        ("orders.[ab]", "not a topic or pattern"),
        ("orders.[ab].*", "letters, digits"),
        ("(a|b).*", "letters, digits"),
        ("orders.+.*", "letters, digits"),
        ("orders.#", "not a topic or pattern"),
        ("órders.*", "letters, digits"),
        ("\u043erders", "not a topic or pattern"),
        ("orders.\u0663.*", "letters, digits"),
        ("orders /eu", "not a topic or pattern"),
        ("-orders.*", "begins with a letter or digit"),
        ("_*", "named exactly"),
        ("_audit.*", "named exactly"),
        ("_audit.>", "named exactly"),
        ("_{corp:team}", "named exactly"),
        ("_", "named exactly"),
        ("__audit", "named exactly"),
        ("team.{team}", "a template is a whole segment"),
        ("team.{corp:}", "a template is a whole segment"),
        ("team.{:team}", "a template is a whole segment"),
        ("team.x{corp:team}", "a template is a whole segment"),
        ("team.{corp:team}x", "a template is a whole segment"),
        ("{corp:a}{corp:b}", "a template is a whole segment"),
        ("{{corp:team}}", "a template is a whole segment"),
        ("{corp:team", "a template is a whole segment"),
        ("corp:team}", "a template is a whole segment"),
        ("{corp:te am}", "not a claim's name"),
        ("{corp:t*}", "not a claim's name"),
        ("a" * (PATTERN_CHARS_MAX + 1), "at most"),
    ],
)
def test_everything_else_is_refused_with_what_is_wrong(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        parse_pattern(text)


@given(st.text(max_size=30))
def test_a_pattern_without_wildcards_is_exactly_a_topic_that_the_format_allows(text: str) -> None:
    try:
        pattern = parse_pattern(text)
    except ValueError:
        return
    if pattern.exact and not text.startswith("_"):
        assert check_topic(text) == ".".join(map(str, pattern.segments))


@pytest.mark.parametrize(
    ("pattern", "covered", "not_covered"),
    [
        ("orders.*", ["orders.eu", "orders._x"], ["orders", "orders.eu.x", "Orders.eu", "a.eu"]),
        ("orders.>", ["orders.eu", "orders.eu.x.y"], ["orders", "ordersx.eu"]),
        (">", ["orders", "orders.eu"], []),
        ("*", ["orders"], ["orders.eu"]),
        ("*.eu", ["orders.eu"], ["eu", "orders.us", "a.b.eu"]),
        ("team.{corp:team}.>", ["team.a.b", "team.A.b.c"], ["team.a", "teams.a.b"]),
    ],
)  # fmt: skip
def test_star_is_one_segment_and_the_arrow_is_one_or_more(
    pattern: str, covered: list[str], not_covered: list[str]
) -> None:
    parsed = parse_pattern(pattern)
    assert all(parsed.covers(topic.split(".")) for topic in covered)
    assert not any(parsed.covers(topic.split(".")) for topic in not_covered)


def test_specificity_sorts_names_before_templates_before_stars_before_the_rest() -> None:
    texts = [">", "*.eu", "orders.>", "{corp:t}.eu", "orders.*", "orders.{corp:t}", "orders.eu"]
    ranked = sorted(texts, key=lambda text: parse_pattern(text).specificity)
    assert ranked == [
        "orders.eu", "orders.{corp:t}", "orders.*", "orders.>", "{corp:t}.eu", "*.eu", ">",
    ]  # fmt: skip


def test_templates_know_their_places() -> None:
    pattern = parse_pattern("a.{corp:team}.*.{other:x}.>")
    assert list(pattern.templates) == [(1, TEAM), (3, Template("other", "x"))]


@pytest.mark.parametrize("value", ["", "A", "a.b", "*", ">", "a_b", "a\n", "é", "٣", "a b", "{a}"])
def test_a_template_value_is_one_plain_segment(value: str) -> None:
    assert TEMPLATE_VALUE.fullmatch(value) is None
