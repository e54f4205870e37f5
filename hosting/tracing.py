"""Spans for OpenTelemetry, exported by OTLP where a service is told to; else nothing is imported.

Sidegate continues traces and begins none: where a request or a message carries no sampled W3C
trace context, nothing is recorded and nothing costs. May import the OpenTelemetry SDK, when it
starts. Must never know what a service does.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import urlsplit

from hosting.lifecycle import StartError
from hosting.trace_context import TraceContext

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import SpanContext, Tracer

Kind = Literal["server", "client", "producer", "consumer"]
LINKS_MAX: Final = 128
"""Traces that one request for many messages is linked to: the SDK keeps no more of them."""
FLUSH_MS_MAX: Final = 2000
"""What a stopping service waits for the collector: less than the time that its drain may take."""


@dataclass(frozen=True, slots=True)
class TracingConfig:
    """Where spans go."""

    otlp: str
    """The collector's address for OTLP over HTTP, such as http://127.0.0.1:4318/v1/traces."""

    def problems(self) -> Iterator[tuple[str, str]]:
        """It must be an address."""
        parts = urlsplit(self.otlp)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            yield "otlp", "must be a URL such as http://127.0.0.1:4318/v1/traces"


class Tracing:
    """One service's spans. A component; without a configuration it does nothing at all."""

    name = "tracing"

    def __init__(self, service: str, config: TracingConfig | None) -> None:
        self._service = service
        self._config = config
        self._provider: TracerProvider | None = None
        self._tracer: Tracer | None = None

    @property
    def active(self) -> bool:
        """True where spans are recorded."""
        return self._tracer is not None

    async def start(self) -> None:
        """Import the SDK and get ready, where there is a configuration."""
        if self._config is None:
            return
        try:
            self._provider = _provider(self._service, self._config.otlp)
        except ImportError as error:
            raise StartError(
                f"tracing.otlp needs the OpenTelemetry SDK, and {error.name} is missing: "
                "install sidegate[tracing], or leave `tracing` out"
            ) from error
        self._tracer = self._provider.get_tracer("sidegate", version("sidegate"))

    async def drain(self) -> None:
        """Nothing to do: spans of the last requests are still to come."""

    async def stop(self) -> None:
        """Send what is left."""
        if self._provider is not None:
            provider, self._tracer = self._provider, None
            await asyncio.to_thread(provider.force_flush, FLUSH_MS_MAX)
            await asyncio.to_thread(provider.shutdown)

    @contextmanager
    def span(
        self,
        name: str,
        kind: Kind,
        parent: TraceContext | None,
        *,
        links: Iterable[TraceContext] = (),
        attributes: Mapping[str, str | int] | None = None,
    ) -> Iterator[TraceContext | None]:
        """Record what happens inside; yields the context that others are to be called with.

        That is the parent's own where nothing is recorded, so that a trace is passed on by
        services that do not take part in it. An exception marks the span and goes on.
        """
        if self._tracer is None or parent is None or not parent.sampled:
            yield parent
            return
        from opentelemetry import trace  # noqa: PLC0415 - only where it is configured

        span = self._tracer.start_span(
            name,
            context=trace.set_span_in_context(trace.NonRecordingSpan(_remote(parent))),
            kind=trace.SpanKind[kind.upper()],
            attributes=attributes,
            links=[trace.Link(_remote(one)) for one in list(links)[:LINKS_MAX]],
        )
        with trace.use_span(span, end_on_exit=True):
            own = span.get_span_context()
            yield TraceContext(own.trace_id, own.span_id, sampled=True, state=parent.state)


def _provider(service: str, otlp: str) -> "TracerProvider":
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
        OTLPSpanExporter,
    )
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    from opentelemetry.sdk.trace.sampling import ALWAYS_ON  # noqa: PLC0415

    resource = Resource.create(
        {"service.name": f"sidegate-{service}", "service.version": version("sidegate")}
    )
    # Whether a trace is sampled was decided where it began; `span` asks its parent.
    provider = TracerProvider(sampler=ALWAYS_ON, resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=otlp)))
    return provider


def _remote(context: TraceContext) -> "SpanContext":
    from opentelemetry import trace  # noqa: PLC0415

    return trace.SpanContext(
        context.trace_id,
        context.span_id,
        is_remote=True,
        trace_flags=trace.TraceFlags(int(context.sampled)),
        trace_state=trace.TraceState.from_header([context.state] if context.state else []),
    )
