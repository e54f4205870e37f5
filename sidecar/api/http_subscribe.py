"""`GET /subscribe/{topic}`: a topic's messages as they come, in the form that the app asks for.

Server-sent events, lines of JSON, or a WebSocket (`http_socket.py`); of the app alone, or as a
member of a durable subscription. What is refused is refused before the first byte of the answer.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import orjson
from aiohttp import web

from hosting.http_protocol import caller_gone
from hosting.tracing import Tracing
from hosting.web import DRAINING
from sidecar.api.api_types import SubscribeQuery, parse_query
from sidecar.api.http_body import any_topic
from sidecar.api.problems import PROBLEMS
from sidecar.counters import Counters
from sidecar.delivery.filter import Filter
from sidecar.delivery.live_topic import LiveTopics
from sidecar.delivery.member import MemberSession, Membership
from sidecar.delivery.member_registry import MemberRegistry
from sidecar.delivery.outflow import Outflow, Sink
from sidecar.delivery.position import encode_position
from sidecar.delivery.shared_reader import SharedReader
from sidecar.delivery.sinks import EventSink, LineSink
from sidecar.delivery.sse import RETRY, encode_position_event
from sidecar.delivery.start import Start, parse_start
from sidecar.delivery.topic_reader import OpenStream, TopicReader
from sidecar.errors import BadQuery, OverQuota, SidecarError, SubscriptionConflict
from sidecar.uplink.directory import Directory

IN_FLIGHT_DEFAULT: Final = 1_000
"""Messages that an app which acknowledges by itself may have in hand."""
LINES: Final = "application/x-ndjson"
_LINE_TYPES: Final = frozenset({LINES, "application/jsonl", "application/ndjson"})
_NEEDS_NAME: Final = ("owner", "mode", "ack", "max_in_flight")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a request asks for, checked."""

    topic: str
    start: Start
    query: SubscribeQuery
    filters: Sequence[Filter]

    @property
    def in_flight_max(self) -> int | None:
        """None where what was handed over counts as processed."""
        if self.query.ack != "manual":
            return None
        return self.query.max_in_flight or IN_FLIGHT_DEFAULT


Reader = TopicReader | SharedReader


class Subscribing:
    """Opens what a request asks for. The ways in differ in what they do with it."""

    def __init__(
        self,
        directory: Directory,
        open_stream: OpenStream,
        open_session: Callable[[Membership], MemberSession],
        registry: MemberRegistry,
        counters: Counters,
        streams_max: int,
        tracing: Tracing,
    ) -> None:
        self.counters = counters
        self.tracing = tracing
        self.streams = 0
        self._directory = directory
        self._open_stream = open_stream
        self._open_session = open_session
        self._registry = registry
        self._streams_max = streams_max
        self._live_topics = LiveTopics({})
        self._sidecar = secrets.token_hex(6)
        self._members = 0

    async def wanted(self, request: web.Request) -> Wanted:
        """What the request asks for, or BadQuery, BadFilter."""
        topic = any_topic(request)
        query = parse_query(request.query, SubscribeQuery)
        start = parse_start(request.query, request.headers.get("Last-Event-ID"))
        filters = [] if query.filter is None else [Filter(query.filter)]
        if query.subscription is None:
            for name in _NEEDS_NAME:
                if getattr(query, name) is not None:
                    raise BadQuery(name, "is for a named subscription; add subscription=NAME")
            await self._refuse_vague(topic, request, start)
        else:
            if query.partition is not None:
                raise BadQuery("partition", "goes with no name: members share all partitions")
            if query.max_in_flight is not None and query.ack != "manual":
                raise BadQuery("max_in_flight", "goes with ack=manual")
        return Wanted(topic, start, query, filters)

    @asynccontextmanager
    async def opened(self, wanted: Wanted) -> AsyncIterator[tuple[Reader, Sequence[Filter]]]:
        """A reader that is open, with the filters that hold, until the block ends."""
        if self.streams >= self._streams_max:
            raise OverQuota(f"limits.streams_max: {self._streams_max} subscriptions are open")
        self.streams += 1
        try:
            if wanted.query.subscription is None:
                reader = TopicReader(
                    self._open_stream, self._live_topics, wanted.topic, wanted.start
                )
                try:
                    await reader.open()
                    yield reader, wanted.filters
                finally:
                    await reader.close()
            else:
                async with self._member(wanted, wanted.query.subscription) as shared:
                    yield shared, self._shared_filters(wanted, shared.session)
        finally:
            self.streams -= 1

    @asynccontextmanager
    async def _member(self, wanted: Wanted, name: str) -> AsyncIterator[SharedReader]:
        query = wanted.query
        self._members += 1
        create: dict[str, object] = {"topic": wanted.topic, "from": wanted.start.origin}
        if query.mode is not None:
            create["mode"] = query.mode
        if query.filter is not None:
            create["settings"] = {"filter": query.filter}
        member = f"{self._sidecar}-{self._members}"
        session = self._open_session(Membership(name, member, query.owner, create))
        shared = SharedReader(session, self.counters, wanted.in_flight_max)
        try:
            await session.open()
            _check_definition(session, wanted)
            self._registry.add(query.owner, name, shared)
            yield shared
        finally:
            self._registry.remove(query.owner, name, shared)
            await session.close()

    def _shared_filters(self, wanted: Wanted, session: MemberSession) -> Sequence[Filter]:
        stored = _stored_filter(session)
        if stored is None:
            return []
        return wanted.filters or [Filter(stored)]

    async def _refuse_vague(self, topic: str, request: web.Request, start: Start) -> None:
        if "partition" in request.query or not str(request.query.get("from")).startswith("offset:"):
            return
        info = await self._directory.lookup(topic)
        if info.partitions > 1 and start.partitions == (0,):
            raise BadQuery(
                "partition", f"is needed with from=offset: the topic has {info.partitions}"
            )


