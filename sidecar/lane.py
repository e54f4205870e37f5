"""One partition's way out: ring, closed batches, and those in flight, in one unbroken order.

A pure state machine: it takes `now` and results, and never awaits. It knows no network; the
uplink loads it, sends, and tells it what came back.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from log_format.sequence import sequence_after
from sidecar.batch import Ack, Batch, Entry, make_batch
from sidecar.producer import ProducerEpoch, ProducerState
from sidecar.results import IN_THE_LOG, AppendResult, Verdict
from sidecar.ring import Ring

BATCHES_IN_FLIGHT_MAX: Final = 5
"""As many as a log with Kafka's rules remembers of a producer, so that a repeat is recognised."""
RECORD_OVERHEAD_BYTES: Final = 32
"""What the columns add to each record: its event time, and an offset in up to five columns."""
RETRY_AFTER_DEFAULT_S: Final = 1.0
"""The wait after "not now" where the answer names none: the span of most quotas."""


@dataclass(frozen=True, slots=True)
class LaneLimits:
    """How much may wait in one partition, and how large a batch gets."""

    ring_entries_max: int
    ring_bytes_max: int
    batch_bytes_max: int
    linger_s: float


@dataclass(frozen=True, slots=True)
class Settled:
    """A batch whose fate is known."""

    batch: Batch
    result: AppendResult


class Lane:
    """Messages of one partition, from the moment they are accepted until their fate is known.

    Invariant: the batches of `queue` have contiguous sequences for each owner, oldest first; the
    first `in_flight` of them are in the one request that is under way; whatever is in the ring is
    newer than every batch. A doubtful batch is never restamped nor overtaken, so a retry can
    neither duplicate nor reorder. Belongs to the event loop.
    """

    __slots__ = (
        "_close_at",
        "_limits",
        "_next_sequence",
        "_owner",
        "_producers",
        "_retry_at",
        "_single",
        "in_flight",
        "partition",
        "queue",
        "ring",
        "topic",
    )

    def __init__(
        self, topic: str, partition: int, producers: ProducerState, limits: LaneLimits
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.ring: Ring[Entry] = Ring(limits.ring_entries_max, limits.ring_bytes_max)
        self.queue: deque[Batch] = deque()
        self.in_flight = 0
        self._producers = producers
        self._limits = limits
        self._owner: ProducerEpoch | None = producers.current
        self._next_sequence = 0
        self._close_at = 0.0
        self._retry_at = 0.0
        self._single = False

    def offer(self, entry: Entry, now: float) -> bool:
        """Accept `entry` behind all others; False where the ring would wrap."""
        if not self.in_flight and not self.queue and not self.ring:
            self._close_at = now + self._limits.linger_s
        return self.ring.put(entry, entry.message.size + RECORD_OVERHEAD_BYTES)

    def due_at(self) -> float | None:
        """When there is something to send; None while there is nothing, or an answer is awaited."""
        if self.in_flight:
            return None
        if self.queue:
            return self._retry_at
        if not self.ring:
            return None
        if self.ring.held_bytes >= self._limits.batch_bytes_max:
            return self._retry_at
        return max(self._retry_at, self._close_at)

    def load(self, bytes_max: int) -> list[Batch]:
        """Take up to five batches for one request. They stay in the queue until settled.

        All are of one owner: a batch of a newer epoch would fence an older one that is in doubt.
        """
        if self.in_flight:
            return []
        while self.ring and len(self.queue) < BATCHES_IN_FLIGHT_MAX:
            self._close_batch()
        taken: list[Batch] = []
        size = 0
        for batch in self.queue:
            size += len(batch.frame)
            if taken and (
                size > bytes_max
                or self._single
                or len(taken) == BATCHES_IN_FLIGHT_MAX
                or batch.owner != taken[0].owner
            ):
                break
            taken.append(batch)
        self._single = False
        self.in_flight = len(taken)
        return taken

    def single(self) -> None:
        """The next request carries one batch only: one of several was no sound frame."""
        self._single = True

    def settle(self, results: Sequence[AppendResult], now: float) -> list[Settled]:
        """Take in one result for each batch in flight; return those whose fate is now known."""
        flight = [self.queue.popleft() for _ in range(self.in_flight)]
        self.in_flight = 0
        self._close_at = now
        settled: list[Settled] = []
        keep: list[Batch] = []
        again: list[Batch] | None = None
        for batch, result in zip(flight, results, strict=True):
            if self._is_final(batch, result):
                settled.append(Settled(batch, result))
                if result.verdict not in IN_THE_LOG:
                    again = again or []
                continue
            if result.verdict is Verdict.DOUBT:
                # Behind a batch that was refused, the log would have found a gap: no doubt there.
                batch.doubtful = again is None
            elif result.verdict is Verdict.FENCED:
                self._producers.replace_id()
                again = again or []
            elif result.verdict is Verdict.GAP:
                if not keep:
                    again = again or []
            else:
                self._retry_at = now + (result.retry_after_s or RETRY_AFTER_DEFAULT_S)
            (keep if again is None else again).append(batch)
        if again is not None:
            again.extend(self.queue)
            self.queue.clear()
            self._restamp(again)
        self.queue.extendleft(reversed(keep + (again or [])))
        return settled

    def lost(self, *, sent: bool) -> None:
        """No answer came. `sent` is False only where not one byte can have reached anybody."""
        if sent:
            for _, batch in zip(range(self.in_flight), self.queue, strict=False):
                batch.doubtful = True
        self.in_flight = 0

    def abandon(self) -> list[Entry]:
        """Give up everything that was surely never taken in by the log; return its entries.

        Their sequences were never used and are given to the next batches.
        """
        if self.in_flight:
            return []
        entries: list[Entry] = []
        while self.queue and not self.queue[-1].doubtful:
            batch = self.queue.pop()
            entries[:0] = batch.entries
            self._owner, self._next_sequence = batch.owner, batch.producer.first_sequence
        while self.ring:
            entries.append(self.ring.take())
        return entries

    @staticmethod
    def _is_final(batch: Batch, result: AppendResult) -> bool:
        if result.verdict in (Verdict.REFUSED, *IN_THE_LOG):
            return True
        if result.verdict not in (Verdict.OVER_QUOTA, Verdict.NOT_NOW) or batch.doubtful:
            return False
        # Taken back only while every app still waits to be told so: to those that gave up, or
        # never waited, the sidecar has promised to go on trying.
        return all(
            entry.reply is not None and entry.ack in (Ack.AUTO, Ack.CORE) for entry in batch.entries
        )

    def _close_batch(self) -> None:
        entries = [self.ring.take()]
        size = entries[0].message.size + RECORD_OVERHEAD_BYTES
        while self.ring:
            size += self.ring.peek().message.size + RECORD_OVERHEAD_BYTES
            if size > self._limits.batch_bytes_max:
                break
            entries.append(self.ring.take())
        if self._owner is None:
            self._owner, self._next_sequence = self._producers.raise_epoch(), 0
        batch = make_batch(self.topic, self.partition, self._owner, self._next_sequence, entries)
        self._next_sequence = sequence_after(self._next_sequence, len(entries))
        self.queue.append(batch)

    def _restamp(self, batches: list[Batch]) -> None:
        """Begin a new epoch with `batches`: what was refused before them left a gap."""
        self._owner, self._next_sequence = None, 0
        if batches:
            self._owner = self._producers.raise_epoch()
        for batch in batches:
            if self._owner is not None:
                batch.restamp(self._owner, self._next_sequence)
            self._next_sequence = sequence_after(self._next_sequence, batch.producer.count)
