"""An app's stream as a member of a durable subscription.

Between the member's session and the delivery to one app: acknowledges by itself what was handed
over, or leaves that to the app and bounds what it has in hand.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Final

from sidecar.counters import Counters
from sidecar.delivery.holdings import Delivery, Hold
from sidecar.delivery.member import MemberSession, Revoked
from sidecar.delivery.offset_set import OffsetSet, Range, ranges_of
from sidecar.delivery.outflow import SourceEvent
from sidecar.delivery.topic_reader import Parcel

QUIET_S_MAX: Final = 5.0
"""How long an app that acknowledges nothing hears nothing: then comes a heartbeat."""
UNBOUNDED: Final = 1 << 30


class SharedReader:
    """Not to be shared by readers; anybody may acknowledge. Belongs to the event loop.

    `in_flight_max` None acknowledges what was handed over; a number waits for the app to do it.
    """

    def __init__(
        self, session: MemberSession, counters: Counters, in_flight_max: int | None
    ) -> None:
        self.session = session
        self.positions: dict[int, int] = {}
        self._counters = counters
        self._in_flight_max = in_flight_max
        self._out: dict[Hold, OffsetSet] = {}
        self._out_count = 0
        self._moved = asyncio.Event()
        session.on_event = self._moved.set
        session.on_acked = self._confirmed

    @property
    def in_flight(self) -> int:
        """Messages that the app has and has not settled."""
        return self._out_count

    async def events(self) -> AsyncGenerator[SourceEvent, None]:
        """As the session's, with parcels in place of deliveries."""
        async for event in self.session.events():
            if isinstance(event, Delivery):
                self._counters.redelivered_messages += len(event.attempts)
                yield Parcel(event.frame, event.offsets, event.attempts, event.hold)
                partition = event.frame.envelope.producer.partition
                self.positions[partition] = event.offsets[-1] + 1
                continue
            if isinstance(event, Revoked) and not event.may_finish:
                self._forget(event.hold)
            yield event

    async def room(self, parcel: Parcel) -> int:
        """How many more the app may have in hand; 0 once the parcel is another member's."""
        hold = parcel.hold
        while True:
            if hold is None or not self.session.is_current(hold):
                return 0
            limit = self._in_flight_max
            if limit is None:
                return UNBOUNDED
            if self._out_count < limit:
                return limit - self._out_count
            self._moved.clear()
            async with asyncio.timeout(QUIET_S_MAX):
                await self._moved.wait()

    def done(self, parcel: Parcel, offsets: Sequence[int]) -> None:
        """Handed over: acknowledged, or in the app's hands from now on."""
        if parcel.hold is None:
            return
        if self._in_flight_max is None:
            self.session.ack(parcel.hold, ranges_of(offsets))
            return
        out = self._out.setdefault(parcel.hold, OffsetSet())
        for first, last in ranges_of(offsets):
            out.add(first, last)
        self._out_count += len(offsets)

    def skipped(self, parcel: Parcel, offsets: Sequence[int]) -> None:
        """What a filter holds back is done for this subscription."""
        if parcel.hold is not None:
            self.session.ack(parcel.hold, ranges_of(offsets))

    def gave_up(self, parcel: Parcel, offsets: Sequence[int]) -> None:
        """Another member delivers these."""
        if parcel.hold is not None:
            self.session.give_up(parcel.hold, offsets)

    def ack(self, partition: int, ranges: Iterable[Range]) -> int:
        """The app has processed these. Returns how many of them were in its hands."""
        return sum(
            self.session.ack(hold, common) for hold, common in self._settle(partition, ranges)
        )

    def nack(self, partition: int, offsets: Iterable[int], delay_ms: int) -> list[int]:
        """The app has not processed these; they come again. Returns those that it had."""
        ranges = [(offset, offset) for offset in offsets]
        found: list[int] = []
        for hold, common in self._settle(partition, ranges):
            given_back = [first for first, _ in common]
            self.session.nack(hold, given_back, delay_ms)
            found += given_back
        return found

    def _confirmed(self, partition: int, low: int, ranges: list[Range]) -> None:
        """The log counts these as done, whoever has said so: the app may have more."""
        self._settle(partition, [(0, low - 1), *ranges])

    def _settle(self, partition: int, ranges: Iterable[Range]) -> list[tuple[Hold, list[Range]]]:
        """Take what the app names out of its hands, by hold."""
        wanted = list(ranges)
        found = []
        for hold, out in list(self._out.items()):
            if hold.partition != partition:
                continue
            common = [each for first, last in wanted for each in out.common(first, last)]
            for first, last in common:
                self._out_count -= len(OffsetSet(out.common(first, last)))
                out.discard(first, last)
            if common:
                found.append((hold, common))
            if not out:
                del self._out[hold]
        self._moved.set()
        return found

    def _forget(self, hold: Hold) -> None:
        """What was in hand under a hold that is lost comes again, to whoever gets it."""
        out = self._out.pop(hold, None)
        if out is not None:
            self._out_count -= len(out)
            self._moved.set()
