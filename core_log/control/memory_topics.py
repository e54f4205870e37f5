"""Topics with `storage: memory`: offsets are given out and frames broadcast; nothing is stored.

An engine without a disk. It keeps the newest frames only so that a reader that is a moment late,
or waits for credit, finds them; whoever is later than that has missed them. Offsets begin at 0
with each run of the core and go on without gaps within it. Repeats of a producer are recognised
within a run; a producer that is new to this run may begin at any sequence, since the run before
may have known it.

All of it happens on the event loop, in memory, at once: nothing here waits.
"""

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

from core_log.clock import Clock, SystemClock
from core_log.control.topics import Topic
from core_log.log.engine import Announced, Capabilities, Outcome, Tail
from core_log.log.options import MIB, Retention
from core_log.log.producers import (
    DIGEST_BYTES,
    Batch,
    ProducerKey,
    Producers,
    Refusal,
    Repeat,
    advance,
    judge,
)
from core_log.log.results import CleanReport, Committed, ReadResult, Refused
from log_format.envelope import add_stamp
from log_format.frame import Frame, body_padding
from log_format.parts import Stamp

NO_LEAF: Final = 2**64 - 1
"""The leaf number in the stamp of a frame that is in no log, and so in no tree."""

TAIL_BYTES_MAX: Final = 64 * MIB
"""The newest frames of all memory topics together: seconds of a busy mesh."""
PRODUCERS_MAX: Final = 50_000
"""As many as the log on disk remembers."""

_CAPABILITIES: Final = Capabilities(
    conditional_append=True, exactly_once=True, durable=False, time_lookup=False, retention=False
)
_NOTHING_TO_CLEAN: Final = CleanReport(0, 0, 0, 0, 0, ())


class _Partition:
    """The frames of one partition that are still in memory: offsets from `start` up to `end`.

    Lists with a head, not a deque, so that a late reader's place is found by bisection. Frame
    `n` ends before offset `_ends[n]`; those below `_head` are gone.
    """

    __slots__ = ("_ends", "_frames", "_head", "append_us", "end", "start")

    def __init__(self) -> None:
        self.start = 0
        self.end = 0
        self.append_us = 0
        self._ends: list[int] = []
        self._frames: list[bytes] = []
        self._head = 0

    def push(self, frame: bytes, count: int) -> None:
        self.end += count
        self._ends.append(self.end)
        self._frames.append(frame)

    def pop(self) -> int:
        """Forget the oldest frame; its length."""
        head = self._head
        length = len(self._frames[head])
        self.start = self._ends[head]
        self._frames[head] = b""
        self._head = head + 1
        if self._head * 2 > len(self._frames):
            del self._frames[: self._head], self._ends[: self._head]
            self._head = 0
        return length

    def read(self, offset: int, bytes_max: int) -> ReadResult:
        frames: list[bytes] = []
        size = 0
        next_offset = max(offset, self.start)
        for index in range(bisect_right(self._ends, offset, lo=self._head), len(self._frames)):
            size += len(self._frames[index])
            if frames and size > bytes_max:
                break
            frames.append(self._frames[index])
            next_offset = self._ends[index]
        return ReadResult(tuple(frames), next_offset, self.start, self.end)


