"""One partition's way out: ring, closed batches, and those in flight, in one unbroken order.

A pure state machine: it takes `now` and results, and never awaits. It knows neither the network
nor files; the uplink loads it and tells it what came back, the outbox stores what it must keep.
The order of a lane's messages is: `queue`, then `shelf`, then `tail`, then `ring`.
"""

import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from sidecar.publish.batch import Ack, Batch, Entry, make_batch, take_run
from sidecar.publish.compressor import Compressor, Mode
from sidecar.publish.flight import BATCHES_IN_FLIGHT_MAX, Flight, Flights
from sidecar.publish.numbering import CountedOrders, Epochs, Numbering, Orders
from sidecar.publish.producer import ProducerEpoch
from sidecar.publish.results import AppendResult, Verdict
from sidecar.publish.ring import Ring
from sidecar.publish.settlement import LATE_S_MAX, Settled, settle_flights
from sidecar.spool.shelf import Shelf

FLIGHT_BYTES: Final = 1024 * 1024
"""About what one of several requests carries, uncompressed: large batches go one by one, so that
sidecar, gatekeeper and core each have one to work on; small ones go together."""
FOLLOW_BYTES: Final = 512 * 1024
"""So much must wait, or a whole batch, before a further request follows those under way. Less
gains nothing by not waiting for the answer, and may overtake a larger one on the way."""
RESIDENT_MAX: Final = 2 * BATCHES_IN_FLIGHT_MAX
"""Stored batches that stay in memory too: those under way, and as many that follow."""


@dataclass(frozen=True, slots=True)
class LaneLimits:
    """How much may wait in one partition, and how large a batch gets."""

    ring_entries_max: int
    ring_bytes_max: int
    batch_bytes_max: int
    linger_s: float
    compression: Mode = "auto"


