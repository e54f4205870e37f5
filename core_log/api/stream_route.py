"""The WebSocket route of a stream: the handshake, the reader's messages, and how it all ends."""

import asyncio
import contextlib
import logging
from typing import Final

from aiohttp import WSMsgType, web

from core_log.api import stream_messages
from core_log.api.member_messages import MemberOpen, parse_first, parse_said
from core_log.api.member_stream import MemberStream
from core_log.api.stream import Stream, StreamEnded, StreamTotals, begin_at
from core_log.api.stream_messages import BadMessage, Credit, Open, Token, parse_message
from core_log.api.streams import Broadcast
from core_log.control.catalog import Catalog
from core_log.control.control_state import Cause
from core_log.control.topic_log import UnknownPartition
from core_log.control.topics import Topic, TopicError, UnknownTopic
from core_log.control.waiting import first_of
from core_log.log.log_errors import LogError
from core_log.log.outlet import WebSocketOutlet
from core_log.subscriptions.cursor import TooManyRanges
from core_log.subscriptions.delivery import Delivery
from core_log.subscriptions.subscribing import Subscribing
from core_log.subscriptions.subscriptions import (
    NotDurable,
    Subscription,
    SubscriptionError,
    SubscriptionExists,
    TooManySubscriptions,
    TopicMismatch,
    UnknownSubscription,
)

log = logging.getLogger("sidegate.core")

OPEN_S_MAX: Final = 10.0
"""The first message has to come within this; a socket that says nothing is not kept."""
MESSAGE_BYTES_MAX: Final = 64 * 1024
"""A reader's text message: an `open` that names an offset for each of 1024 partitions fits."""
CLOSE_S_MAX: Final = 1.0
"""A reader's time to answer a close; then the connection is cut."""

SUBSCRIPTION_CODES: Final[dict[type[Exception], str]] = {
    UnknownSubscription: "unknown_subscription",
    SubscriptionExists: "subscription_exists",
    NotDurable: "not_durable",
    TopicMismatch: "topic_mismatch",
    TooManySubscriptions: "too_many_subscriptions",
    UnknownPartition: "unknown_partition",
}
"""How a stream ends whose subscription can't be opened."""

_CLOSE_CODES: Final = {"draining": 1001, "bad_message": 1008, "internal": 1011}
_NORMAL: Final = 1000


class TooManyStreams(Exception):
    """The limit on streams is reached."""

    headers = {"Retry-After": "1"}  # noqa: RUF012 - what the problem's answer carries


class ReaderGone(Exception):
    """The reader has closed its side. There is nobody to tell."""


