"""A member's stream: a stream whose partitions come and go as the subscription assigns them.

The shell around a socket, like `stream.Stream`; who gets what is decided by `delivery`. In mode
`ordered` it reads its partitions itself, live and from the log; in mode `fcfs` it only takes what
it is handed. Knows neither HTTP nor WebSockets.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from core_log.api import member_messages
from core_log.api.stream import Outlet, Stream, StreamEnded, StreamTotals
from core_log.api.streams import Broadcast
from core_log.control.topic_log import TopicLog
from core_log.control.topics import Topic
from core_log.log.log_errors import Damaged
from core_log.subscriptions.tries import Tries
from log_format.envelope import decode_envelope

UNHEARD_MAX: Final = 10_000
"""Text messages that a member's full socket may hold: about a megabyte. Frames wait for room, but
what a member says is answered whether it reads or not."""


class Again(NamedTuple):
    """Messages to send once more."""

    partition: int
    generation: int
    offsets: tuple[int, ...]


class Owner(Protocol):
    """Whoever has to know what a member's stream has done."""

    def gave(self, session: int, partition: int, next_offset: int) -> None:
        """Everything of a partition up to `next_offset` is on its way to the member."""

    def skipped(self, partition: int, first: int, end: int) -> None:
        """These offsets can't be read any more."""

    def ready(self) -> None:
        """The member can take more than a moment ago."""

    def attempts_of(
        self, partition: int, offsets: Sequence[int]
    ) -> tuple[dict[int, int], dict[int, Tries]]:
        """How often these messages were tried, and what is known of the tries."""


class MemberStream(Stream):
    """One member's stream. Belongs to the event loop."""

    def __init__(
        self,
        session: int,
        owner: Owner,
        log: TopicLog,
        outlet: Outlet,
        broadcast: Broadcast,
        totals: StreamTotals,
        *,
        credit: int,
    ) -> None:
        super().__init__(log, outlet, broadcast, totals, positions={}, credit=credit, follow=False)
        self.session = session
        self._owner = owner
        self._again: deque[Again] = deque()
        self._was_full = False
        self._paused = False
        self._unheard = 0

    @property
    def takes(self) -> bool:
        """True while it may be handed another frame."""
        return self._reader.credit > 0 and self._ended is None and self._outlet.room

    def begin(self, text: bytes) -> None:
        """Say what was opened, and begin to say that the stream lives."""
        self._send_text(text)
        self._heartbeat = self._loop.call_later(self._heartbeat_s, self._beat)

    def say(self, text: bytes) -> None:
        """Send a text message. A member that talks and does not listen is given up."""
        self._unheard = 0 if self._outlet.room else self._unheard + 1
        if self._unheard > UNHEARD_MAX:
            self.end("stalled", f"{UNHEARD_MAX} answers wait for a member that does not read")
        self._send_text(text)

    def end(self, code: str, detail: str) -> None:
        """End the stream; the first reason counts."""
        if self._ended is None:
            self._ended = StreamEnded(code, detail)
        self._wake.set()

    def topic_changed(self, topic: Topic | None) -> None:
        """Nothing to do: the subscription tells what becomes of it."""

    def grown(self, log: TopicLog) -> None:
        """The topic has more partitions, of which some may become this member's."""
        self._log = log

    def grant(self, credit: int) -> None:
        """The member can take that many bytes more."""
        super().grant(credit)
        self._owner.ready()

    def assign(self, partition: int, offset: int) -> None:
        """Read a partition from `offset` on."""
        self._reader.add_partition(partition, offset)
        self._broadcast.add(self.topic, [partition], self)
        self._wake.set()

    def revoke(self, partition: int) -> None:
        """Read a partition no more."""
        self._reader.drop_partition(partition)
        self._broadcast.remove(self.topic, [partition], self)
        self._again = deque(each for each in self._again if each.partition != partition)

    def stop(self, *, full: bool, paused: bool) -> None:
        """Give out nothing new, or, where it is paused, nothing at all; or go on.

        A member that is full still gets again what it gave back: it counts as in flight already.
        """
        if (self._reader.stopped, self._paused) != (full or paused, paused):
            self._reader.stopped, self._paused = full or paused, paused
            self._wake.set()

    def hold(self, partition: int, *, held: bool) -> None:
        """Give out nothing of one partition, or go on."""
        if self._reader.hold(partition, held=held):
            self._wake.set()

    def send_again(self, again: Again) -> None:
        """Send frames once more that hold these messages."""
        self._again.append(again)
        self._wake.set()

    def hand(self, text: bytes, frame: bytes) -> None:
        """Send one frame, with what it is about directly before it."""
        self._reader.credit -= len(frame)
        self._send_text(text)
        self._send_frames([frame])
        if not self._outlet.room:
            self._was_full = True
            self._wake.set()

    async def run(self) -> None:
        """Serve what is behind, for ever. Raises StreamEnded, or ConnectionError by the outlet."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while True:
                if self._ended is not None:
                    raise self._ended
                await self._wait_for_room()
                if self._was_full:
                    self._was_full = False
                    self._owner.ready()
                if self._again and self._reader.credit > 0 and not self._paused:
                    await self._serve_again(self._again[0])
                    continue
                due = self._reader.due()
                if due is None:
                    break
                end = self._log.extent(due.partition).end
                if not self._reader.caught_up(due.partition, end):
                    await self._serve(due)

    async def _serve_again(self, again: Again) -> None:
        """Send the frame that holds the first of these messages, with all that it holds of them."""
        offset = again.offsets[0]
        try:
            result = await self._log.read(again.partition, offset, 1)
        except Damaged as error:
            self._rest_of(again, error.end)
            self._tell_gap(again.partition, offset, error.end, "damaged", str(error))
            return
        if not self._again or self._again[0] is not again:
            # The partition was taken away meanwhile.
            return
        frame = result.frames[0] if result.frames else b""
        first, end = extent_of(frame) if frame else (result.next_offset, result.next_offset)
        meant = [each for each in again.offsets if first <= each < end]
        if not meant:
            text = "retention has removed these messages"
            self._tell_gap(again.partition, offset, max(first, offset + 1), "expired", text)
            self._rest_of(again, max(first, offset + 1))
            return
        self._rest_of(again, end)
        text_before = member_messages.redeliver(
            again.partition,
            again.generation,
            first,
            end,
            meant,
            *self._owner.attempts_of(again.partition, meant),
        )
        self.hand(text_before, frame)

    def _rest_of(self, again: Again, end: int) -> None:
        """What is left once everything below `end` was seen to."""
        if self._again and self._again[0] is again:
            rest = tuple(offset for offset in again.offsets if offset >= end)
            self._again.popleft()
            if rest:
                self._again.appendleft(again._replace(offsets=rest))

    def _gave(self, partition: int, next_offset: int) -> None:
        self._owner.gave(self.session, partition, next_offset)

    def _tell_gap(self, partition: int, first: int, end: int, code: str, text: str) -> None:
        super()._tell_gap(partition, first, end, code, text)
        self._owner.skipped(partition, first, end)


def extent_of(frame: bytes) -> tuple[int, int]:
    """The first offset of a stored frame, and the one behind it."""
    envelope = decode_envelope(frame)
    if envelope.stamp is None:
        raise ValueError("a stored frame has no stamp")
    first = envelope.stamp.base_offset
    return first, first + envelope.producer.count
