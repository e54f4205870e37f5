"""The trace that a message belongs to: it travels among the message's own headers. Pure.

From there it reaches whoever receives the message, whichever way and however late. One request
carries messages of many traces: it continues the first and is linked to the others.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import orjson

from hosting.trace_context import TRACEPARENT, TRACESTATE, TraceContext, parse_trace_context
from hosting.tracing import LINKS_MAX, Tracing
from log_format.frame import Frame
from sidecar.publish.batch import Batch
from sidecar.publish.message import Message, encode_headers

_NAMED: Final = b'"traceparent"'


def traced(message: Message, context: TraceContext | None) -> Message:
    """The message with this context among its headers; one that it has already is replaced where
    its request says otherwise, since the request is the nearer parent."""
    if context is None:
        return message
    headers = orjson.loads(message.headers) if message.headers else {}
    headers[TRACEPARENT] = context.traceparent
    if context.state:
        headers[TRACESTATE] = context.state
    return message._replace(headers=encode_headers(headers))


def trace_of(headers: bytes | None) -> TraceContext | None:
    """The context in a record's headers column."""
    if headers is None or _NAMED not in headers:
        return None
    try:
        found = orjson.loads(headers)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(found, dict):
        return None
    parent, state = found.get(TRACEPARENT), found.get(TRACESTATE)
    if not isinstance(parent, str):
        return None
    return parse_trace_context(parent, state if isinstance(state, str) else None)


def trace_delivery(tracing: Tracing, frame: Frame, offsets: Sequence[int]) -> None:
    """Record that these messages of a stamped frame were handed to the app."""
    headers = frame.columns().headers
    stamp, topic = frame.envelope.stamp, frame.envelope.producer.topic
    if stamp is None or headers.all_null:
        return
    for offset in offsets:
        parent = trace_of(headers[offset - stamp.base_offset])
        with tracing.span(f"deliver {topic}", "consumer", parent, attributes={"offset": offset}):
            pass


def traces_of(batches: Iterable[Batch]) -> list[TraceContext]:
    """The traces that the messages of these batches belong to, in order, as many as are kept."""
    found: list[TraceContext] = []
    for batch in batches:
        for entry in batch.entries:
            payload = entry.payload
            if isinstance(payload, Message) and payload.headers is not None:
                context = trace_of(payload.headers)
                if context is not None:
                    found.append(context)
                    if len(found) > LINKS_MAX:
                        return found
    return found
