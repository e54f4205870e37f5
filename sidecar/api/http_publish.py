"""One message in one request: `POST /publish`, and `POST /publish/{topic}` with any body.

`POST /publish` comes here only where the fast front does not know the request's head.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

import orjson
from aiohttp import web

from hosting.trace_context import TRACEPARENT, TRACESTATE, parse_trace_context
from hosting.tracing import Tracing
from sidecar.api.api_types import parse_query
from sidecar.api.http_body import app_topic, read_body
from sidecar.api.http_receipt import ReceiptHandlers, require_outcome
from sidecar.api.json_text import is_json
from sidecar.api.publish_types import OnePublishQuery, RawPublishQuery
from sidecar.errors import BadQuery
from sidecar.publish import cloudevents
from sidecar.publish.batch import Ack, Committed, Kept, Outcome
from sidecar.publish.message import (
    HEADERS_BYTES_MAX,
    OCTETS,
    Message,
    bounded,
    encode_content_type,
    parse_publish,
    within,
)
from sidecar.publish.message_trace import traced
from sidecar.publish.publisher import Publisher

AROUND_BYTES_MAX: Final = HEADERS_BYTES_MAX + 32 * 1024
"""What may stand in a body around the message: topic, key, id, headers, white space."""
_FORM: Final = "application/x-www-form-urlencoded"

Check = Callable[[web.Request, str], None]
"""Raises where a request may not publish to a topic from here."""
Patience = Callable[[int | None], float]
"""From `timeout_ms`, or its absence, to seconds; BadQuery where it is too long."""


def make_patience(timeout_s: float, timeout_s_max: float) -> Patience:
    """How long publishes wait, by these limits."""

    def patience(timeout_ms: int | None) -> float:
        if timeout_ms is None:
            return timeout_s
        if timeout_ms > timeout_s_max * 1000:
            raise BadQuery(
                "timeout_ms", f"is above limits.timeout_max, {timeout_s_max * 1000:.0f} ms"
            )
        return timeout_ms / 1000

    return patience


class PublishHandlers:
    """The handlers that take one message."""

    def __init__(
        self,
        publisher: Publisher,
        patience: Patience,
        message_bytes_max: int,
        check: Check,
        receipts: ReceiptHandlers,
        tracing: Tracing | None = None,
    ) -> None:
        self._publisher = publisher
        self._receipts = receipts
        self._tracing = tracing or Tracing("sidecar", None)
        self._check = check
        self._patience = patience
        self._message_bytes_max = message_bytes_max
        # In base64 a message is a third longer.
        self.body_bytes_max = message_bytes_max * 4 // 3 + AROUND_BYTES_MAX

    async def publish(self, request: web.Request) -> web.Response:
        """A message in its envelope."""
        query = parse_query(request.query, OnePublishQuery)
        timeout_s = self._patience(query.timeout_ms)
        body = await read_body(request, self.body_bytes_max)
        message = parse_publish(body, time.time_ns() // 1000, self._message_bytes_max)
        self._check(request, message.topic)
        return await self._answer(request, message, query, timeout_s)

    async def publish_raw(self, request: web.Request) -> web.Response:
        """The body is the message; CloudEvents are understood."""
        topic = app_topic(request)
        self._check(request, topic)
        query = parse_query(request.query, RawPublishQuery)
        timeout_s = self._patience(query.timeout_ms)
        message = await self._raw_message(request, topic, query)
        return await self._answer(request, message, query, timeout_s)

    async def _answer(
        self, request: web.Request, message: Message, query: OnePublishQuery, timeout_s: float
    ) -> web.Response:
        ack = Ack(query.ack)
        if query.receipt == "1":
            require_outcome(ack)
        until = asyncio.get_running_loop().time() + timeout_s
        parent = parse_trace_context(
            request.headers.get(TRACEPARENT), request.headers.get(TRACESTATE)
        )
        with self._tracing.span(f"publish {message.topic}", "producer", parent) as context:
            outcome = await self._publisher.publish(traced(message, context), ack, timeout_s)
            if query.receipt == "1":
                return await self._receipts.answer(outcome, until)
            return _response(outcome)

    async def _raw_message(
        self, request: web.Request, topic: str, query: RawPublishQuery
    ) -> Message:
        now_us = time.time_ns() // 1000
        if request.content_type == cloudevents.STRUCTURED:
            body = await read_body(request, self.body_bytes_max)
            message = cloudevents.from_structured(topic, body, now_us)
            # The body may be larger, since base64 and attributes stand in it too.
            return within(message, self._message_bytes_max)
        body = await read_body(request, self._message_bytes_max)
        if cloudevents.is_binary(request.headers):
            return cloudevents.from_binary(topic, request.headers, body, now_us)
        given = request.headers.get("Content-Type")
        # curl says "form" where it was told nothing; then JSON is found by looking.
        content_type = None if given is None or given == _FORM else encode_content_type(given)
        if content_type is None and not is_json(body):
            content_type = OCTETS
        return Message(
            topic,
            body,
            now_us,
            bounded("key", query.key),
            bounded("id", query.id) or None,
            content_type,
        )


def _response(outcome: Outcome) -> web.Response:
    status, body = outcome_json(outcome)
    return web.Response(status=status, body=body, content_type="application/json")


def outcome_json(outcome: Outcome) -> tuple[int, bytes]:
    """Status and body for a message that was taken."""
    if isinstance(outcome, Committed):
        return 200, orjson.dumps(outcome._asdict())
    if isinstance(outcome, Kept):
        return 202, orjson.dumps(outcome._asdict())
    raise outcome
