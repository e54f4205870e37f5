"""A message carries its trace among its headers, and requests are linked to those they carry."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosting.trace_context import TraceContext
from hosting.tracing import LINKS_MAX
from sidecar.publish.message import Message, encode_headers
from sidecar.publish.message_trace import trace_of, traced, traces_of

CONTEXT = TraceContext(7, 8, True, "vendor=1")


def batch(*messages: Message) -> Any:
    return SimpleNamespace(entries=[SimpleNamespace(payload=message) for message in messages])


def test_a_message_is_given_its_requests_trace_and_keeps_its_other_headers() -> None:
    message = Message("orders", b"1", 0, headers=encode_headers({"a": "b", "traceparent": "old"}))
    with_trace = traced(message, CONTEXT)
    assert trace_of(with_trace.headers) == CONTEXT
    assert b'"a":"b"' in (with_trace.headers or b"")
    assert traced(message, None) is message


@pytest.mark.parametrize(
    "headers",
    [
        None,
        b"{}",
        b'{"a":"traceparent"}',
        b'["traceparent"]',
        b'{"traceparent":1}',
        b'"traceparent"{',
    ],
)
def test_headers_without_a_trace_have_none(headers: bytes | None) -> None:
    assert trace_of(headers) is None


@given(st.binary())
def test_no_bytes_are_an_error(headers: bytes) -> None:
    trace_of(headers + b'"traceparent"')


def test_a_requests_traces_are_those_of_its_messages_in_order_and_not_too_many() -> None:
    plain = Message("orders", b"1", 0)
    ours = [traced(plain, TraceContext(number, 1, True)) for number in range(1, 400)]
    found = traces_of([batch(plain, ours[0]), batch(*ours[1:])])
    assert [one.trace_id for one in found] == list(range(1, LINKS_MAX + 2))
    assert traces_of([batch(plain)]) == []
