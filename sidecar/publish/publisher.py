"""The way in: takes a message from an app to its lane, and its outcome back to the app.

Every answer comes from the table in `outcome.py`. Knows no HTTP. The uplink sends what the lanes
hold, the outbox stores what has to outlive a crash; both report back here.
"""

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Callable
from typing import Final, Literal

from sidecar.counters import Counters
from sidecar.errors import SidecarError
from sidecar.publish.backlog import Place
from sidecar.publish.batch import Ack, Batch, Entry, Kept, Lines, Outcome
from sidecar.publish.deadlines import Deadlines
from sidecar.publish.dedupe_gate import DedupeGate
from sidecar.publish.lane import Lane, LaneLimits
from sidecar.publish.message import Message
from sidecar.publish.outcome import OUTCOMES, Answer, Situation
from sidecar.publish.partitioner import Partitioner
from sidecar.publish.producer import ProducerState
from sidecar.publish.refusals import in_doubt, never_sent, refusal_error, ring_full, spool_full
from sidecar.publish.results import AppendResult, Verdict
from sidecar.publish.settlement import Settled
from sidecar.spool.outbox import Outbox
from sidecar.uplink.directory import Directory
from sidecar.uplink.link_state import LinkState
from sidecar.uplink.topic_memory import TopicInfo
from sidecar.uplink.uplink import Uplink

log = logging.getLogger("sidegate.sidecar")

SWEEP_S: Final = 0.02
"""How exact a timeout is: finer than any app can tell."""

Overflow = Literal["wait", "reject", "drop_oldest"]
RejectSink = Callable[[Batch, AppendResult], bool]
"""Keeps a refused batch where people can find it; False where it could not."""


