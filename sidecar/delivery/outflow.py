"""From where messages come from to where they go: one loop for every form of delivery.

Sources give parcels, sinks write them; this filters, renders and cuts them to a size, and says
what was handed over. Knows neither topics nor HTTP.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Final, Protocol

from hosting.tracing import Tracing
from sidecar.counters import Counters
from sidecar.delivery.filter import Filter
from sidecar.delivery.member_events import Changed, Paused, Revoked
from sidecar.delivery.rendering import spell_frame
from sidecar.delivery.topic_reader import Parcel
from sidecar.delivery.topic_stream import Gap
from sidecar.publish.message_trace import trace_delivery

CHUNK_MESSAGES_MAX: Final = 2_000
"""Rendered and written at a time: some hundred KB, so that memory stays small beside a batch of
many megabytes, and calls few."""

Notice = Gap | Revoked | Paused | Changed
SourceEvent = Parcel | Notice | None


class Source(Protocol):
    """Where parcels come from."""

    @property
    def positions(self) -> dict[int, int]:
        """The next offset of each partition behind what was consumed."""

    def events(self) -> AsyncGenerator[SourceEvent, None]:
        """What happens, in order; None for a heartbeat."""

    async def room(self, parcel: Parcel) -> int:
        """How many more messages may go out now, waiting until one may; 0 if none ever will.

        Raises TimeoutError where a sign of life is due meanwhile.
        """

    def done(self, parcel: Parcel, offsets: Sequence[int]) -> None:
        """These were handed over."""

    def skipped(self, parcel: Parcel, offsets: Sequence[int]) -> None:
        """These are not wanted."""

    def gave_up(self, parcel: Parcel, offsets: Sequence[int]) -> None:
        """These were not delivered, and will not be from here."""


class Sink(Protocol):
    """Where they go. Every method returns when the bytes were taken, or raises ConnectionError."""

    async def messages(
        self, lines: Sequence[str], offsets: Sequence[int], parcel: Parcel, source: Source
    ) -> None:
        """Rendered messages, spelled as `rendering.spell_frame` does."""

    async def notice(self, notice: Notice, source: Source) -> None:
        """Something that is no message."""

    async def heartbeat(self) -> None:
        """A sign of life."""


class Outflow:
    """One reader's delivery."""

    def __init__(
        self,
        source: Source,
        sink: Sink,
        wanted: Sequence[Filter],
        counters: Counters,
        tracing: Tracing,
    ) -> None:
        self._source = source
        self._sink = sink
        self._wanted = wanted
        self._counters = counters
        self._tracing = tracing

    async def run(self) -> None:
        """Deliver until the source ends by SidecarError, or the sink by ConnectionError."""
        async with aclosing(self._source.events()) as events:
            async for event in events:
                if event is None:
                    await self._sink.heartbeat()
                elif isinstance(event, Parcel):
                    await self._deliver(event)
                else:
                    await self._sink.notice(event, self._source)

    async def _deliver(self, parcel: Parcel) -> None:
        offsets = self._filtered(parcel)
        at = 0
        while at < len(offsets):
            room = await self._room(parcel)
            if room == 0:
                self._source.gave_up(parcel, offsets[at:])
                return
            chunk = offsets[at : at + min(room, CHUNK_MESSAGES_MAX)]
            lines = spell_frame(parcel.frame, chunk, parcel.attempts)
            await self._sink.messages(lines, chunk, parcel, self._source)
            self._source.done(parcel, chunk)
            self._counters.delivered_messages += len(chunk)
            if self._tracing.active:
                trace_delivery(self._tracing, parcel.frame, chunk)
            at += len(chunk)

    async def _room(self, parcel: Parcel) -> int:
        while True:
            try:
                return await self._source.room(parcel)
            except TimeoutError:
                await self._sink.heartbeat()

    def _filtered(self, parcel: Parcel) -> Sequence[int]:
        offsets = parcel.offsets
        for each in self._wanted:
            parcel.frame.check_hash()
            before = each.errors
            left = each.select(parcel.frame, offsets)
            self._counters.filter_errors += each.errors - before
            if len(left) < len(offsets):
                kept = frozenset(left)
                dropped = [offset for offset in offsets if offset not in kept]
                self._counters.filtered_messages += len(dropped)
                self._source.skipped(parcel, dropped)
            offsets = left
        return offsets
