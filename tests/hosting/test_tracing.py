"""Spans continue a trace where they are configured; where not, nothing is imported."""

import subprocess
import sys
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from hosting.trace_context import TraceContext
from hosting.tracing import Tracing, TracingConfig

PARENT = TraceContext(0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7, True, "vendor=1")


async def test_a_span_is_its_parents_child_and_reaches_the_collector(collector: Any) -> None:
    tracing = Tracing("core", TracingConfig(collector.url))
    await tracing.start()
    other = TraceContext(7, 8, True)
    with tracing.span(
        "append", "server", PARENT, links=[other], attributes={"messages": 3}
    ) as context:
        assert context is not None
    await tracing.stop()
    ((service, span),) = collector.received
    assert (service, span.name, span.kind) == ("sidegate-core", "append", Span.SPAN_KIND_SERVER)
    assert int.from_bytes(span.trace_id) == PARENT.trace_id == context.trace_id
    assert int.from_bytes(span.parent_span_id) == PARENT.span_id
    assert int.from_bytes(span.span_id) == context.span_id
    assert [int.from_bytes(link.trace_id) for link in span.links] == [7]
    assert span.trace_state == context.state == "vendor=1"


async def test_an_error_inside_marks_the_span_and_goes_on(collector: Any) -> None:
    tracing = Tracing("core", TracingConfig(collector.url))
    await tracing.start()

    def fail() -> None:
        with tracing.span("append", "server", PARENT):
            raise ValueError("the disk is full")

    with pytest.raises(ValueError, match="the disk is full"):
        fail()
    await tracing.stop()
    assert collector.received[0][1].status.message.endswith("the disk is full")


@pytest.mark.parametrize("parent", [None, TraceContext(1, 2, False)])
async def test_nothing_is_recorded_of_what_is_not_sampled(
    collector: Any, parent: TraceContext | None
) -> None:
    tracing = Tracing("core", TracingConfig(collector.url))
    await tracing.start()
    with tracing.span("append", "server", parent) as context:
        assert context is parent
    await tracing.stop()
    assert collector.received == []


async def test_without_a_configuration_a_trace_is_passed_on_unchanged() -> None:
    tracing = Tracing("core", None)
    await tracing.start()
    assert not tracing.active
    with tracing.span("append", "server", PARENT) as context:
        assert context is PARENT
    await tracing.stop()


def test_nothing_of_opentelemetry_is_imported_by_the_services() -> None:
    modules = "core_log.service, gatekeeper.service, sidecar.service, hosting.tracing"
    code = f"import sys, {modules}; print([m for m in sys.modules if 'opentelemetry' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("otlp", ["", "collector:4318", "ftp://collector"])
def test_an_address_that_is_none_is_named(otlp: str) -> None:
    assert [key for key, _ in TracingConfig(otlp).problems()] == ["otlp"]
