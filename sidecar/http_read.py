"""Reading over HTTP: pages of messages, single messages, and server-sent events."""

import asyncio
from collections.abc import Callable
from typing import Final

import orjson
from aiohttp import web

from hosting.http_protocol import caller_gone
from hosting.web import DRAINING
from sidecar.api_types import MessagesQuery, NoQuery, SubscribeQuery, parse_query
from sidecar.counters import Counters
from sidecar.directory import Directory
from sidecar.errors import BadQuery, OverQuota, SidecarError
from sidecar.http_body import any_topic, path_number
from sidecar.position import encode_position
from sidecar.reader import Reader
from sidecar.rendering import render_frame
from sidecar.sse import HEARTBEAT, encode_event, encode_gap, encode_position_only
from sidecar.start import Start, parse_start
from sidecar.topic_stream import Gap, TopicStream

WRITE_BYTES: Final = 256 * 1024
"""Events are written in pieces of about this size: few calls, bounded memory."""


class ReadHandlers:
    """The handlers that give messages out."""

    def __init__(
        self,
        reader: Reader,
        directory: Directory,
        open_stream: Callable[[str, Start], TopicStream],
        counters: Counters,
        streams_max: int,
    ) -> None:
        self._reader = reader
        self._directory = directory
        self._open_stream = open_stream
        self._counters = counters
        self._streams_max = streams_max
        self.streams = 0

    async def messages(self, request: web.Request) -> web.Response:
        """A page."""
        query = parse_query(request.query, MessagesQuery)
        page = await self._reader.page(
            any_topic(request), query.partition, query.offset, query.limit
        )
        self._counters.delivered_messages += len(page.messages)
        listed = b",".join([rendered.envelope for rendered in page.messages])
        body = b'{"messages":[%s],"next_offset":%d}' % (listed, page.next_offset)
        return web.Response(body=body, content_type="application/json")

    async def message(self, request: web.Request) -> web.Response:
        """One message."""
        parse_query(request.query, NoQuery)
        partition, offset = (path_number(request, name) for name in ("partition", "offset"))
        envelope = await self._reader.one(any_topic(request), partition, offset)
        self._counters.delivered_messages += 1
        return web.Response(body=envelope, content_type="application/json")

    async def subscribe(self, request: web.Request) -> web.StreamResponse:
        """A topic as server-sent events, until either side ends it."""
        topic = any_topic(request)
        parse_query(request.query, SubscribeQuery)
        start = parse_start(request.query, request.headers.get("Last-Event-ID"))
        await self._refuse_vague(topic, request, start)
        if self.streams >= self._streams_max:
            raise OverQuota(f"limits.streams_max: {self._streams_max} subscriptions are open")
        self.streams += 1
        stream = self._open_stream(topic, start)
        try:
            await stream.open()
            return await self._send_events(request, stream)
        finally:
            self.streams -= 1
            await stream.close()

    async def _refuse_vague(self, topic: str, request: web.Request, start: Start) -> None:
        if "partition" in request.query or not str(request.query.get("from")).startswith("offset:"):
            return
        info = await self._directory.lookup(topic)
        if info.partitions > 1 and start.partitions == (0,):
            raise BadQuery(
                "partition", f"is needed with from=offset: the topic has {info.partitions}"
            )

    async def _send_events(self, request: web.Request, stream: TopicStream) -> web.StreamResponse:
        response = web.StreamResponse(
            headers={
                "Content-Type": "text/event-stream",
                "Cache-Control": "no-store",
                "X-Accel-Buffering": "no",
            }
        )
        await response.prepare(request)
        await response.write(encode_position_only(encode_position(stream.positions)))
        sending = asyncio.create_task(self._pump(stream, response))
        # Without a message to write, nothing else would tell that the app has left.
        ends = [
            asyncio.create_task(each.wait())
            for each in (request.app[DRAINING], caller_gone(request))
        ]
        try:
            await asyncio.wait({sending, *ends}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, *ends):
                task.cancel()
            outcome = (await asyncio.gather(sending, *ends, return_exceptions=True))[0]
        if isinstance(outcome, SidecarError):
            # The head is out: a comment is all that can still say why this ends.
            text = str(outcome).encode("utf-8", "replace").translate(None, b"\r\n")
            await response.write(b": ended: " + text + b"\n\n")
        elif isinstance(outcome, Exception) and not isinstance(outcome, ConnectionError):
            raise outcome
        return response

    async def _pump(self, stream: TopicStream, response: web.StreamResponse) -> None:
        async for frame in stream.events():
            if frame is None:
                await response.write(HEARTBEAT)
                continue
            if isinstance(frame, Gap):
                gap = orjson.dumps(frame)
                await response.write(encode_gap(encode_position(stream.positions), gap))
                continue
            partition = frame.envelope.producer.partition
            positions = dict(stream.positions)
            pieces: list[bytes] = []
            size = 0
            for rendered in render_frame(frame, positions[partition]):
                positions[partition] = rendered.offset + 1
                pieces.append(encode_event(encode_position(positions), rendered.envelope))
                size += len(pieces[-1])
                if size >= WRITE_BYTES:
                    await response.write(b"".join(pieces))
                    self._counters.delivered_messages += len(pieces)
                    pieces.clear()
                    size = 0
            if pieces:
                await response.write(b"".join(pieces))
                self._counters.delivered_messages += len(pieces)
