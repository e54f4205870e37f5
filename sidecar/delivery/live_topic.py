"""One stream of a topic for all of a sidecar's readers that have caught up with it.

The first reader to reach the end of a topic gives its stream away; those who come later end their
own stream and join. A thousand subscribers that wait cost one connection to the gatekeeper, and a
stalled one costs a position. Decides nothing about a reader; `topic_reader.py` does.
"""

import asyncio
import logging
from dataclasses import dataclass

from log_format.frame import Frame
from sidecar.delivery.recent import Entry, Recent
from sidecar.delivery.topic_stream import Gap, TopicStream
from sidecar.errors import SidecarError

log = logging.getLogger("sidegate.sidecar")


class LiveTopic:
    """Follows a topic while it has readers. Belongs to the event loop."""

    def __init__(self, stream: TopicStream) -> None:
        self.recent: Recent[Frame | Gap] = Recent(stream.positions)
        self.error: SidecarError | None = None
        self.beats = 0
        self.readers = 0
        self._stream = stream
        self._changed = asyncio.Event()
        self._task = asyncio.create_task(self._follow(), name=f"follow {stream.topic}")

    @property
    def topic(self) -> str:
        """The topic that it follows."""
        return self._stream.topic

    async def changed(self) -> None:
        """Wait for the next entry, heartbeat, new partition or error."""
        await self._changed.wait()

    async def close(self) -> None:
        """Stop following."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._stream.close()

    async def _follow(self) -> None:
        try:
            async for event in self._stream.events():
                self._take(event)
                self._wake()
        except SidecarError as error:
            self.error = error
            self._wake()

    def _take(self, event: Frame | Gap | None) -> None:
        for partition, offset in self._stream.positions.items():
            self.recent.begin(partition, offset)
        if event is None:
            self.beats += 1
        elif isinstance(event, Gap):
            self.recent.add(Entry(event.partition, event.first_offset, event.next_offset, 0, event))
        else:
            producer, stamp = event.envelope.producer, event.envelope.stamp
            first = 0 if stamp is None else stamp.base_offset
            size = event.envelope.frame_len
            self.recent.add(Entry(producer.partition, first, first + producer.count, size, event))

    def _wake(self) -> None:
        waiting, self._changed = self._changed, asyncio.Event()
        waiting.set()


@dataclass(slots=True)
class LiveTopics:
    """Those that are followed, by name."""

    topics: dict[str, LiveTopic]

    def get(self, topic: str) -> LiveTopic | None:
        """The one that is followed and has not failed."""
        found = self.topics.get(topic)
        return found if found is not None and found.error is None else None

    def adopt(self, stream: TopicStream) -> LiveTopic:
        """Follow a topic with this stream, which belongs to the result from now on."""
        live = self.topics[stream.topic] = LiveTopic(stream)
        return live

    def join(self, live: LiveTopic) -> None:
        """One reader more."""
        live.readers += 1

    async def leave(self, live: LiveTopic) -> None:
        """One reader less; the last one closes it."""
        live.readers -= 1
        if live.readers == 0:
            if self.topics.get(live.topic) is live:
                del self.topics[live.topic]
            await live.close()
