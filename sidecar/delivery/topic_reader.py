"""One app's view of a topic: from where it wants to begin to the live end, each message once.

Reads the log by a stream of its own until it has caught up, then shares the sidecar's one stream
of the topic; when it falls behind what that keeps, it reads the log itself again. Its place is its
positions alone, so that going over from one to the other neither skips nor repeats.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from log_format.frame import Frame
from sidecar.delivery.holdings import Hold
from sidecar.delivery.live_topic import LiveTopic, LiveTopics
from sidecar.delivery.start import Start, resume
from sidecar.delivery.topic_stream import Gap, TopicStream

OpenStream = Callable[[str, Start], TopicStream]


@dataclass(frozen=True, slots=True)
class Parcel:
    """Messages of one frame that are to be delivered, rising. A durable one has its hold."""

    frame: Frame
    offsets: Sequence[int]
    attempts: Mapping[int, int] = field(default_factory=dict)
    hold: Hold | None = None

    @property
    def partition(self) -> int:
        """Theirs."""
        return self.frame.envelope.producer.partition


class TopicReader:
    """Not to be shared. Belongs to the event loop.

    `positions` holds the next offset of each partition behind what was consumed.
    """

    def __init__(
        self, open_stream: OpenStream, live_topics: LiveTopics, topic: str, start: Start
    ) -> None:
        self._open_stream = open_stream
        self._live_topics = live_topics
        self._topic = topic
        self._partitions = start.partitions
        self._own: TopicStream | None = None
        self._start = start
        self._live: LiveTopic | None = None
        self._cursor = 0
        self.positions: dict[int, int] = {}

    async def open(self) -> None:
        """Open for the first time: what is refused here is told to the app at once."""
        await self._open_own(self._start)
        self._go_live()
        await self._drop_unused()

    async def close(self) -> None:
        """Give everything back."""
        own, self._own = self._own, None
        live, self._live = self._live, None
        if own is not None:
            await own.close()
        if live is not None:
            await self._live_topics.leave(live)

    async def seek(self, start: Start) -> None:
        """Go on from another place. What was asked for before is forgotten."""
        await self.close()
        self.positions = {}
        self._partitions = start.partitions
        await self._open_own(start)

    async def room(self, parcel: Parcel) -> int:
        """As many as there are: what was given is nobody else's."""
        return len(parcel.offsets)

    def done(self, parcel: Parcel, offsets: Sequence[int]) -> None:
        """Nobody keeps what was handed over."""

    def skipped(self, parcel: Parcel, offsets: Sequence[int]) -> None:
        """Nor what was not wanted."""

    def gave_up(self, parcel: Parcel, offsets: Sequence[int]) -> None:
        """Nor what was not delivered."""

    async def events(self) -> AsyncGenerator[Parcel | Gap | None, None]:
        """Messages and gaps in order, and None for each heartbeat. Ends by SidecarError.

        What was given counts as consumed when the next event is asked for.
        """
        while True:
            source = self._read_live() if self._live is not None else self._read_own()
            async with aclosing(source):
                async for event in source:
                    yield event

    async def _read_own(self) -> AsyncGenerator[Parcel | Gap | None, None]:
        if self._own is None:
            await self._open_own(resume(self.positions, self._partitions))
        own = self._own
        if own is None:
            return
        async with aclosing(own.events()) as events:
            async for event in events:
                for partition, offset in own.positions.items():
                    self.positions.setdefault(partition, offset)
                taken = self._take(event)
                if taken is not None or event is None:
                    yield taken
                self._consumed(event)
                if own is not self._own:
                    return
                await own.settle()
                if self._go_live():
                    break
        await self._drop_unused()

    async def _read_live(self) -> AsyncGenerator[Parcel | Gap | None, None]:
        live = self._live
        beats = 0 if live is None else live.beats
        while live is not None and live is self._live:
            try:
                entry = live.recent.at(self._cursor)
            except LookupError:
                self._live = None
                await self._live_topics.leave(live)
                return
            if entry is not None:
                taken = self._take(entry.item)
                if taken is not None:
                    yield taken
                self._consumed(entry.item)
                self._cursor += 1
                continue
            if live.error is not None:
                raise live.error
            if self._partitions is None:
                for partition, offset in live.recent.begins.items():
                    self.positions.setdefault(partition, offset)
            if beats != live.beats:
                beats = live.beats
                yield None
                continue
            await live.changed()

    def _take(self, item: Frame | Gap | None) -> Parcel | Gap | None:
        """What of an item is new to this reader."""
        if item is None:
            return None
        partition, _, next_offset = _extent(item)
        if self._partitions is not None and partition not in self._partitions:
            return None
        position = self.positions.get(partition, 0)
        if next_offset <= position:
            return None
        if isinstance(item, Gap):
            return item
        return Parcel(item, range(max(position, _extent(item)[1]), next_offset))

    def _consumed(self, item: Frame | Gap | None) -> None:
        if item is not None:
            partition, _, next_offset = _extent(item)
            if self._partitions is None or partition in self._partitions:
                self.positions[partition] = max(self.positions.get(partition, 0), next_offset)

    async def _open_own(self, start: Start) -> None:
        self._own = own = self._open_stream(self._topic, start)
        await own.open()
        for partition, offset in own.positions.items():
            self.positions.setdefault(partition, offset)

    def _go_live(self) -> bool:
        """Go over to the shared stream if nothing is missed by it; True where that was done."""
        live, own = self._live_topics.get(self._topic), self._own
        if live is None:
            if own is None or self._partitions is not None or not own.caught_up:
                return False
            live = self._live_topics.adopt(own)
            self._own = None
        elif not live.recent.can_serve(self.positions):
            return False
        self._live_topics.join(live)
        self._live = live
        self._cursor = live.recent.start
        return True

    async def _drop_unused(self) -> None:
        """A stream of one's own that the shared one has made needless."""
        if self._live is not None and self._own is not None:
            own, self._own = self._own, None
            await own.close()


def _extent(item: Frame | Gap) -> tuple[int, int, int]:
    """Partition, first offset, next offset."""
    if isinstance(item, Gap):
        return item.partition, item.first_offset, item.next_offset
    producer, stamp = item.envelope.producer, item.envelope.stamp
    first = 0 if stamp is None else stamp.base_offset
    return producer.partition, first, first + producer.count