class Publisher:
    """Accepts messages and answers for them. Belongs to the event loop."""

    def __init__(
        self,
        directory: Directory,
        producers: ProducerState,
        limits: LaneLimits,
        counters: Counters,
        uplink: Uplink,
        outbox: Outbox,
        dedupe: DedupeGate,
        reject: RejectSink,
        overflow: Overflow = "wait",
    ) -> None:
        self._directory = directory
        self._producers = producers
        self._limits = limits
        self._counters = counters
        self._uplink = uplink
        self._outbox = outbox
        self._dedupe = dedupe
        self._reject = reject
        self._overflow = overflow
        self._partitioners: dict[str, Partitioner] = {}
        self._deadlines = Deadlines()
        self._sweeper: asyncio.TimerHandle | None = None
        self._wait_for_room: dict[Lane, deque[Entry]] = {}
        self._order = -1
        self._hurries = False
        self._lookups: set[asyncio.Task[None]] = set()
        self.lanes: dict[tuple[str, int], Lane] = {}
        uplink.on_settled, uplink.on_state = self._settled, self._link_changed
        uplink.on_lost = self._lost
        outbox.on_found, outbox.on_stored = self._found, self._stored
        outbox.on_refused, outbox.on_ready = self._store_refused, self._ready
        outbox.on_drain, outbox.on_ids = self._keep_all, dedupe.found_in_spool

    async def publish(
        self, payload: Message | Lines, ack: Ack, timeout_s: float, partition: int | None = None
    ) -> Outcome:
        """Publish and wait for the outcome; a refusal is raised."""
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

        def reply(outcome: Outcome) -> None:
            if not future.done():
                future.set_result(outcome)

        self.submit(Entry(payload, ack, reply), timeout_s, partition)
        outcome = await future
        if isinstance(outcome, SidecarError):
            raise outcome
        return outcome

    async def partitioner(self, topic: str) -> Partitioner:
        """How the topic's messages are spread, learnt first where that is not known."""
        if self._directory.known(topic) is None and self._uplink.connected:
            await self._directory.lookup(topic)
        return self._partitioner(topic)

    def submit(self, entry: Entry, timeout_s: float, partition: int | None = None) -> None:
        """Take responsibility for `entry`: its reply is called, once, in any case."""
        if isinstance(entry.payload, Message) and entry.payload.id is not None:
            self._dedupe.pass_on(entry, timeout_s, partition, self._submit, self._wait)
        else:
            self._submit(entry, timeout_s, partition)

    def _submit(self, entry: Entry, timeout_s: float, partition: int | None) -> None:
        topic = entry.payload.topic
        if self._directory.known(topic) is None and self._uplink.connected:
            task = asyncio.create_task(self._look_up(entry, timeout_s, partition))
            self._lookups.add(task)
            task.add_done_callback(self._lookups.discard)
        else:
            self._accept(entry, timeout_s, partition)

    async def _look_up(self, entry: Entry, timeout_s: float, partition: int | None) -> None:
        """Learn how the topic is divided first; that takes one question for all who wait."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._directory.lookup(entry.payload.topic)
        except TimeoutError:
            # Its partition is not known; every topic has a first one, and order must not suffer.
            pass
        self._accept(entry, timeout_s, partition)

    def _accept(self, entry: Entry, timeout_s: float, partition: int | None = None) -> None:
        payload = entry.payload
        if partition is None:
            key = payload.key if isinstance(payload, Message) else None
            partition = self._partitioner(payload.topic).partition(key)
        lane = self._lane(payload.topic, partition)
        store = entry.keep
        situation = self._situation(lane)
        if situation is not None:
            answer = OUTCOMES[situation][entry.ack]
            if answer is Answer.NEVER_SENT:
                entry.answer(self._never_sent())
                return
            store = answer in (Answer.SPOOLED, Answer.TAKEN)
            entry.keep = answer is Answer.SPOOLED
        if store and not self._outbox.has_room(entry.size):
            entry.answer(self._spool_full())
            return
        self._enter(lane, entry, timeout_s)
        if store and entry.accepted:
            self._outbox.keep(lane, entry.size)

    def _situation(self, lane: Lane) -> Situation | None:
        """What stands between a new message of this lane and the log, if anything does."""
        if not self._uplink.connected:
            return Situation.UPLINK_DOWN
        return None if lane.flows else Situation.BEHIND_SPOOL

    def _enter(self, lane: Lane, entry: Entry, timeout_s: float) -> None:
        now = time.monotonic()
        if lane not in self._wait_for_room and lane.offer(entry, now):
            self._accepted(lane, entry)
        elif self._overflow == "reject":
            entry.answer(ring_full())
        elif self._overflow == "drop_oldest" and entry.ack is Ack.NONE:
            self._counters.dropped_messages += lane.drop_for(entry.size)
            self._wait_for_room.setdefault(lane, deque()).append(entry)
            self._admit(lane)
        else:
            self._wait_for_room.setdefault(lane, deque()).append(entry)
        if entry.reply is not None:
            self._wait(entry, timeout_s)

    def _wait(self, entry: Entry, timeout_s: float) -> None:
        """Answer `entry` when its time is up, if nothing else has by then."""
        self._deadlines.add(entry, time.monotonic(), timeout_s)
        if self._sweeper is None:
            self._sweeper = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)

    def _accepted(self, lane: Lane, entry: Entry) -> None:
        entry.accepted = True
        if entry.ack is Ack.NONE:
            entry.answer(Kept(entry.payload.topic, entry.own_id, "none"))
        self._uplink.wake(lane)

    def hurry(self) -> None:
        """The sidecar stops: from now on nobody waits longer than it takes to store a message."""
        self._hurries = True
        self._directory.hurry()
        if self._sweeper is not None:
            self._sweeper.cancel()
        self._sweep()

    # What the uplink reports.

    def _settled(self, lane: Lane, settled: list[Settled]) -> None:
        for each in settled:
            result, batch = each.result, each.batch
            if result.verdict is Verdict.COMMITTED:
                self._counters.committed(batch.producer.count, len(batch.frame))
                self._dedupe.committed(batch, result.base_offset, result.durability)
                batch.answer_committed(result.base_offset, result.durability)
            else:
                self._refuse(batch, result)
            self._outbox.settle(lane, batch)
        if lane.must_store:
            self._outbox.keep(lane)
        self._ready(lane)

    def _lost(self, lane: Lane) -> None:
        """An answer was lost: the lane stands still until its batches are settled."""
        lane.stalled = True

    def _link_changed(self, state: LinkState) -> None:
        for lane in list(self.lanes.values()):
            if state.connected:
                self._ready(lane)
            elif not lane.empty:
                self._cut_off(lane)

    def _cut_off(self, lane: Lane) -> None:
        """The link is down: what was never sent is handed back or stored, the rest is stored."""
        lane.stalled = True
        back: list[Entry] = []
        for entry in lane.abandon():
            if entry.reply is not None and entry.ack is Ack.CORE:
                entry.answer(self._never_sent())
            else:
                back.append(entry)
        lane.put_back(back)
        for entry in back:
            entry.keep = entry.ack is not Ack.CORE
        for batch in lane.each_batch():
            for entry in batch.entries:
                self._keep_if_auto(entry)
        if not lane.empty:
            self._outbox.keep(lane)
        self._admit(lane)

    # What the outbox reports.

    def _found(self, topic: str, partition: int, places: list[Place]) -> Lane:
        lane = self._lane(topic, partition)
        lane.inherit(places, time.monotonic())
        return lane

    def _stored(self, lane: Lane, batches: list[Batch]) -> None:
        for batch in batches:
            for entry in batch.entries:
                entry.answer_stored()
        self._admit(lane)

    def _store_refused(self, lane: Lane, batches: list[Batch], error: Exception) -> None:
        """The disk is full or broken. What was never sent is handed back; the rest is in doubt."""
        self._counters.spool_refusals += 1
        kept: list[Entry] = []
        if not self._uplink.connected and not getattr(error, "unsure", False):
            for entry in lane.abandon():
                if entry.reply is not None:
                    entry.answer(self._spool_full(str(error)))
                else:
                    kept.append(entry)
            lane.put_back(kept)
        for batch in batches:
            for entry in batch.entries:
                if entry.keep and entry.reply is not None:
                    entry.answer(in_doubt(f"and it could not be kept on disk: {error}"))
        self._admit(lane)

    def _ready(self, lane: Lane) -> None:
        """Something changed for the lane: let in who waits, read on, send."""
        self._admit(lane)
        if self._uplink.connected:
            self._outbox.feed(lane)
            self._uplink.wake(lane)

    def _keep_all(self) -> None:
        for lane in self.lanes.values():
            if not lane.empty:
                self._outbox.keep(lane)

    # Numbers for `/status`.

    @property
    def waiting_messages(self) -> int:
        """Messages in rings, not yet in a batch."""
        return sum(len(lane.ring) for lane in self.lanes.values())

    @property
    def unsettled_batches(self) -> int:
        """Batches in memory that are under way or in doubt."""
        return sum(len(lane.queue) + len(lane.tail) for lane in self.lanes.values())

    @property
    def oldest_stored_s(self) -> float | None:
        """When the oldest batch was written that waits on disk alone, in seconds since 1970."""
        times = [lane.shelf.oldest_s for lane in self.lanes.values()]
        return min((each for each in times if each is not None), default=None)

    # The rest.

    def _never_sent(self) -> SidecarError:
        return never_sent(self._uplink.state.reason)

    def _spool_full(self, why: str | None = None) -> SidecarError:
        return spool_full(why or self._outbox.problem, self._outbox.bytes_max)

    def _partitioner(self, topic: str) -> Partitioner:
        info = self._directory.latest(topic)
        partitioner = self._partitioners.get(topic)
        if partitioner is None or (info is not None and partitioner.info != info):
            partitioner = self._partitioners[topic] = Partitioner(info or TopicInfo())
        return partitioner

    def _lane(self, topic: str, partition: int) -> Lane:
        lane = self.lanes.get((topic, partition))
        if lane is None:
            lane = Lane(topic, partition, self._producers, self._limits, self)
            self.lanes[topic, partition] = lane
        return lane

    def next_order(self) -> int:
        """The order of the next batch, of whatever lane."""
        self._order = max(self._order + 1, self._outbox.next_order)
        return self._order

    def _admit(self, lane: Lane) -> None:
        """Let those in who waited for room, in the order in which they came."""
        queue = self._wait_for_room.get(lane)
        if queue is None:
            return
        now = time.monotonic()
        while queue:
            entry = queue[0]
            if entry.reply is not None:
                if not lane.offer(entry, now):
                    return
                self._accepted(lane, entry)
                if entry.keep or (entry.ack.detached and self._situation(lane) is not None):
                    self._outbox.keep(lane, entry.size)
            queue.popleft()
        del self._wait_for_room[lane]

    def _refuse(self, batch: Batch, result: AppendResult) -> None:
        if result.code in ("unknown_topic", "unknown_partition"):
            self._directory.forget(batch.producer.topic)
        if result.code == "denied":
            self._counters.denied(batch.producer.topic, batch.producer.count, result)
        told = sum(
            entry.count
            for entry in batch.entries
            if entry.reply is not None and not entry.ack.detached
        )
        if result.verdict is Verdict.REFUSED and told < batch.producer.count:
            self._counters.rejected_messages += batch.producer.count
            if self._reject(batch, result):
                for entry in batch.entries:
                    if entry.ack.detached:
                        entry.answer(Kept(entry.payload.topic, entry.own_id, "spooled"))
        error = refusal_error(batch, result)
        batch.answer_all(error)
        if batch.doubtful or result.verdict is Verdict.COMMITTED_UNPLACED:
            self._dedupe.batch_unsettled(batch, error)
        else:
            self._dedupe.batch_refused(batch, error)

    def _keep_if_auto(self, entry: Entry) -> None:
        """What waits for the log now settles for the spool, where its `ack` allows that."""
        if entry.reply is not None and OUTCOMES[Situation.UPLINK_DOWN][entry.ack] is Answer.SPOOLED:
            entry.keep = True
            if entry.stored:
                entry.answer_stored()

    def _sweep(self) -> None:
        self._sweeper = None
        for entry in self._deadlines.sweep(math.inf if self._hurries else time.monotonic()):
            self._expire(entry)
        if self._deadlines:
            self._sweeper = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)

    def _expire(self, entry: Entry) -> None:
        if entry.follows is not None:
            kept = Kept(entry.payload.topic, entry.own_id, "spooled")
            stored = entry.ack is Ack.AUTO and entry.follows.is_stored
            entry.answer(kept if stored else in_doubt())
            return
        if not entry.accepted:
            entry.answer(ring_full())
            return
        lane = entry.lane
        room = self._outbox.has_room(entry.size)
        if lane is not None:
            lane.stalled = True
            if room and not entry.stored:
                self._outbox.keep(lane, entry.size)
        if OUTCOMES[Situation.NO_ANSWER][entry.ack] is Answer.SPOOLED and room:
            self._keep_if_auto(entry)
            return
        self._counters.in_doubt += 1
        entry.answer(in_doubt())