class Lane:
    """Messages of one partition, from the moment they are accepted until their fate is known.

    Invariants. Batches of one owner have contiguous sequences, oldest first. The first `in_flight`
    batches of the queue are in the requests under way, all of one owner. A doubtful batch is never
    overtaken and never restamped before the log has surely refused it; a batch of a newer owner
    is not sent while one of an older owner is unsettled: so a retry neither doubles nor reorders.
    What is stored is a prefix of the lane, so that a crash leaves no gap. Belongs to the event
    loop.
    """

    __slots__ = (
        "_close_at", "_compressor", "_flights", "_limits", "_lost_at", "_numbering", "_retry_at",
        "_sent_owner", "partition", "queue", "refilling", "ring", "shelf", "single", "stalled",
        "tail", "topic", "unsynced", "waiters",
    )  # fmt: skip

    def __init__(
        self,
        topic: str,
        partition: int,
        producers: Epochs,
        limits: LaneLimits,
        orders: Orders | None = None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.ring: Ring[Entry] = Ring(limits.ring_entries_max, limits.ring_bytes_max)
        self.queue: deque[Batch] = deque()
        self.shelf = Shelf()
        self.tail: deque[Batch] = deque()
        self.waiters: dict[int, list[Entry]] = {}
        self.refilling = False
        self.single = False
        self.stalled = False
        self.unsynced = 0
        self._flights = Flights()
        self._limits = limits
        self._compressor = Compressor(limits.compression)
        self._numbering = Numbering(producers, orders if orders is not None else CountedOrders())
        self._sent_owner: ProducerEpoch | None = None
        self._close_at = 0.0
        self._retry_at = 0.0
        self._lost_at = -LATE_S_MAX

    @property
    def in_flight(self) -> int:
        """Batches at the head of the queue that are under way."""
        return self._flights.batches

    @property
    def empty(self) -> bool:
        """Nothing of this lane is unsettled."""
        return not (self.queue or self.shelf or self.tail or self.ring or self.refilling)

    @property
    def on_disk_only(self) -> bool:
        """Whether something has to be read from the spool before newer messages can go."""
        return bool(self.shelf) or self.refilling

    @property
    def flows(self) -> bool:
        """Whether a message that is accepted now is likely to be sent at once."""
        return not self.on_disk_only and (not self.stalled or self.empty)

    def offer(self, entry: Entry, now: float) -> bool:
        """Accept `entry` behind all others; False where the ring would wrap."""
        if not self.in_flight and not self.queue and not self.ring:
            self._close_at = now + self._limits.linger_s
        entry.lane = self
        return self.ring.put(entry, entry.size)

    def drop_for(self, size: int) -> int:
        """Make room for `size` bytes by dropping the oldest messages that nobody answers for.

        Stops at the first whose app was promised more than `ack=none`; returns how many went.
        """
        dropped = 0
        while self.ring and not self.ring.has_room(size) and self.ring.peek().ack is Ack.NONE:
            dropped += self.ring.take().count
        return dropped

    def due_at(self) -> float | None:
        """When there is something to send; None while there is nothing, or an answer is awaited."""
        flying = self.in_flight
        if flying and (self.single or not self._flights.may_follow):
            return None
        if len(self.queue) > flying:
            return self._retry_at if self._may_go(self.queue[flying]) else None
        if not self.ring or self.on_disk_only:
            return None
        full = self._limits.batch_bytes_max
        if flying:
            enough = self.ring.held_bytes >= min(full, FOLLOW_BYTES)
            return self._retry_at if enough else None
        if self.ring.held_bytes >= full:
            return self._retry_at
        return max(self._retry_at, self._close_at)

    def load(self, bytes_max: int) -> Flight | None:
        """Take batches for one request; None where none may go now. They stay until settled.

        What is under way is of one owner: a batch of a newer epoch would fence an older one that
        is in doubt.
        """
        if self.due_at() is None:
            return None
        self._queue_tail()
        taken: list[Batch] = []
        room = FLIGHT_BYTES
        while self.in_flight + len(taken) < BATCHES_IN_FLIGHT_MAX:
            batch = self._batch_at(self.in_flight + len(taken), room)
            if batch is None or not self._may_go(batch):
                break
            if taken and (
                self.single
                or batch.size > room
                or len(batch.frame) > bytes_max
                or batch.owner != taken[0].owner
            ):
                break
            taken.append(batch)
            room -= batch.size
            bytes_max -= len(batch.frame)
        if not taken:
            return None
        self.single = False
        self._sent_owner = taken[0].owner
        return self._flights.begin(taken)

    def settle(self, flight: Flight, results: Sequence[AppendResult], now: float) -> list[Settled]:
        """Take in one result for each batch of `flight`; return those whose fate is now known.

        They may be of other flights too: an answer that overtook another has waited for it.
        """
        if any(result.verdict is Verdict.DOUBT for result in results):
            self._lost_at = now
        down = self._flights.answer(flight, results)
        if not down:
            return []
        for _ in range(sum(len(each.batches) for each in down)):
            self.queue.popleft()
        self._close_at = now
        decision = settle_flights(down, now, self._lost_at)
        for each in decision.settled:
            self._resolve(each.batch)
        if decision.progressed:
            self.stalled = False
        if decision.retry_at is not None:
            self._retry_at = decision.retry_at
        if decision.fenced:
            self._numbering.replace_id()
        self.queue.extendleft(reversed(decision.rest))
        if decision.mend_from is not None:
            self._mend(decision.mend_from)
        elif decision.ends_refused and not self.queue and not self.on_disk_only:
            self._numbering.begin_anew()
        return decision.settled

    def inherit(self, places: Iterable[tuple[int, float]], now: float) -> None:
        """What an earlier run has left on disk comes before everything of this one."""
        self.shelf.extend(places)
        self.stalled = True
        self._lost_at = now

    def abandon(self) -> list[Entry]:
        """Give up what was surely never taken in, by log or spool; return its entries."""
        entries: list[Entry] = []
        for batches, flying in ((self.tail, 0), (self.queue, self.in_flight)):
            while len(batches) > flying and self._is_unused(batches[-1]):
                entries[:0] = batches.pop().entries
                self._numbering.begin_anew()
            if batches or self.on_disk_only:
                break
        while self.ring:
            entries.append(self.ring.take())
        return entries

    def put_back(self, entries: Sequence[Entry]) -> None:
        """Let entries that `abandon` has returned wait again, whatever the ring's limits say."""
        self.ring.refill([(entry, entry.size) for entry in entries])

    def close_all(self) -> None:
        """Close what waits in the ring, so that it can be stored."""
        while self.ring:
            (self.tail if self.on_disk_only or self.tail else self.queue).append(
                self._close_batch()
            )

    def to_store(self) -> list[Batch]:
        """The batches that are not on disk as they are now, oldest first."""
        return [
            batch
            for batch in itertools.chain(self.queue, self.tail)
            if batch.position is None and not batch.storing
        ]

    def stored(self, batch: Batch, position: int, frame: bytes) -> list[int]:
        """`frame` of `batch` is on disk at `position`; return positions that are of no use now."""
        batch.storing = False
        if batch.resolved:
            self.unsynced -= 1
            return [position, *batch.replaces]
        if batch.frame is not frame:
            # It got another place in the sequence meanwhile and has to be stored once more.
            batch.replaces.append(position)
            return []
        batch.position = position
        useless, batch.replaces = batch.replaces, []
        return useless

    def not_stored(self, batch: Batch) -> None:
        """The disk did not take `batch`."""
        batch.storing = False
        if batch.resolved:
            self.unsynced -= 1

    def shelve(self, written_s: float) -> None:
        """Leave stored batches to the disk alone, beyond those that are soon to be sent."""
        moved: deque[Batch] = deque()
        if self.on_disk_only:
            while self.tail and _is_stored(self.tail[0]):
                moved.append(self.tail.popleft())
        else:
            resident = max(RESIDENT_MAX, self.in_flight)
            while len(self.queue) > resident and _is_stored(self.queue[-1]):
                moved.appendleft(self.queue.pop())
        for batch in moved:
            if batch.position is not None:
                self.shelf.extend([(batch.position, written_s)])
                if batch.waits:
                    self.waiters[batch.position] = batch.entries

    def wants_refill(self) -> bool:
        """Whether batches should be read from the spool now."""
        return bool(self.shelf) and not self.refilling and len(self.queue) < BATCHES_IN_FLIGHT_MAX

    def begin_refill(self) -> list[int]:
        """The positions to read next. Nothing overtakes them until `end_refill`."""
        self.refilling = True
        return self.shelf.take(BATCHES_IN_FLIGHT_MAX)

    def end_refill(self, batches: Sequence[Batch]) -> None:
        """They were read: let them follow in the queue."""
        self.refilling = False
        for batch in batches:
            if batch.position is not None:
                batch.entries = self.waiters.pop(batch.position, [])
            self._enter(batch)
        self._queue_tail()

    def cancel_refill(self, positions: Sequence[int], written_s: float) -> None:
        """They could not be read: leave them on the shelf, in front as before."""
        self.refilling = False
        self.shelf.put_back(positions, written_s)

    @property
    def awaits_marks(self) -> bool:
        """Whether the next batch may not be sent before the marks of older ones are on disk."""
        flying = self.in_flight
        return (
            len(self.queue) > flying
            and bool(self.unsynced)
            and (self._must_wait(self.queue[flying]))
        )

    @property
    def must_store(self) -> bool:
        """Whether batches cannot be sent before they are stored with their new stamp."""
        return any(batch.replaces for batch in self.queue)

    def each_batch(self) -> Iterator[Batch]:
        """All batches in memory, oldest first."""
        return itertools.chain(self.queue, self.tail)

    def done_synced(self, count: int) -> None:
        """So many marks of settled records are on disk for good."""
        self.unsynced -= count

    def _must_wait(self, batch: Batch) -> bool:
        """A restamped batch is stored first; a new owner waits for the marks of the older one.

        After a crash, a record of an older owner that is not marked is then surely not in the log.
        """
        return bool(batch.replaces) or (bool(self.unsynced) and batch.owner != self._sent_owner)

    def _may_go(self, batch: Batch) -> bool:
        """Whether the first batch that is not under way may be."""
        if self.in_flight and batch.owner != self._sent_owner:
            return False
        return not self._must_wait(batch)

    def _batch_at(self, place: int, room: int) -> Batch | None:
        """The batch at a place of the queue, closed now where the ring has it.

        One that would not fit behind others stays open: by its turn more may have joined it.
        """
        if place == len(self.queue) and self.ring and not self.on_disk_only:
            size = min(self.ring.held_bytes, self._limits.batch_bytes_max)
            if room == FLIGHT_BYTES or size <= room:
                self.queue.append(self._close_batch())
        return self.queue[place] if place < len(self.queue) else None

    def _resolve(self, batch: Batch) -> None:
        batch.resolved = True
        if batch.storing:
            # Its record appears on disk just now, and will need a mark.
            self.unsynced += 1

    @staticmethod
    def _is_unused(batch: Batch) -> bool:
        return not (batch.doubtful or batch.storing or batch.replaces) and batch.position is None

    def _queue_tail(self) -> None:
        """What waited behind the shelf follows once the shelf is empty."""
        while self.tail and not self.on_disk_only:
            self._enter(self.tail.popleft())

    def _enter(self, batch: Batch) -> None:
        """Join the queue, with a new stamp where something before the batch left a gap."""
        self._numbering.mend_one(batch)
        self.queue.append(batch)

    def _close_batch(self) -> Batch:
        entries = take_run(self.ring, self._limits.batch_bytes_max)
        owner, first_sequence, order = self._numbering.next_place()
        batch = make_batch(
            self.topic, self.partition, owner, first_sequence, entries, order, self._compressor
        )
        self._numbering.used(batch.producer.count)
        return batch

    def _mend(self, behind: int) -> None:
        """Something behind the first `behind` batches of the queue will never be in the log."""
        follow = list(itertools.islice(self.queue, behind, None))
        if follow:
            self._numbering.mend(follow, more_behind=self.on_disk_only or bool(self.tail))
        elif not self.on_disk_only:
            self._numbering.begin_anew()
        # Else what follows is on disk. If the log refuses that too, there is no gap to mend; if
        # it finds the gap, it says so, and this comes back with batches that follow.


def _is_stored(batch: Batch) -> bool:
    return batch.position is not None and not batch.storing