class SubscribeHandlers:
    """The handler of subscribers; those who want a WebSocket are passed on."""

    def __init__(
        self,
        subscribing: Subscribing,
        socket: Callable[[web.Request, Wanted], Awaitable[web.StreamResponse]],
    ) -> None:
        self._subscribing = subscribing
        self._socket = socket

    @property
    def streams(self) -> int:
        """Subscribers that are connected now."""
        return self._subscribing.streams

    async def subscribe(self, request: web.Request) -> web.StreamResponse:
        """Deliver until either side ends it."""
        wanted = await self._subscribing.wanted(request)
        if request.headers.get("Upgrade", "").lower() == "websocket":
            return await self._socket(request, wanted)
        if wanted.query.echo:
            raise BadQuery("echo", "is for WebSockets; send an upgrade request")
        lines = wants_lines(request.headers.get("Accept", ""))
        async with self._subscribing.opened(wanted) as (reader, filters):
            response = web.StreamResponse(
                headers={
                    "Content-Type": LINES if lines else "text/event-stream",
                    "Cache-Control": "no-store",
                    "X-Accel-Buffering": "no",
                }
            )
            await response.prepare(request)
            hand_over_whole(request, reader)
            sink: Sink = LineSink(request, response) if lines else EventSink(response)
            if not lines:
                await response.write(opening_of(request, wanted, reader))
            subscribing = self._subscribing
            outflow = Outflow(reader, sink, filters, subscribing.counters, subscribing.tracing)
            outcome = await run_until_drained(request, outflow)
            if isinstance(outcome, SidecarError):
                await response.write(last_line(outcome) if lines else last_comment(outcome))
        return response


async def run_until_drained(request: web.Request, outflow: Outflow) -> Exception | None:
    """Deliver until the app goes (None), the sidecar drains (None), or the source ends.

    That it has gone is seen at once, not when it is next written to: what it held is others' then.
    """
    sending = asyncio.create_task(outflow.run())
    ends = [
        asyncio.create_task(event.wait()) for event in (request.app[DRAINING], caller_gone(request))
    ]
    try:
        await asyncio.wait({sending, *ends}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (sending, *ends):
            task.cancel()
        outcome = (await asyncio.gather(sending, *ends, return_exceptions=True))[0]
    if isinstance(outcome, Exception) and not isinstance(outcome, SidecarError | ConnectionError):
        raise outcome
    return outcome if isinstance(outcome, SidecarError) else None


def opening_of(request: web.Request, wanted: Wanted, reader: Reader) -> bytes:
    """What events begin with: for those who come back by themselves, which browsers and Node
    do and tell by this header, also where they stand."""
    alone = wanted.query.subscription is None
    if alone and wanted.start.is_latest and "Sec-Fetch-Mode" in request.headers:
        return RETRY + encode_position_event(encode_position(reader.positions))
    return RETRY


def hand_over_whole(request: web.Request, reader: Reader) -> None:
    """Of a durable subscription, written means: the system has it, not this process."""
    if isinstance(reader, SharedReader) and request.transport is not None:
        request.transport.set_write_buffer_limits(high=0)


def wants_lines(accept: str) -> bool:
    """Whether lines of JSON are asked for; events are what everybody else gets."""
    kinds = [each.partition(";")[0].strip().lower() for each in accept.split(",")]
    return any(kind in _LINE_TYPES for kind in kinds) and "text/event-stream" not in kinds


def last_comment(error: SidecarError) -> bytes:
    """The head is out: a comment is all that can still say why this ends."""
    text = str(error).encode("utf-8", "replace").translate(None, b"\r\n")
    return b": ended: " + text + b"\n"


def last_line(error: SidecarError) -> bytes:
    """The same for lines: a problem document, which has no `topic`."""
    return orjson.dumps(end_document(error)) + b"\n"


def end_document(error: SidecarError) -> dict[str, object]:
    """Why a stream ends, with the members of the problem document."""
    problem = PROBLEMS.find(error)
    return {
        **error.members,
        "status": 500 if problem is None else problem.status,
        "code": "internal" if problem is None else problem.code,
        "detail": str(error),
    }


def _stored_filter(session: MemberSession) -> str | None:
    settings = session.definition.get("settings")
    found = settings.get("filter") if isinstance(settings, dict) else None
    return found if isinstance(found, str) else None


def _check_definition(session: MemberSession, wanted: Wanted) -> None:
    """All members of a subscription see the same messages in the same mode."""
    query, stored = wanted.query, _stored_filter(session)
    if query.filter is not None and query.filter != stored:
        shown = "none" if stored is None else repr(stored)
        raise SubscriptionConflict(
            f"filter: the subscription {query.subscription} exists, and its filter is {shown}",
            members={"field": "filter"},
        )
    mode = session.definition.get("mode")
    if query.mode is not None and query.mode != mode:
        raise SubscriptionConflict(
            f"mode: the subscription {query.subscription} exists, and its mode is {mode}",
            members={"field": "mode"},
        )
