"""`GET /publish/{topic}/stream`: a WebSocket on which each frame is one message.

The persistent-connection way: messages go in without waiting, and what became of each comes back
in the order in which they were sent.
"""

import asyncio
import time
from collections import deque
from typing import Final

import orjson
from aiohttp import WSMsgType, web

from hosting.web import DRAINING
from sidecar.api.api_types import PublishQuery, parse_query
from sidecar.api.http_body import app_topic
from sidecar.api.http_publish import Check, Patience
from sidecar.api.json_text import is_json
from sidecar.api.problems import PROBLEMS
from sidecar.api.strict_websocket import StrictWebSocketResponse
from sidecar.errors import SidecarError
from sidecar.publish.batch import Ack, Committed, Entry, Kept, Outcome
from sidecar.publish.message import OCTETS, Message
from sidecar.publish.publisher import Publisher

UNANSWERED_MAX: Final = 10_000
"""Messages of one socket that are under way; then reading stops until some are answered."""
UNANSWERED_BYTES_MAX: Final = 16 * 1024 * 1024
"""Their bytes."""
_TEXT: Final = b"text/plain; charset=utf-8"
PING_S: Final = 20.0
"""A peer that does not answer a ping within half of this is gone."""


class StreamHandlers:
    """The handler of publish streams."""

    def __init__(
        self, publisher: Publisher, patience: Patience, message_bytes_max: int, check: Check
    ) -> None:
        self._publisher = publisher
        self._check = check
        self._patience = patience
        self._message_bytes_max = message_bytes_max

    async def publish_stream(self, request: web.Request) -> web.StreamResponse:
        """Take messages until either side ends it."""
        topic = app_topic(request)
        self._check(request, topic)
        query = parse_query(request.query, PublishQuery)
        timeout_s = self._patience(query.timeout_ms)
        await self._publisher.partitioner(topic)
        socket = StrictWebSocketResponse(
            heartbeat=PING_S, payload_bytes_max=self._message_bytes_max
        )
        if not socket.can_prepare(request):
            raise web.HTTPUpgradeRequired(text="this route is a WebSocket; send an upgrade request")
        await socket.prepare(request)
        session = _Session(self._publisher, topic, Ack(query.ack), timeout_s)
        answering = asyncio.create_task(session.answer(socket))
        draining = asyncio.create_task(request.app[DRAINING].wait())
        reading = asyncio.create_task(session.read(socket))
        try:
            await asyncio.wait({reading, answering, draining}, return_when=asyncio.FIRST_COMPLETED)
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            session.end()
            await asyncio.wait({answering}, timeout=timeout_s)
        finally:
            for task in (reading, answering, draining):
                task.cancel()
            await asyncio.gather(reading, answering, draining, return_exceptions=True)
        await socket.close()
        return socket


class _Session:
    """One socket's messages and their answers, in order."""

    def __init__(self, publisher: Publisher, topic: str, ack: Ack, timeout_s: float) -> None:
        self._publisher = publisher
        self._topic = topic
        self._ack = ack
        self._timeout_s = timeout_s
        self._slots: deque[list[Outcome | None]] = deque()
        self._bytes = 0
        self._ended = False
        self._changed = asyncio.Event()
        self._room = asyncio.Event()

    def end(self) -> None:
        """No more messages come."""
        self._ended = True
        self._changed.set()

    async def read(self, socket: web.WebSocketResponse) -> None:
        async for message in socket:
            if message.type is WSMsgType.TEXT:
                value = message.data.encode("utf-8")
                self._submit(value, None if is_json(value) else _TEXT)
            elif message.type is WSMsgType.BINARY:
                self._submit(message.data, OCTETS)
            while len(self._slots) >= UNANSWERED_MAX or self._bytes >= UNANSWERED_BYTES_MAX:
                self._room.clear()
                await self._room.wait()

    async def answer(self, socket: web.WebSocketResponse) -> None:
        while True:
            while self._slots and self._slots[0][0] is not None:
                outcome = self._slots.popleft()[0]
                self._room.set()
                if outcome is not None:
                    await socket.send_str(_answer(outcome).decode())
            if self._ended and not self._slots:
                return
            self._changed.clear()
            if not (self._slots and self._slots[0][0] is not None):
                await self._changed.wait()

    def _submit(self, value: bytes, content_type: bytes | None) -> None:
        slot: list[Outcome | None] = [None]
        self._slots.append(slot)
        self._bytes += len(value)

        def reply(outcome: Outcome) -> None:
            slot[0] = outcome
            self._bytes -= len(value)
            self._changed.set()

        message = Message(self._topic, value, time.time_ns() // 1000, content_type=content_type)
        self._publisher.submit(Entry(message, self._ack, reply), self._timeout_s)


def _answer(outcome: Outcome) -> bytes:
    """One answer as JSON; a refusal has the members of its problem document."""
    if isinstance(outcome, Committed | Kept):
        return orjson.dumps(outcome._asdict())
    return orjson.dumps(_refusal(outcome))


def _refusal(error: SidecarError) -> dict[str, object]:
    problem = PROBLEMS.find(error)
    return {
        **error.members,
        "status": 500 if problem is None else problem.status,
        "code": "internal" if problem is None else problem.code,
        "detail": str(error),
    }
