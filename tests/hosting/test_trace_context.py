"""A trace context is read as W3C writes it, and ignored where it is not one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosting.trace_context import TraceContext, parse_trace_context

GOOD = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_the_recommendations_own_example_is_read_and_written() -> None:
    context = parse_trace_context(GOOD, "congo=t61rcWkgMzE")
    assert context is not None
    assert context.traceparent == GOOD
    assert (context.sampled, context.state) == (True, "congo=t61rcWkgMzE")


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "00",
        GOOD.upper(),
        GOOD[:-1],
        GOOD + "-x",
        "ff" + GOOD[2:],
        "00-" + "0" * 32 + GOOD[35:],
        GOOD[:36] + "0" * 16 + GOOD[52:],
        GOOD + "\n",
        GOOD.replace("-", "_"),
    ],
)
def test_what_is_none_is_ignored(text: str | None) -> None:
    assert parse_trace_context(text) is None


def test_a_newer_version_is_read_as_far_as_it_is_known() -> None:
    context = parse_trace_context("01" + GOOD[2:] + "-more")
    assert context is not None
    assert context.traceparent == GOOD


@pytest.mark.parametrize("state", ["x" * 513, "a=\x7f", "a=ü"])
def test_a_state_that_can_not_travel_is_dropped_and_the_trace_is_not(state: str) -> None:
    context = parse_trace_context(GOOD, state)
    assert context is not None
    assert context.state == ""


@given(st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1), st.booleans())
def test_what_is_written_is_read_again(trace_id: int, span_id: int, sampled: bool) -> None:
    context = TraceContext(trace_id, span_id, sampled)
    assert parse_trace_context(context.traceparent) == context


@given(st.text())
def test_no_text_is_an_error(text: str) -> None:
    parse_trace_context(text, text)