class MemoryTopics:
    """All memory topics. Belongs to one event loop.

    Invariant: `_order` names the partition of each frame in memory, oldest frame first, and
    `_bytes` is their length; it is at most `tail_bytes_max`, or one frame.
    """

    def __init__(self, *, tail_bytes_max: int = TAIL_BYTES_MAX, clock: Clock | None = None) -> None:
        self._tail_bytes_max = tail_bytes_max
        self._clock = clock or SystemClock()
        self._partitions: dict[tuple[str, int], _Partition] = {}
        self._order: deque[_Partition] = deque()
        self._bytes = 0
        self._producers = Producers(PRODUCERS_MAX)
        self._tails: list[Tail] = []

    @property
    def capabilities(self) -> Capabilities:
        """No durability, no past."""
        return _CAPABILITIES

    def put_topic(self, topic: Topic) -> None:
        """Nothing to prepare: a partition begins with its first frame."""

    async def drop_topic(self, name: str) -> None:
        """Forget the frames. The offsets stay, so that none is given out twice in this run."""
        for (topic, _), partition in self._partitions.items():
            if topic == name:
                while partition.start < partition.end:
                    self._bytes -= partition.pop()
        self._order = deque(each for each in self._order if each.start < each.end)

    def append(self, frames: Sequence[Frame]) -> "asyncio.Future[Sequence[Outcome]]":
        """Give out offsets and tell the tails, now."""
        answer: asyncio.Future[Sequence[Outcome]] = asyncio.get_running_loop().create_future()
        group: list[Committed] = []
        answer.set_result([self._append(frame, group) for frame in frames])
        if group:
            for tail in self._tails:
                tail(group)
        return answer

    async def append_if(self, frame: Frame, end_offset: int) -> Outcome:
        """Compare and append."""
        producer = frame.envelope.producer
        end = self.end_offset(producer.topic, producer.partition)
        if end != end_offset:
            return Refused(
                producer.topic,
                producer.partition,
                "condition_failed",
                f"the partition was to end at {end_offset} but its end is {end}",
                retryable=False,
                members={"end_offset": end},
            )
        return (await self.append([frame]))[0]

    def _append(self, frame: Frame, group: list[Committed]) -> Outcome:
        producer = frame.envelope.producer
        provenance = frame.envelope.provenance
        principal = provenance.principal if provenance is not None else ""
        key = ProducerKey(principal, producer.producer_id, producer.topic, producer.partition)
        batch = Batch(
            producer.epoch,
            producer.first_sequence,
            producer.count,
            producer.body_sha256[:DIGEST_BYTES],
        )
        state = self._producers.get(key)
        if state is not None:
            match judge(state, batch):
                case Repeat(base_offset, _, append_us):
                    return Announced(
                        producer.topic,
                        producer.partition,
                        base_offset,
                        producer.count,
                        append_us,
                        duplicate=True,
                    )
                case Refusal(code, detail, members):
                    return Refused(
                        producer.topic,
                        producer.partition,
                        code,
                        detail,
                        retryable=code == "sequence_gap",
                        members=members,
                    )
        kept = self._keep(frame)
        group.append(kept)
        self._producers.put(key, advance(state, batch, kept.base_offset, 0, kept.append_us))
        return Announced(
            kept.topic,
            kept.partition,
            kept.base_offset,
            kept.count,
            kept.append_us,
            duplicate=False,
        )

    def _keep(self, frame: Frame) -> Committed:
        producer = frame.envelope.producer
        key = producer.topic, producer.partition
        partition = self._partitions.get(key)
        if partition is None:
            partition = self._partitions[key] = _Partition()
        partition.append_us = max(partition.append_us, self._clock.now_us())
        stamp = Stamp(NO_LEAF, partition.end, partition.append_us, 0)
        envelope = add_stamp(frame.envelope.raw, stamp)
        whole = b"".join((envelope, frame.body, body_padding(len(frame.body))))
        kept = Committed(
            producer.topic,
            producer.partition,
            partition.end,
            producer.count,
            partition.append_us,
            NO_LEAF,
            whole,
        )
        partition.push(whole, producer.count)
        self._order.append(partition)
        self._bytes += len(whole)
        while self._bytes > self._tail_bytes_max and len(self._order) > 1:
            self._bytes -= self._order.popleft().pop()
        return kept

    def read_hot(self, topic: str, partition: int, offset: int, bytes_max: int) -> ReadResult:
        """What is still in memory from `offset` on: there is nowhere else to look."""
        return self._partition(topic, partition).read(offset, bytes_max)

    async def read(self, topic: str, partition: int, offset: int, bytes_max: int) -> ReadResult:
        """The same as `read_hot`."""
        return self.read_hot(topic, partition, offset, bytes_max)

    def partitions(self) -> Sequence[tuple[str, int]]:
        """Every topic and partition that had a frame in this run."""
        return list(self._partitions)

    def start_offset(self, topic: str, partition: int) -> int:
        """The first offset that is still in memory."""
        return self._partition(topic, partition).start

    def end_offset(self, topic: str, partition: int) -> int:
        """The offset that the next message will get."""
        return self._partition(topic, partition).end

    async def offset_for_time(self, topic: str, partition: int, time_us: int) -> int:  # noqa: ARG002
        """The end: a memory topic has no past to look in."""
        return self.end_offset(topic, partition)

    def tail(self, listener: Tail) -> None:
        """Tell `listener` of every frame from now on."""
        self._tails.append(listener)

    async def clean(self, retention: Mapping[str, Retention]) -> CleanReport:  # noqa: ARG002
        """Nothing is stored, so nothing is cleaned."""
        return _NOTHING_TO_CLEAN

    def _partition(self, topic: str, partition: int) -> _Partition:
        return self._partitions.get((topic, partition)) or _Partition()
