"""Handing out: reads what an fcfs subscription wants next and gives it to whoever is free.

One task for each fcfs subscription that has members. It reads ahead what one read brings and keeps
none of it: what nobody can take now is read again when somebody can.
"""

import asyncio
import logging
from collections.abc import Callable

from core_log.api import member_messages, stream_messages
from core_log.api.member_stream import extent_of
from core_log.api.streams import READ_BYTES_MAX, Broadcast
from core_log.log.log_errors import Damaged, LogError
from core_log.log.results import Committed
from core_log.subscriptions.delivery import Delivery
from core_log.subscriptions.fcfs import Fcfs, Lease, Want
from core_log.subscriptions.handing import without

log = logging.getLogger("sidegate.core")


class HandOut:
    """Works for one delivery while it has members. Belongs to the event loop."""

    def __init__(
        self,
        delivery: Delivery,
        group: Fcfs,
        broadcast: Broadcast,
        *,
        on_failure: Callable[[str, str], None],
    ) -> None:
        self._delivery = delivery
        self._group = group
        self._broadcast = broadcast
        self._on_failure = on_failure
        self._listens = 0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, if it has not begun."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="hand out")
        self._listen()
        self._delivery.work.set()

    def stop(self) -> None:
        """End."""
        topic = self._delivery.log.topic.name
        self._broadcast.remove(topic, range(self._listens), self)
        self._listens = 0
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def offer(self, batch: Committed) -> bool:
        """A commit: there may be something to hand out."""
        del batch
        self._delivery.work.set()
        return False

    def flush(self) -> None:
        """Nothing is collected."""

    def _listen(self) -> None:
        """Hear of commits to all partitions, also those that the topic has gained."""
        topic = self._delivery.log.topic
        if topic.partitions > self._listens:
            added = range(self._listens, topic.partitions)
            self._broadcast.add(topic.name, added, self)
            self._listens = topic.partitions

    async def _run(self) -> None:
        delivery = self._delivery
        try:
            while True:
                await delivery.work.wait()
                delivery.work.clear()
                self._listen()
                while not delivery.subscription.paused and self._free() is not None:
                    want = self._group.want(delivery.now, self._end_of)
                    if want is None:
                        break
                    await self._hand(want)
                    # One turn for everybody else: a long replay would never wait otherwise.
                    await asyncio.sleep(0)
        except LogError as error:
            self._on_failure(error.code, str(error))
        except Exception:
            log.exception("handing out failed")
            self._on_failure("internal", "the core's log has the cause; open the stream again")

    def _free(self) -> int | None:
        streams = self._delivery.streams
        return self._group.free_member(
            lambda session: session in streams and streams[session].takes
        )

    def _end_of(self, partition: int) -> int:
        return self._delivery.log.extent(partition).end

    async def _hand(self, want: Want) -> None:
        bytes_max = 1 if want.retry else READ_BYTES_MAX
        topic_log, moves = self._delivery.log, self._group.moves
        try:
            result = await topic_log.read(want.partition, want.offset, bytes_max)
        except Damaged as error:
            self._skip(want.partition, want.offset, error.end, "damaged", str(error))
            return
        if self._group.moves != moves:
            # A seek came in between: this is no longer wanted.
            return
        begins = extent_of(result.frames[0])[0] if result.frames else result.next_offset
        if begins > want.offset:
            text = "retention has removed these messages"
            self._skip(want.partition, want.offset, begins, "expired", text)
            return
        for frame in result.frames:
            session = self._free()
            if session is None:
                return
            first, end = extent_of(frame)
            lease = self._group.give(session, want, first, end)
            if lease is not None:
                self._send(lease, frame)
            if want.retry:
                return
            want = Want(want.partition, end, 0)

    def _send(self, lease: Lease, frame: bytes) -> None:
        not_meant = [(lease.first, lease.end - 1)]
        for first, last in lease.meant:
            not_meant = without(not_meant, first, last)
        cursor = self._group.partitions[lease.partition].cursor
        attempts = {
            offset: count
            for offset, count in cursor.attempts.items()
            if lease.first <= offset < lease.end
            and any(first <= offset <= last for first, last in lease.meant)
        }
        text = member_messages.lease(
            lease.partition,
            lease.number,
            lease.first,
            lease.end,
            not_meant,
            attempts,
            cursor.history.of(attempts),
        )
        self._delivery.streams[lease.session].hand(text, frame)

    def _skip(self, partition: int, first: int, end: int, code: str, detail: str) -> None:
        self._delivery.skipped(partition, first, end)
        text = stream_messages.gap(partition, first, end, code, detail)
        for stream in self._delivery.streams.values():
            stream.say(text)
