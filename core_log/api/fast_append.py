"""The fast front of the private API: a gatekeeper's `POST /v1/append` without aiohttp's layers.

Every batch passes here, and for a small one aiohttp's application layer costs more than the append
itself. Only the head that a gatekeeper writes is understood, and only from a connection that
`admission` lets in; whatever else comes is the application's to serve or to refuse.
"""

import asyncio
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import orjson

from core_log.api import intake
from core_log.api.admission import Admission, NotAdmitted, admit_certificate, admit_connection
from core_log.api.append import Appender
from core_log.api.problems import TABLE
from core_log.api.request_body import Bodies, TooManyRequestBytes
from core_log.api.wire import FRAMES_TYPE, named_cause
from core_log.control.control_state import Cause
from hosting.front import Front, FrontConnection
from hosting.logs import request_id
from hosting.metrics import HttpMetrics
from hosting.problems import refusal_for
from hosting.trace_context import TraceContext, parse_trace_context
from hosting.tracing import Tracing
from hosting.web import transport_certificate

ROUTE: Final = "/v1/append"
_HEAD: Final = re.compile(
    rb"POST /v1/append HTTP/1\.1\r\n"
    rb"Host: [!-~]+\r\n"
    rb"Content-Type: " + re.escape(FRAMES_TYPE.encode()) + rb"\r\n"
    rb"Content-Length: ([0-9]{1,10})\r\n"
    rb"Sidegate-Principal: ([ -~]*)\r\n"
    rb"Sidegate-Decision: ([ -~]*)\r\n"
    rb"Sidegate-Request-Id: ([A-Za-z0-9._-]{1,64})"
    rb"(?:\r\ntraceparent: ([!-~]+)(?:\r\ntracestate: ([ -~]*))?)?"
)
"""Exactly what a gatekeeper sends, in its order. Written otherwise, a request is aiohttp's."""


@dataclass(frozen=True, slots=True)
class AppendPlan:
    """What a head asks for. Its bytes are held until it is answered, or will not come."""

    content_length: int
    cause: Cause
    request_id: str
    trace: TraceContext | None


def parse_append_head(head: bytes) -> AppendPlan | None:
    """The plan for a head, or None where it is not for this path. Pure."""
    match = _HEAD.fullmatch(head)
    if match is None:
        return None
    length, principal, decision, identity, parent, state = match.groups()
    if int(length) > intake.REQUEST_BYTES_MAX:
        return None
    trace = None
    if parent is not None:
        trace = parse_trace_context(parent.decode(), None if state is None else state.decode())
    cause = named_cause(principal.decode().strip(), decision.decode().strip())
    return AppendPlan(int(length), cause, identity.decode(), trace)


class FastAppend(Front[AppendPlan]):
    """Makes the connections of the private API's site."""

    name = "fast append"

    def __init__(
        self,
        appender: Appender,
        bodies: Bodies,
        admission: Admission,
        *,
        site: str,
        metrics: HttpMetrics,
        tracing: Tracing,
        connections_max: int,
        draining: asyncio.Event,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        super().__init__(
            begins=b"POST /v1/append", connections_max=connections_max, draining=draining
        )
        self._appender = appender
        self._bodies = bodies
        self._admission = admission
        self._site = site
        self._metrics = metrics
        self._tracing = tracing
        self._now = now

    def admits(self, transport: asyncio.Transport) -> object | None:
        """The caller's certificate, or its user at a Unix socket; None for the site to refuse."""
        try:
            identity = admit_connection(self._admission, transport, self._now())
        except NotAdmitted:
            return None
        return transport_certificate(transport) or identity

    def plan(self, head: bytes, connection: FrontConnection[AppendPlan]) -> AppendPlan | None:
        """Plan an append whose caller is still admitted and whose bytes there is room for."""
        plan = parse_append_head(head)
        if plan is None:
            return None
        try:
            if isinstance(connection.caller, bytes):
                # A connection may outlive its certificate.
                admit_certificate(self._admission, connection.caller, self._now())
            self._bodies.hold(plan.content_length)
        except (NotAdmitted, TooManyRequestBytes):
            return None
        return plan

    def dropped(self, plan: AppendPlan) -> None:
        """Its bytes need no room any more."""
        self._bodies.release(plan.content_length)

    def serve(self, connection: FrontConnection[AppendPlan], plan: AppendPlan, body: bytes) -> None:
        """Append what came."""
        self.begin(self._append(connection, plan, body))

    async def _append(
        self, connection: FrontConnection[AppendPlan], plan: AppendPlan, body: bytes
    ) -> None:
        began = time.monotonic()
        request_id.set(plan.request_id)
        try:
            with self._tracing.span("append", "server", plan.trace):
                outcomes = await self._appender.append(body, plan.cause)
        except Exception as error:  # noqa: BLE001 - this is where every error ends
            refusal = refusal_for(error, TABLE, plan.request_id, method="POST", path=ROUTE)
            status, answer = refusal.status, self.encode_response(refusal)
        else:
            text = orjson.dumps(intake.answer_json(outcomes))
            status = 200
            answer = self.encode(b"200 OK", b"application/json", text, plan.request_id)
        finally:
            self._bodies.release(plan.content_length)
        connection.answer(answer)
        self._metrics.count(self._site, ROUTE, "POST", status, time.monotonic() - began)
