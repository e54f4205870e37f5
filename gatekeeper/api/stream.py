"""GET /v1/stream: a WebSocket of the caller joined to one of the core, watched while it is open.

Both directions have flow control: each message is written before the next is read, so a side that
does not take what it asked for stops its own stream and nothing else; credits in bytes bound what
is under way. Control messages are read and rebuilt (`stream_messages.py`); frames pass untouched.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

import aiohttp
from aiohttp import WSMsgType, web

from gatekeeper.api.call import Call
from gatekeeper.api.gate import Caller, Gate
from gatekeeper.api.history import is_older
from gatekeeper.api.member_messages import MemberOpen, Said, parse_first, parse_said
from gatekeeper.api.membership import Admitted, Membership, NotOpened
from gatekeeper.api.quotas import Quotas
from gatekeeper.api.routes import Needs, questions_for
from gatekeeper.api.stream_messages import Credit, Open, Token, end_message, parse_next
from gatekeeper.api.streams import End, OpenStream, Streams
from gatekeeper.config import LimitsConfig
from gatekeeper.core.upstream import CoreClient
from gatekeeper.errors import (
    BadRequest,
    CoreUnavailable,
    Denied,
    GateError,
    Overloaded,
    OverQuota,
)
from gatekeeper.identity.authentication_errors import AuthenticationError
from gatekeeper.identity.authenticator import Authenticator
from gatekeeper.metrics import GateMetrics
from log_format.envelope import peek_partition
from log_format.errors import FormatError

log = logging.getLogger("sidegate.gatekeeper.stream")

PING_S: Final = 20.0
"""A peer that does not answer a ping within half of this is gone."""
CLOSE_S: Final = 1.0
"""For the last message and the closing handshake; a peer that does not read gets cut."""
OVERLOADED_RETRY_S: Final = 5.0

Parse = Callable[[str], Said | Credit | Token]
"""Reads what a caller may say once its stream is open."""


class Streaming:
    """The handler of streams. Lives in one event loop."""

    def __init__(
        self,
        *,
        gate: Gate,
        authenticator: Authenticator,
        core: CoreClient,
        quotas: Quotas,
        streams: Streams,
        metrics: GateMetrics,
        limits: LimitsConfig,
        membership: Membership,
    ) -> None:
        self._gate = gate
        self._membership = membership
        self._authenticator = authenticator
        self._core = core
        self._quotas = quotas
        self._streams = streams
        self._metrics = metrics
        self._limits = limits

    async def stream(self, call: Call) -> web.StreamResponse:
        """Upgrade, wait for the open message, decide, and pass frames until something ends it."""
        caller = call.caller
        if len(self._streams) >= self._limits.streams_max:
            raise Overloaded(
                f"{self._limits.streams_max} streams are open (limits.streams_max)",
                OVERLOADED_RETRY_S,
            )
        socket = web.WebSocketResponse(
            timeout=CLOSE_S,
            heartbeat=PING_S,
            autoclose=True,
            compress=False,
            max_msg_size=self._limits.json_bytes_max,
        )
        if not socket.can_prepare(call.request):
            raise BadRequest("this route is a WebSocket; send an upgrade request")
        over = self._quotas.open_stream(
            caller.principal, self._gate.policy.limits_of(caller.identity)
        )
        if over is not None:
            raise OverQuota(f"{caller.principal} is {over.text}", over.retry_after_s)
        try:
            await socket.prepare(call.request)
            end = await self._serve(socket, call)
            self._metrics.stream_ended(end.code)
            await _say_end(socket, call.request, end)
        except asyncio.CancelledError:
            self._metrics.stream_ended("closed")
            raise
        finally:
            self._quotas.close_stream(caller.principal)
        return socket

    async def _serve(self, socket: web.WebSocketResponse, call: Call) -> End:
        try:
            opening = await _receive_open(socket, self._limits.stream_open_timeout)
            if opening is None:
                return End("closed", "the caller has gone")
            if isinstance(opening, MemberOpen):
                admitted = await self._membership.admit(call, opening)
                return await self._carry(socket, call, admitted, parse_said)
            questions = questions_for(Needs.STREAM, opening.topic, from_latest=opening.from_latest)
            ruling = await self._gate.require(call.caller, questions, opening.topic)
            admitted = Admitted(questions, ruling, opening.to_core(), ruling.max_age_s)
            return await self._carry(socket, call, admitted, parse_next)
        except NotOpened as error:
            return End(error.code, str(error), dict(error.members))
        except Denied as error:
            return End("denied", str(error), dict(error.members))
        except BadRequest as error:
            return End("bad_message", str(error))
        except CoreUnavailable as error:
            return End("unavailable", str(error))
        except AuthenticationError as error:
            return End(error.code, str(error), dict(error.members))
        except GateError as error:
            return End("refused", str(error), dict(error.members))

    async def _carry(
        self, socket: web.WebSocketResponse, call: Call, admitted: Admitted, parse: Parse
    ) -> End:
        """Open the core's side, and pass messages while the stream may go on."""
        stream = OpenStream(
            call.caller,
            self._authenticator.verify_peer(call.caller.connection.chain, time.time()),
            admitted.questions,
            admitted.ruling.topic,
            admitted.ruling,
            asyncio.get_running_loop().create_future(),
            admitted.owner,
        )
        self._streams.add(stream)
        try:
            async with self._core.stream(call.behalf(admitted.ruling)) as upstream:
                await upstream.send_str(admitted.opening)
                return await self._pump(socket, upstream, stream, admitted.max_age_s, parse)
        finally:
            self._streams.remove(stream)

    async def _pump(
        self,
        socket: web.WebSocketResponse,
        upstream: aiohttp.ClientWebSocketResponse,
        stream: OpenStream,
        max_age_s: float | None,
        parse: Parse,
    ) -> End:
        """Run both directions and wait for the first reason to end."""
        passing_down = self._pass_down(socket, upstream, stream, _AgeCheck(max_age_s))
        down = asyncio.create_task(passing_down, name="stream down")
        up = asyncio.create_task(self._pass_up(socket, upstream, stream, parse), name="stream up")
        try:
            await asyncio.wait({down, up, stream.ended}, return_when=asyncio.FIRST_COMPLETED)
            if stream.ended.done():
                return stream.ended.result()
            first = up if up.done() else down
            return first.result()
        finally:
            down.cancel()
            up.cancel()
            await asyncio.gather(down, up, return_exceptions=True)

    async def _pass_down(
        self,
        socket: web.WebSocketResponse,
        upstream: aiohttp.ClientWebSocketResponse,
        stream: OpenStream,
        unchecked: "_AgeCheck",
    ) -> End:
        count = self._metrics.stream_bytes.inc
        try:
            while True:
                message = await upstream.receive()
                if message.type is WSMsgType.BINARY:
                    if unchecked.refuses(message.data):
                        denied = self._gate.refuse_age(stream.ruling)
                        return End("denied", str(denied), dict(denied.members))
                    await socket.send_bytes(message.data)
                    count(len(message.data))
                elif message.type is WSMsgType.TEXT:
                    await socket.send_str(message.data)
                else:
                    return _core_closed(message)
        except (ConnectionError, aiohttp.ClientError) as error:
            return End("closed", str(error))

    async def _pass_up(
        self,
        socket: web.WebSocketResponse,
        upstream: aiohttp.ClientWebSocketResponse,
        stream: OpenStream,
        parse: Parse,
    ) -> End:
        try:
            while True:
                text = await _receive_text(socket)
                if text is None:
                    return End("closed", "the caller has gone")
                said = parse(text)
                if isinstance(said, Token):
                    await self._renew(stream, said)
                else:
                    await upstream.send_str(said.to_core())
        except (ConnectionError, aiohttp.ClientError) as error:
            return End("closed", str(error))

    async def _renew(self, stream: OpenStream, fresh: Token) -> None:
        """Take up a fresh token, which must prove the same principal with the same certificate."""
        caller = stream.caller
        identity = await self._gate.identify(caller.connection, [f"Bearer {fresh.token}"])
        principal = self._gate.principal_of(identity)
        if principal != caller.principal:
            raise BadRequest(
                f"token: is {principal}'s, and the stream is {caller.principal}'s; open another"
            )
        renewed = Caller(
            identity, principal, caller.connection, time.time_ns() // 1000, caller.request_id
        )
        stream.ruling = await self._gate.require(renewed, stream.questions, stream.topic)
        if stream.owner:
            await self._gate.require(renewed, ("share",), stream.topic, stream.owner)
        stream.caller = renewed


