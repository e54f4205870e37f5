"""The core's HTTP application: the `/v1` routes, and nothing that decides.

Each handler reads a request, calls what does the work, and writes the answer down. Errors end in
the table of `problems`; who may call at all is `admission`'s business, before any of this.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from aiohttp import web

from core_log.api import intake
from core_log.api.admission import Admission, admission_middleware
from core_log.api.append import Appender
from core_log.api.channel_routes import ChannelRoutes
from core_log.api.problems import TABLE
from core_log.api.proof_routes import ProofRoutes
from core_log.api.query import Query
from core_log.api.reading import Reads, headers_of, parse_read
from core_log.api.request_body import Bodies
from core_log.api.revocation_routes import RevocationRoutes
from core_log.api.stream_route import StreamRoute
from core_log.api.subscription_routes import SubscriptionRoutes
from core_log.api.topic_routes import TopicRoutes
from core_log.api.wire import FRAMES_TYPE, cause_of, json_response
from hosting.problems import error_middleware
from hosting.trace_context import TRACEPARENT, TRACESTATE, parse_trace_context
from hosting.tracing import Tracing
from hosting.web import DRAINING


@dataclass(frozen=True, slots=True)
class Api:
    """What the routes call."""

    appender: Appender
    bodies: Bodies
    reads: Reads
    streams: StreamRoute
    topics: TopicRoutes
    revocations: RevocationRoutes
    proofs: ProofRoutes
    subscriptions: SubscriptionRoutes
    channels: ChannelRoutes
    status: Callable[[], Mapping[str, object]]
    tracing: Tracing

    async def append(self, request: web.Request) -> web.Response:
        """`POST /v1/append`: frames in, one result per frame out."""
        if request.query_string:
            Query(request.query.items()).finish()
        trace = parse_trace_context(
            request.headers.get(TRACEPARENT), request.headers.get(TRACESTATE)
        )
        with self.tracing.span("append", "server", trace):
            async with self.bodies.read(request, intake.REQUEST_BYTES_MAX) as body:
                outcomes = await self.appender.append(body, cause_of(request))
        return json_response(intake.answer_json(outcomes))

    async def read(self, request: web.Request) -> web.Response:
        """`GET /v1/read`: frames out."""
        answer = await self.reads.read(parse_read(request.query.items()))
        return web.Response(
            body=b"".join(answer.frames), content_type=FRAMES_TYPE, headers=headers_of(answer)
        )

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """`GET /v1/stream`: a WebSocket."""
        Query(request.query.items()).finish()
        return await self.streams.serve(request, cause_of(request))

    async def show_status(self, request: web.Request) -> web.Response:
        """`GET /v1/status`: the core at a glance."""
        Query(request.query.items()).finish()
        return json_response(self.status())


def make_app(api: Api, admission: Admission, draining: asyncio.Event) -> web.Application:
    """The application. Its middlewares cover every path, also those that do not exist."""
    app = web.Application(middlewares=[error_middleware(TABLE), admission_middleware(admission)])
    app[DRAINING] = draining
    app.router.add_post("/v1/append", api.append)
    app.router.add_get("/v1/read", api.read, allow_head=False)
    app.router.add_get("/v1/stream", api.stream, allow_head=False)
    app.router.add_get("/v1/status", api.show_status)
    api.topics.add_to(app)
    api.revocations.add_to(app)
    api.proofs.add_to(app)
    api.subscriptions.add_to(app)
    api.channels.add_to(app)
    return app