class StreamRoute:
    """All open streams. Belongs to the event loop. `draining` ends them."""

    def __init__(
        self,
        catalog: Catalog,
        broadcast: Broadcast,
        totals: StreamTotals,
        draining: asyncio.Event,
        *,
        subscribing: Subscribing,
        streams_max: int,
    ) -> None:
        self._catalog = catalog
        self._subscribing = subscribing
        self._broadcast = broadcast
        self._totals = totals
        self._draining = draining
        self._streams_max = streams_max
        self._sockets = 0
        self._streams: dict[Stream, None] = {}
        catalog.watch(self._topic_changed)

    def __len__(self) -> int:
        return self._sockets

    async def serve(self, request: web.Request, cause: Cause) -> web.StreamResponse:
        """One stream, from its handshake to its end."""
        if self._sockets >= self._streams_max:
            raise TooManyStreams(
                f"{self._sockets} streams are open and the limit is {self._streams_max} "
                "(limits.streams_max); ask again later"
            )
        self._sockets += 1
        try:
            socket = web.WebSocketResponse(
                compress=False, max_msg_size=MESSAGE_BYTES_MAX, timeout=CLOSE_S_MAX
            )
            writer = await socket.prepare(request)
            outlet = WebSocketOutlet(request, writer)
            with contextlib.suppress(ReaderGone, ConnectionError):
                ended = await self._converse(socket, outlet, cause)
                await _farewell(socket, outlet, ended)
            return socket
        finally:
            self._sockets -= 1

    async def _converse(
        self, socket: web.WebSocketResponse, outlet: WebSocketOutlet, cause: Cause
    ) -> StreamEnded:
        """Serve the stream until it ends, and say why. ReaderGone where nobody is left to hear."""
        try:
            message = await _first_message(socket)
            if isinstance(message, MemberOpen):
                await self._serve_member(socket, outlet, message, cause)
            else:
                await self._serve_reader(socket, await self._open(outlet, message, cause))
        except StreamEnded as ended:
            return ended
        except BadMessage as error:
            return StreamEnded("bad_message", str(error))
        except TooManyRanges as error:
            return StreamEnded("too_many_ranges", str(error))
        except LogError as error:
            return StreamEnded(error.code, str(error))
        except (ReaderGone, ConnectionError):
            raise
        except Exception:
            # The reader holds an open socket: it is told, and the log has the cause.
            log.exception("stream failed")
            return StreamEnded("internal", "the core's log has the cause; open the stream again")
        return StreamEnded("internal", "the stream ended without a reason")

    async def _serve_reader(self, socket: web.WebSocketResponse, stream: Stream) -> None:
        self._streams[stream] = None
        try:
            stream.topic_changed(self._catalog.find(stream.topic))
            stream.open()
            await first_of(stream.run(), _listen(socket, stream), _until_draining(self._draining))
        finally:
            stream.close()
            del self._streams[stream]

    async def _serve_member(
        self,
        socket: web.WebSocketResponse,
        outlet: WebSocketOutlet,
        message: MemberOpen,
        cause: Cause,
    ) -> None:
        delivery, stream = self._subscribing.join(
            await self._subscription(message, cause),
            message.member,
            outlet,
            self._totals,
            credit=message.credit_bytes,
        )
        try:
            await first_of(
                stream.run(),
                _listen_to_member(socket, delivery, stream),
                _until_draining(self._draining),
            )
        finally:
            stream.close()
            if not self._draining.is_set():
                # A core that stops is no member's failure: no attempt is counted.
                self._subscribing.leave(delivery, stream)

    async def _subscription(self, message: MemberOpen, cause: Cause) -> Subscription:
        owner = message.owner or cause.principal
        if owner is None:
            raise BadMessage("owner: is missing, and nobody's name came with the request")
        try:
            if message.create is not None:
                await self._subscribing.ensure(message.create, owner, cause)
            return self._subscribing.get(owner, message.subscription, topic=message.topic)
        except UnknownTopic as error:
            raise StreamEnded("unknown_topic", str(error)) from error
        except (TopicError, SubscriptionError, UnknownPartition) as error:
            code = SUBSCRIPTION_CODES.get(type(error), "bad_message")
            raise StreamEnded(code, str(error)) from error

    async def _open(
        self, outlet: WebSocketOutlet, message: Open | Credit | Token, cause: Cause
    ) -> Stream:
        if not isinstance(message, Open):
            raise BadMessage("the first message must be `open`")
        try:
            topic = await self._catalog.ensure(message.topic, cause)
            topic_log = self._catalog.log_of(topic)
            positions = await begin_at(topic_log, message)
        except UnknownPartition as error:
            raise StreamEnded("unknown_partition", str(error)) from error
        except UnknownTopic as error:
            raise StreamEnded("unknown_topic", str(error)) from error
        except TopicError as error:
            raise StreamEnded("bad_message", str(error)) from error
        return Stream(
            topic_log,
            outlet,
            self._broadcast,
            self._totals,
            positions=positions,
            credit=message.credit_bytes,
            follow=message.partitions is None,
        )

    def _topic_changed(self, name: str, topic: Topic | None) -> None:
        for stream in self._streams:
            if stream.topic == name:
                stream.topic_changed(topic)


async def _listen(socket: web.WebSocketResponse, stream: Stream) -> None:
    """Take the reader's messages, for ever. Raises BadMessage or ReaderGone."""
    while True:
        message = parse_message(await _receive_text(socket))
        if isinstance(message, Credit):
            stream.grant(message.bytes)
        elif isinstance(message, Open):
            raise BadMessage("a stream is opened once; use another socket for another topic")


async def _listen_to_member(
    socket: web.WebSocketResponse, delivery: Delivery, stream: MemberStream
) -> None:
    """Take a member's messages, for ever. Raises BadMessage, TooManyRanges or ReaderGone."""
    while True:
        delivery.said(stream.session, parse_said(await _receive_text(socket)))


async def _first_message(socket: web.WebSocketResponse) -> Open | MemberOpen | Credit | Token:
    try:
        async with asyncio.timeout(OPEN_S_MAX):
            return parse_first(await _receive_text(socket))
    except TimeoutError as error:
        raise StreamEnded(
            "bad_message", f"no `open` message came within {OPEN_S_MAX:.0f} s"
        ) from error


async def _receive_text(socket: web.WebSocketResponse) -> str:
    message = await socket.receive()
    if message.type is WSMsgType.TEXT:
        return str(message.data)
    if message.type is WSMsgType.BINARY:
        raise BadMessage("readers send text messages only")
    raise ReaderGone


async def _until_draining(draining: asyncio.Event) -> None:
    await draining.wait()
    raise StreamEnded("draining", "this core is stopping; open the stream again at your position")


async def _farewell(
    socket: web.WebSocketResponse, outlet: WebSocketOutlet, ended: StreamEnded
) -> None:
    """Say why, close, and do not wait long for a reader that does not listen."""
    if ended.code == "stalled":
        outlet.abort()
        return
    outlet.send_text(stream_messages.end(ended.code, ended.detail))
    try:
        async with asyncio.timeout(CLOSE_S_MAX):
            await socket.close(code=_CLOSE_CODES.get(ended.code, _NORMAL))
    except TimeoutError:
        outlet.abort()