class _AgeCheck:
    """Holds the first frame of each partition against the greatest age; later ones are younger."""

    __slots__ = ("_max_age_s", "_seen")

    def __init__(self, max_age_s: float | None) -> None:
        self._max_age_s = max_age_s
        self._seen: set[int] = set()

    def refuses(self, frame: bytes) -> bool:
        if self._max_age_s is None:
            return False
        try:
            partition = peek_partition(frame)
            if partition in self._seen:
                return False
            self._seen.add(partition)
            return is_older(frame, self._max_age_s, time.time_ns() // 1000)
        except FormatError:
            return True


async def _receive_open(
    socket: web.WebSocketResponse, timeout_s: float
) -> Open | MemberOpen | None:
    try:
        async with asyncio.timeout(timeout_s):
            text = await _receive_text(socket)
    except TimeoutError as error:
        raise BadRequest(f"no open message came within {timeout_s:.0f} s") from error
    return None if text is None else parse_first(text)


async def _receive_text(socket: web.WebSocketResponse) -> str | None:
    """The caller's next message; None when it has gone."""
    message = await socket.receive()
    if message.type is WSMsgType.TEXT:
        return str(message.data)
    if message.type is WSMsgType.BINARY:
        raise BadRequest("callers send text messages only; frames go to /v1/append")
    if message.type is WSMsgType.ERROR:
        raise BadRequest("the message is too large or not well formed")
    return None


def _core_closed(message: aiohttp.WSMessage) -> End:
    detail = "the core has ended the stream; open it again"
    if message.type is WSMsgType.ERROR:
        detail = "the connection to the core broke; open the stream again"
    return End("unavailable", detail)


async def _say_end(socket: web.WebSocketResponse, request: web.BaseRequest, end: End) -> None:
    """Tell the caller why, and close; within a second, because it may not be reading."""
    transport = request.transport
    try:
        async with asyncio.timeout(CLOSE_S):
            if not socket.closed and end.code != "closed":
                await socket.send_str(end_message(end.code, end.detail, end.members))
            await socket.close()
    except (TimeoutError, ConnectionError) as error:
        log.debug("cut", extra={"fields": {"code": end.code, "error": str(error)}})
    if transport is not None and not socket.closed:
        transport.abort()
