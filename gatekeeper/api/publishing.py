"""POST /v1/append: frames in, one result per frame out.

The shell around `append.py`: reads the body, gives the event loop its turns between signatures,
asks the core once for all frames that are allowed, and puts the results in the request's order.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import orjson
from aiohttp import web

from gatekeeper.api.append import (
    BadAppend,
    Buffer,
    Judged,
    Result,
    judge,
    merge,
    seal_allowed,
    split_frames,
    unavailable,
)
from gatekeeper.api.call import Call, behalf_of
from gatekeeper.api.gate import Caller, Gate
from gatekeeper.api.intake import Intake
from gatekeeper.api.quotas import Quotas
from gatekeeper.core.upstream import FRAMES_TYPE, RETRY_AFTER_S, Answer, CoreClient
from gatekeeper.errors import BadRequest, CoreUnavailable
from gatekeeper.metrics import GateMetrics
from gatekeeper.provenance import Sealer
from hosting.trace_context import (
    TRACEPARENT,
    TRACESTATE,
    TraceContext,
    parse_trace_context,
)
from hosting.tracing import Tracing
from log_format.frame import Frame

SIGNATURES_PER_TURN: Final = 16
"""Batches sealed before other requests get a turn: just under a millisecond of signing."""


class Publishing:
    """The handler of appends. Lives in one event loop."""

    def __init__(
        self,
        *,
        gate: Gate,
        core: CoreClient,
        sealer: Sealer,
        quotas: Quotas,
        intake: Intake,
        metrics: GateMetrics,
        request_bytes_max: int,
        require_sound: Callable[[], None] = lambda: None,
        tracing: Tracing | None = None,
    ) -> None:
        self._gate = gate
        self._core = core
        self._sealer = sealer
        self._quotas = quotas
        self._intake = intake
        self._metrics = metrics
        self._request_bytes_max = request_bytes_max
        self.require_sound = require_sound
        self._tracing = tracing or Tracing("gatekeeper", None)

    async def append(self, call: Call) -> web.StreamResponse:
        """Always 200 once the frames could be read: each frame has its own result, so that one
        request may carry batches of many topics."""
        headers = call.request.headers
        trace = parse_trace_context(headers.get(TRACEPARENT), headers.get(TRACESTATE))
        with self._tracing.span("append", "server", trace) as context:
            self.require_sound()
            if headers.get("Content-Type", "").lower() != FRAMES_TYPE:
                raise BadRequest(f"Content-Type: must be {FRAMES_TYPE}")
            with await self._intake.body(call.request, self._request_bytes_max) as body:
                answer = await self.publish(body, call.caller, context)
        return web.Response(body=answer, content_type="application/json")

    async def publish(self, body: bytes, caller: Caller, trace: TraceContext | None) -> bytes:
        """Judge, seal and forward the frames of a whole body; the answer's JSON."""
        began = time.perf_counter()
        core_s = 0.0
        self._metrics.bytes_in.inc(len(body))
        judged = self._judge(split_frames(body), caller)
        buffers = await self._seal(judged, caller.received_us)
        if buffers:
            asked = time.perf_counter()
            answer = await self._forward(buffers, judged, caller, trace)
            core_s = time.perf_counter() - asked
        else:
            answer = _answer(merge(judged, []))
        self._metrics.appended(core_s, time.perf_counter() - began - core_s)
        return answer

    def _judge(self, frames: Sequence[Frame], caller: Caller) -> list[Judged]:
        limits = self._gate.policy.limits_of(caller.identity)
        now_s = time.monotonic()
        judged = judge(
            frames,
            lambda topic: self._gate.rule_publish(caller, topic),
            lambda principal, messages, size: self._quotas.take(
                principal, limits, messages=messages, size=size, now=now_s
            ),
        )
        for item in judged:
            self._metrics.judged("forwarded" if item.refusal is None else item.refusal["error"])
        return judged

    async def _seal(self, judged: Sequence[Judged], received_us: int) -> list[Buffer]:
        buffers: list[Buffer] = []
        for number, sealed in enumerate(seal_allowed(judged, self._sealer, received_us), 1):
            buffers.extend(sealed)
            if number % SIGNATURES_PER_TURN == 0:
                await asyncio.sleep(0)
        return buffers

    async def _forward(
        self,
        buffers: Sequence[Buffer],
        judged: Sequence[Judged],
        caller: Caller,
        trace: TraceContext | None,
    ) -> bytes:
        forwarded = [item for item in judged if item.refusal is None]
        behalf = replace(behalf_of(caller, forwarded[0].ruling), trace=trace)
        try:
            answer = await self._core.append(buffers, behalf)
        except CoreUnavailable as error:
            return _answer(merge(judged, _none_of(forwarded, str(error))))
        if answer.status == 400:
            raise _translated(answer, judged)
        if answer.status != 200:
            why = f"the core answered {answer.status}; try again"
            return _answer(merge(judged, _none_of(forwarded, why)))
        if len(forwarded) == len(judged):
            return answer.body
        try:
            return _answer(merge(judged, orjson.loads(answer.body)["results"]))
        except (ValueError, LookupError, TypeError):
            why = "the core's answer can't be read; try again"
            return _answer(merge(judged, _none_of(forwarded, why)))


def _answer(results: Sequence[Result]) -> bytes:
    return orjson.dumps({"results": results})


def _none_of(forwarded: Sequence[Judged], why: str) -> list[Result]:
    retry_after_ms = round(RETRY_AFTER_S * 1000)
    return [unavailable(item, why, retry_after_ms) for item in forwarded]


def _translated(answer: Answer, judged: Sequence[Judged]) -> BadAppend:
    """The core's refusal of the whole body, with the number that the frame has for the caller."""
    try:
        problem = orjson.loads(answer.body)
        number, detail = problem.get("frame", 0), str(problem.get("detail", ""))
    except (ValueError, AttributeError):
        number, detail = 0, "the core refused the frames"
    places = [place for place, item in enumerate(judged) if item.refusal is None]
    known = isinstance(number, int) and 0 <= number < len(places)
    return BadAppend(detail, places[number] if known else 0)
