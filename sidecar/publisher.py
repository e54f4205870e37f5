"""The way in: takes a message from an app to its lane, and its outcome back to the app.

Knows no HTTP. What an app is told in which situation is DESIGN's table; see `outcome.py`.
"""

import asyncio
import time
from collections import deque
from typing import Final

from sidecar.batch import Ack, Batch, Committed, Entry
from sidecar.counters import Counters
from sidecar.deadlines import Deadlines
from sidecar.directory import Directory, TopicInfo
from sidecar.errors import (
    Denied,
    InDoubt,
    OverQuota,
    Rejected,
    RingFull,
    SidecarError,
    TooLarge,
    UnknownTopic,
    UplinkDown,
    retry_after,
)
from sidecar.lane import Lane, LaneLimits, Settled
from sidecar.link_state import LinkState
from sidecar.message import Message
from sidecar.partitioner import Partitioner
from sidecar.producer import ProducerState
from sidecar.results import AppendResult, Verdict
from sidecar.uplink import Uplink

SWEEP_S: Final = 0.02
"""How exact a timeout is: finer than any app can tell."""
RETRY_AFTER_DOWN_S: Final = 1.0
"""What apps are told while no gatekeeper answers: about as long as one takes to restart."""


class Publisher:
    """Accepts messages and answers for them. Belongs to the event loop."""

    def __init__(
        self,
        directory: Directory,
        producers: ProducerState,
        limits: LaneLimits,
        counters: Counters,
    ) -> None:
        self._directory = directory
        self._producers = producers
        self._limits = limits
        self._counters = counters
        self._uplink: Uplink | None = None
        self._partitioners: dict[str, Partitioner] = {}
        self._deadlines = Deadlines()
        self._sweeper: asyncio.TimerHandle | None = None
        self._wait_for_room: dict[Lane, deque[Entry]] = {}
        self.lanes: dict[tuple[str, int], Lane] = {}

    def attach(self, uplink: Uplink) -> None:
        """The uplink and the publisher know each other; this closes the circle."""
        self._uplink = uplink

    async def publish(
        self, message: Message, ack: Ack, timeout_s: float, partition: int | None = None
    ) -> Committed:
        """Publish one message and wait for its outcome."""
        if not self._linked.connected:
            raise self._down()
        if self._directory.known(message.topic) is None:
            await self._directory.lookup(message.topic)
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[Committed] = loop.create_future()

        def reply(result: Committed | SidecarError) -> None:
            if outcome.done():
                return
            if isinstance(result, SidecarError):
                outcome.set_exception(result)
            else:
                outcome.set_result(result)

        self.accept(Entry(message, ack, reply), timeout_s, partition)
        return await outcome

    def accept(self, entry: Entry, timeout_s: float, partition: int | None = None) -> None:
        """Take responsibility for `entry`: its reply is called, once, in any case."""
        now = time.monotonic()
        topic = entry.message.topic
        if partition is None:
            partition = self._partitioner(topic).partition(entry.message.key)
        lane = self._lane(topic, partition)
        self._deadlines.add(entry, now, timeout_s)
        if self._sweeper is None:
            self._sweeper = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)
        if lane in self._wait_for_room or not lane.offer(entry, now):
            self._wait_for_room.setdefault(lane, deque()).append(entry)
            return
        entry.accepted = True
        self._linked.wake(lane)

    def settled(self, lane: Lane, settled: list[Settled]) -> None:
        """Answer the apps of batches whose fate is known."""
        for each in settled:
            result, batch = each.result, each.batch
            if result.verdict is Verdict.COMMITTED:
                self._counters.committed(len(batch.entries), len(batch.frame))
                for index, entry in enumerate(batch.entries):
                    if entry.reply is not None:
                        entry.answer(batch.committed(index, result.base_offset, result.durability))
            else:
                self._refuse(batch, result)
        self._admit(lane)

    def link_changed(self, state: LinkState) -> None:
        """The uplink came or went: what was never sent is handed back to its apps."""
        if state.connected:
            for lane in self.lanes.values():
                self._linked.wake(lane)
            return
        for lane in self.lanes.values():
            for entry in lane.abandon():
                entry.answer(self._down())
            self._admit(lane)

    @property
    def waiting_messages(self) -> int:
        """Messages in rings, not yet in a batch."""
        return sum(len(lane.ring) for lane in self.lanes.values())

    @property
    def unsettled_batches(self) -> int:
        """Batches that are under way or in doubt."""
        return sum(len(lane.queue) for lane in self.lanes.values())

    @property
    def _linked(self) -> Uplink:
        if self._uplink is None:
            raise RuntimeError("the publisher was used before its uplink was attached")
        return self._uplink

    def _down(self) -> UplinkDown:
        reason = self._linked.state.reason or "the link was lost"
        return UplinkDown(
            f"no gatekeeper can take messages now ({reason}); the message was never sent",
            headers=retry_after(RETRY_AFTER_DOWN_S),
        )

    def _partitioner(self, topic: str) -> Partitioner:
        info = self._directory.known(topic)
        partitioner = self._partitioners.get(topic)
        if partitioner is None or (info is not None and partitioner.info != info):
            partitioner = self._partitioners[topic] = Partitioner(info or TopicInfo())
        return partitioner

    def _lane(self, topic: str, partition: int) -> Lane:
        lane = self.lanes.get((topic, partition))
        if lane is None:
            lane = Lane(topic, partition, self._producers, self._limits)
            self.lanes[topic, partition] = lane
        return lane

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
                entry.accepted = True
            queue.popleft()
        del self._wait_for_room[lane]
        self._linked.wake(lane)

    def _refuse(self, batch: Batch, result: AppendResult) -> None:
        if result.code in ("unknown_topic", "unknown_partition"):
            self._directory.forget(batch.producer.topic)
        if result.code == "denied":
            self._counters.denied(batch.producer.topic, len(batch.entries), result)
        error = refusal_error(batch, result)
        for entry in batch.entries:
            entry.answer(error)

    def _sweep(self) -> None:
        self._sweeper = None
        for entry in self._deadlines.sweep(time.monotonic()):
            if entry.accepted:
                self._counters.in_doubt += 1
                entry.answer(
                    InDoubt(
                        "no answer from the log in time; the sidecar goes on trying. "
                        "Ask again with the same id to learn the outcome"
                    )
                )
            else:
                entry.answer(
                    RingFull(
                        "limits.ring_entries_max or ring_bytes_max: the partition's ring stayed "
                        "full; the message was never sent. Slow down, or ask again",
                        headers=retry_after(RETRY_AFTER_DOWN_S),
                    )
                )
        if self._deadlines:
            self._sweeper = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)


def refusal_error(batch: Batch, result: AppendResult) -> SidecarError:
    """What an app is told of a refused batch."""
    if result.verdict is Verdict.COMMITTED_UNPLACED:
        return InDoubt(f"the message is in the log, its offset is not remembered: {result.detail}")
    if batch.doubtful:
        return InDoubt(
            f"an earlier try had no answer, and now the log refuses: {result.detail}. "
            "The message may be in the log"
        )
    if result.verdict is Verdict.OVER_QUOTA:
        wait = result.retry_after_s or RETRY_AFTER_DOWN_S
        return OverQuota(result.detail, headers=retry_after(wait))
    if result.verdict is Verdict.NOT_NOW:
        wait = result.retry_after_s or RETRY_AFTER_DOWN_S
        return UplinkDown(f"{result.code}: {result.detail}", headers=retry_after(wait))
    if result.code == "denied":
        members = {"decision_id": result.decision_id, "reason": result.reason}
        return Denied(result.detail, members={k: v for k, v in members.items() if v is not None})
    if result.code in ("unknown_topic", "unknown_partition"):
        return UnknownTopic(result.detail)
    if result.code == "too_large":
        return TooLarge(result.detail)
    return Rejected(f"{result.code}: {result.detail}")
