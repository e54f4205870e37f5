"""A subscriber's WebSocket: messages go out, and what the app says about them comes in.

Also the echo mode, in which frames are payloads both ways: what the app sends is published, and
what is published comes back as it was sent.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import orjson
from aiohttp import WSCloseCode, WSMsgType, web

from hosting.web import DRAINING
from sidecar.api.http_body import app_topic
from sidecar.api.http_publish import Check
from sidecar.api.http_subscribe import (
    Reader,
    Subscribing,
    Wanted,
    end_document,
    hand_over_whole,
)
from sidecar.api.strict_websocket import StrictWebSocketResponse
from sidecar.delivery.filter import Filter
from sidecar.delivery.outflow import Outflow, Sink, Source
from sidecar.delivery.reader import refusal_of, unreachable
from sidecar.delivery.rendering import is_json
from sidecar.delivery.shared_reader import SharedReader
from sidecar.delivery.sinks import SocketSink
from sidecar.delivery.socket_commands import (
    Ack as AckCommand,
)
from sidecar.delivery.socket_commands import (
    Nack,
    Pause,
    Resume,
    Seek,
    offsets_in,
    parse_command,
    ranges_in,
    start_of,
)
from sidecar.delivery.topic_reader import Parcel
from sidecar.delivery.websocket_frames import binary_frame, text_frame
from sidecar.errors import BadQuery, Denied, SidecarError
from sidecar.publish.batch import Ack, Entry, Outcome
from sidecar.publish.message import OCTETS, Message
from sidecar.publish.publisher import Publisher
from sidecar.uplink.gateway import Gateway, Unreachable

PING_S: Final = 20.0
"""A peer that does not answer a ping within half of this is gone."""
COMMAND_BYTES_MAX: Final = 256 * 1024
"""Of what an app says about messages: ten thousand offsets fit."""
_INTERNAL: Final = WSCloseCode.INTERNAL_ERROR
_TEXT: Final = b"text/plain; charset=utf-8"


class SocketHandlers:
    """The handler of subscribers' WebSockets."""

    def __init__(
        self,
        subscribing: Subscribing,
        gateway: Gateway,
        publisher: Publisher,
        check: Check,
        *,
        message_bytes_max: int,
        timeout_s: float,
    ) -> None:
        self._subscribing = subscribing
        self._gateway = gateway
        self._publisher = publisher
        self._check = check
        self._message_bytes_max = message_bytes_max
        self._timeout_s = timeout_s

    async def subscribe(self, request: web.Request, wanted: Wanted) -> web.StreamResponse:
        """Deliver and listen until either side ends it."""
        echo = wanted.query.echo
        if echo:
            self._check(request, app_topic(request))
            await self._publisher.partitioner(wanted.topic)
        size = self._message_bytes_max if echo else COMMAND_BYTES_MAX
        socket = StrictWebSocketResponse(heartbeat=PING_S, payload_bytes_max=size)
        if not socket.can_prepare(request):
            raise web.HTTPUpgradeRequired(text="this is no upgrade request to a WebSocket")
        async with self._subscribing.opened(wanted) as (reader, filters):
            writer = await socket.prepare(request)
            if writer is None:
                raise ConnectionResetError("the reader has gone")
            hand_over_whole(request, reader)
            sink = PayloadSink(request, writer) if echo else GatedSink(request, writer)
            session = _Session(self, wanted, reader, sink, filters)
            hear = session.publish if echo else session.obey
            await self._serve(request, socket, session, hear)
        return socket

    async def _serve(
        self,
        request: web.Request,
        socket: web.WebSocketResponse,
        session: "_Session",
        hear: Callable[[web.WebSocketResponse], Awaitable[None]],
    ) -> None:
        hearing = asyncio.ensure_future(hear(socket))
        sending = asyncio.create_task(session.send())
        draining = asyncio.create_task(request.app[DRAINING].wait())
        tasks = (sending, hearing, draining)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        code: int = WSCloseCode.GOING_AWAY
        for outcome in outcomes:
            if isinstance(outcome, SidecarError):
                code = WSCloseCode.POLICY_VIOLATION if isinstance(outcome, Denied) else _INTERNAL
                if not socket.closed:
                    await session.end(outcome)
            elif isinstance(outcome, Exception) and not isinstance(outcome, ConnectionError):
                raise outcome
        await socket.close(code=code)

    async def seek_all(self, wanted: Wanted, to: object) -> None:
        """Move a durable subscription, for all of its members."""
        name, owner = wanted.query.subscription, wanted.query.owner
        query = None if owner is None else {"owner": owner}
        path = f"/v1/subscriptions/{name}/seek"
        try:
            answer = await self._gateway.ask(
                "POST", path, query=query, body=[orjson.dumps({"to": to})]
            )
        except Unreachable as error:
            raise unreachable(error) from error
        if answer.status != 200:
            raise refusal_of(answer)

    async def publish_one(self, topic: str, value: bytes, content_type: bytes | None) -> None:
        """Publish, and wait until it is in the log or will be."""
        replied: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

        def reply(outcome: Outcome) -> None:
            if not replied.done():
                replied.set_result(outcome)

        message = Message(topic, value, time.time_ns() // 1000, content_type=content_type)
        self._publisher.submit(Entry(message, Ack.AUTO, reply), self._timeout_s)
        outcome = await replied
        if isinstance(outcome, SidecarError):
            raise outcome

    def outflow(self, reader: Reader, sink: Sink, filters: Sequence[Filter]) -> Outflow:
        """A reader's delivery, which is counted with all others."""
        subscribing = self._subscribing
        return Outflow(reader, sink, filters, subscribing.counters, subscribing.tracing)


class GatedSink(SocketSink):
    """Envelopes, while the app has not asked for a pause."""

    def __init__(self, request: web.Request, writer: Any) -> None:
        super().__init__(request, writer)
        self.open = asyncio.Event()
        self.open.set()

    async def messages(
        self, lines: Sequence[str], offsets: Sequence[int], parcel: Parcel, source: Source
    ) -> None:
        """One text message each, once there is no pause."""
        await self.open.wait()
        await super().messages(lines, offsets, parcel, source)


class PayloadSink(GatedSink):
    """Payloads as they were sent: text as text, everything else as binary."""

    async def messages(
        self, lines: Sequence[str], offsets: Sequence[int], parcel: Parcel, source: Source
    ) -> None:
        """One message each."""
        del lines, source
        columns, stamp = parcel.frame.columns(), parcel.frame.envelope.stamp
        base = 0 if stamp is None else stamp.base_offset
        for offset in offsets:
            value = columns.value[offset - base] or b""
            binary = columns.content_type[offset - base] == OCTETS
            await self.write(binary_frame(value) if binary else text_frame(value))


class _Session:
    """One socket."""

    def __init__(
        self,
        handlers: SocketHandlers,
        wanted: Wanted,
        reader: Reader,
        sink: GatedSink,
        filters: Sequence[Filter],
    ) -> None:
        self._handlers = handlers
        self._wanted = wanted
        self._reader = reader
        self._sink = sink
        self._filters = filters
        self._outflow: asyncio.Task[None] | None = None
        self._moving = asyncio.Lock()

    async def send(self) -> None:
        """Deliver; a seek takes the current delivery away and puts another in its place."""
        while True:
            async with self._moving:
                outflow = self._handlers.outflow(self._reader, self._sink, self._filters)
                self._outflow = task = asyncio.create_task(outflow.run())
            try:
                await asyncio.wait({task})
            finally:
                task.cancel()
                outcome = (await asyncio.gather(task, return_exceptions=True))[0]
            if isinstance(outcome, Exception):
                raise outcome

    async def end(self, error: SidecarError) -> None:
        """The last word."""
        await self._sink.say({"type": "end", **end_document(error)})

    async def obey(self, socket: web.WebSocketResponse) -> None:
        """Do what the app says, and tell it what of that was wrong."""
        async for message in socket:
            if message.type not in (WSMsgType.TEXT, WSMsgType.BINARY):
                continue
            try:
                await self._command(message.data)
            except SidecarError as error:
                await self._sink.say({"type": "error", **end_document(error)})

    async def publish(self, socket: web.WebSocketResponse) -> None:
        """Publish each frame, in order."""
        async for message in socket:
            if message.type is WSMsgType.TEXT:
                value = message.data.encode("utf-8")
                kind = None if is_json(value) else _TEXT
                await self._handlers.publish_one(self._wanted.topic, value, kind)
            elif message.type is WSMsgType.BINARY:
                await self._handlers.publish_one(self._wanted.topic, message.data, OCTETS)

    async def _command(self, text: str | bytes) -> None:
        command = parse_command(text)
        match command:
            case AckCommand():
                reader = self._manual("ack")
                self._expect(reader.ack(command.partition, ranges_in(command)))
            case Nack():
                reader = self._manual("nack")
                offsets = offsets_in(command)
                self._expect(len(reader.nack(command.partition, offsets, command.delay_ms)))
            case Seek():
                await self._seek(command)
            case Pause():
                self._sink.open.clear()
            case Resume():
                self._sink.open.set()

    def _manual(self, kind: str) -> SharedReader:
        if isinstance(self._reader, SharedReader) and self._wanted.in_flight_max is not None:
            return self._reader
        raise BadQuery("type", f"{kind} is for subscription=NAME with ack=manual")

    def _expect(self, count: int) -> None:
        if count == 0:
            raise BadQuery(
                "offset", "none of these is in hand: settled before, or another member's now"
            )

    async def _seek(self, command: Seek) -> None:
        if isinstance(self._reader, SharedReader):
            start = start_of(command, None)
            await self._handlers.seek_all(self._wanted, start.origin)
            return
        start = start_of(command, self._wanted.start.partitions)
        async with self._moving:
            if self._outflow is not None:
                self._outflow.cancel()
                await asyncio.gather(self._outflow, return_exceptions=True)
            await self._reader.seek(start)
