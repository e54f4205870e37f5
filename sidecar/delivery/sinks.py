"""The forms in which messages reach apps: server-sent events, lines of JSON, WebSocket messages.

Each writes what `outflow.py` hands it and returns when the connection has taken it. Lines are
spelled, one character a byte, until the last moment.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import orjson
from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

from sidecar.delivery.member_events import Changed, Paused, Revoked
from sidecar.delivery.outflow import Notice, Source
from sidecar.delivery.position import encode_position
from sidecar.delivery.sse import HEARTBEAT, encode_gap, spell_events
from sidecar.delivery.topic_reader import Parcel
from sidecar.delivery.topic_stream import Gap
from sidecar.delivery.websocket_frames import spell_heads, text_frame


class EventSink:
    """Server-sent events. Their ids say where to resume, over all partitions."""

    def __init__(self, response: web.StreamResponse) -> None:
        self._response = response

    async def messages(
        self, lines: Sequence[str], offsets: Sequence[int], parcel: Parcel, source: Source
    ) -> None:
        """One event each."""
        events = spell_events(lines, offsets, parcel.partition, source.positions)
        await self._response.write(events.encode("latin-1"))

    async def notice(self, notice: Notice, source: Source) -> None:
        """Gaps are events of their own name; the rest is nothing that events could tell."""
        if isinstance(notice, Gap):
            position = encode_position({**source.positions, notice.partition: notice.next_offset})
            await self._response.write(encode_gap(position, orjson.dumps(notice)))

    async def heartbeat(self) -> None:
        """A comment."""
        await self._response.write(HEARTBEAT)


class LineSink:
    """One envelope a line, and nothing else: a gap shows in the offsets."""

    def __init__(self, request: web.Request, response: web.StreamResponse) -> None:
        self._request = request
        self._response = response

    async def messages(
        self, lines: Sequence[str], offsets: Sequence[int], parcel: Parcel, source: Source
    ) -> None:
        """One line each."""
        del offsets, parcel, source
        await self._response.write(("\n".join(lines) + "\n").encode("latin-1"))

    async def notice(self, notice: Notice, source: Source) -> None:
        """Lines can tell of messages only."""

    async def heartbeat(self) -> None:
        """A line would be taken for a message: only look whether anybody is there."""
        transport = self._request.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the reader has gone")


class SocketSink:
    """One WebSocket message each, written past aiohttp, which would make a task of every one."""

    def __init__(self, request: web.Request, writer: AbstractStreamWriter) -> None:
        transport = request.transport
        if transport is None:
            raise ConnectionResetError("the reader has gone")
        self._transport = transport
        self._writer = writer

    async def messages(
        self, lines: Sequence[str], offsets: Sequence[int], parcel: Parcel, source: Source
    ) -> None:
        """One text message each."""
        del offsets, parcel, source
        await self.write(spell_heads(lines).encode("latin-1"))

    async def notice(self, notice: Notice, source: Source) -> None:
        """Told as an object with a type, which envelopes do not have."""
        del source
        said = notice_document(notice)
        if said is not None:
            await self.say(said)

    async def heartbeat(self) -> None:
        """Pings do this."""

    async def say(self, document: Mapping[str, object]) -> None:
        """Something that is no message."""
        await self.write(text_frame(orjson.dumps(document)))

    async def write(self, data: bytes) -> None:
        """Whole frames."""
        if self._transport.is_closing():
            raise ConnectionResetError("the reader has gone")
        self._transport.write(data)
        await self._writer.drain()


def notice_document(notice: Notice) -> dict[str, object] | None:
    """A notice as WebSocket readers get it; None for what concerns the sidecar alone."""
    match notice:
        case Gap():
            return {"type": "gap", **asdict(notice)}
        case Revoked(hold):
            return {"type": "revoked", "partition": hold.partition}
        case Paused(paused):
            return {"type": "paused" if paused else "resumed"}
        case Changed():
            return None
