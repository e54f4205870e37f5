"""The fast way for appends: a sidecar's `POST /v1/append` without aiohttp's layers.

Every batch passes here, and for a small one aiohttp's parsing and answering cost more than the
decision. Only the head that a sidecar writes is understood; whatever else comes is the dispatch's
to serve or to refuse. Who calls, and whether they may, is asked of the same gate, for each request.
"""

import asyncio
import re
import secrets
import time
from dataclasses import dataclass
from typing import Final, cast

from aiohttp import web

from gatekeeper.api.connections import Connection, Connections
from gatekeeper.api.gate import Gate
from gatekeeper.api.intake import Intake
from gatekeeper.api.problems import PROBLEMS
from gatekeeper.api.publishing import Publishing
from gatekeeper.config import LimitsConfig
from gatekeeper.core.upstream import FRAMES_TYPE
from gatekeeper.errors import Overloaded
from gatekeeper.metrics import GateMetrics
from hosting.front import Front, FrontConnection
from hosting.logs import request_id
from hosting.problems import refusal_for
from hosting.trace_context import TraceContext, parse_trace_context
from hosting.tracing import Tracing

ROUTE: Final = "append"
_HEAD: Final = re.compile(
    rb"POST /v1/append HTTP/1\.1\r\n"
    rb"Host: [!-~]+\r\n"
    rb"(?:traceparent: ([!-~]+)\r\n(?:tracestate: ([ -~]*)\r\n)?)?"
    rb"Authorization: (Bearer [!-~]+)\r\n"
    rb"Content-Type: " + re.escape(FRAMES_TYPE.encode()) + rb"\r\n"
    rb"Content-Length: ([0-9]{1,10})"
)
"""Exactly what a sidecar sends, in its order. Written otherwise, a request is aiohttp's."""


@dataclass(frozen=True, slots=True)
class AppendPlan:
    """What a head asks for. Its bytes have their room until it is answered, or will not come."""

    content_length: int
    authorization: str
    trace: TraceContext | None

    def __repr__(self) -> str:
        return f"<AppendPlan of {self.content_length} bytes>"


def parse_append_head(head: bytes) -> AppendPlan | None:
    """The plan for a head, or None where it is not for this path. Pure."""
    match = _HEAD.fullmatch(head)
    if match is None:
        return None
    parent, state, authorization, length = match.groups()
    trace = None
    if parent is not None:
        trace = parse_trace_context(parent.decode(), None if state is None else state.decode())
    return AppendPlan(int(length), authorization.decode(), trace)


class FastAppend(Front[AppendPlan]):
    """Makes the connections of the listener."""

    name = "fast append"

    def __init__(
        self,
        publishing: Publishing,
        *,
        gate: Gate,
        connections: Connections,
        intake: Intake,
        metrics: GateMetrics,
        tracing: Tracing,
        limits: LimitsConfig,
    ) -> None:
        super().__init__(
            begins=b"POST /v1/append",
            connections_max=limits.connections_max,
            draining=asyncio.Event(),
            body_s_max=limits.body_timeout,
            idle_s_max=limits.header_timeout,
        )
        self._publishing = publishing
        self._gate = gate
        self._registry = connections
        self._intake = intake
        self._metrics = metrics
        self._tracing = tracing
        self._bytes_max = limits.request_bytes_max

    def admits(self, transport: asyncio.Transport) -> object | None:
        """Every connection whose handshake is done begins here, and is known from then on."""
        return self._registry.opened(transport, asyncio.get_running_loop().time())

    def lost(self, caller: object) -> None:
        """Forget the connection."""
        self._registry.closed(cast(Connection, caller).transport)

    def plan(self, head: bytes, connection: FrontConnection[AppendPlan]) -> AppendPlan | None:  # noqa: ARG002
        """Plan an append that there is room for."""
        plan = parse_append_head(head)
        if plan is None or plan.content_length > self._bytes_max:
            return None
        try:
            self._intake.take(plan.content_length)
        except Overloaded:
            return None
        return plan

    def dropped(self, plan: AppendPlan) -> None:
        """Its bytes need no room any more."""
        self._intake.give_back(plan.content_length)

    def serve(self, connection: FrontConnection[AppendPlan], plan: AppendPlan, body: bytes) -> None:
        """Append what came."""
        self.begin(self._append(connection, plan, body))

    async def _append(
        self, connection: FrontConnection[AppendPlan], plan: AppendPlan, body: bytes
    ) -> None:
        began = time.perf_counter()
        identity = secrets.token_hex(8)
        request_id.set(identity)
        known = cast(Connection, connection.caller)
        status, last = 200, False
        try:
            caller = await self._gate.admit_on(known, [plan.authorization], identity)
            with self._tracing.span("append", "server", plan.trace) as trace:
                self._publishing.require_sound()
                text = await self._publishing.publish(body, caller, trace)
        except Exception as error:  # noqa: BLE001 - this is where every error ends
            refusal = refusal_for(error, PROBLEMS, identity, method="POST", path="/v1/append")
            # Whoever is refused connects anew: nothing is worth keeping such a connection for.
            status, last = refusal.status, True
            answer = self.encode_response(_closing(refusal))
        else:
            last = self.draining or self._registry.too_old(known, asyncio.get_running_loop().time())
            answer = self.encode(b"200 OK", b"application/json", text, identity, last=last)
        finally:
            self._intake.give_back(plan.content_length)
        self._metrics.answered(ROUTE, status, time.perf_counter() - began)
        connection.answer(answer)
        if last:
            connection.close()


def _closing(refusal: web.Response) -> web.Response:
    refusal.headers["Connection"] = "close"
    if refusal.status == 401:
        # RFC 9110, section 15.5.2: a 401 names a way to authenticate.
        refusal.headers.setdefault("WWW-Authenticate", "Bearer")
    return refusal
