"""What a member of a durable subscription holds, and which messages of a frame are its to deliver.

Pure: control messages and frames of the wire come in, decisions come out. A hold is the right to
deliver and acknowledge: a generation of a partition (`ordered`) or a lease (`fcfs`). What came
under a hold that was lost is nobody's to acknowledge: the log gives it out again.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from log_format.frame import Frame
from sidecar.delivery.offset_set import OffsetSet, Range, ranges_of
from sidecar.delivery.tries import Try, parse_history

UNANSWERED_RANGES_MAX: Final = 10_000
"""Acknowledgements without an answer that are kept for after a lost connection. More of them
only mean that messages are delivered twice, which the promise allows."""


@dataclass(frozen=True, slots=True)
class Hold:
    """A generation of a partition, or a lease; exactly one of the two is set."""

    partition: int
    generation: int | None = None
    lease: int | None = None

    def names(self) -> dict[str, object]:
        """As the wire names it."""
        if self.lease is not None:
            return {"partition": self.partition, "lease": self.lease}
        return {"partition": self.partition, "generation": self.generation}


@dataclass(frozen=True, slots=True)
class Delivery:
    """A frame, and those of its offsets that are to be delivered, rising.

    `attempts` counts the earlier tries of those that had any; `history` has what is known of them.
    """

    hold: Hold
    frame: Frame
    offsets: Sequence[int]
    attempts: Mapping[int, int]
    history: Mapping[int, Sequence[Try]]


@dataclass(slots=True)
class _Held:
    low: int
    acked: OffsetSet
    attempts: dict[int, int]
    history: dict[int, tuple[Try, ...]]
    """Of what is not given yet."""
    given: OffsetSet = field(default_factory=OffsetSet)
    """Delivered, and neither acknowledged nor given back yet."""
    done: OffsetSet = field(default_factory=OffsetSet)
    """Processed under an earlier hold; to be acknowledged once the log gives it out again, for
    what it has not given it does not take."""
    revoked: bool = False


@dataclass(frozen=True, slots=True)
class Taken:
    """What becomes of a frame: a delivery, and what to acknowledge at once; both may be nothing."""

    hold: Hold | None
    delivery: Delivery | None = None
    done: Sequence[Range] = ()


class Holdings:
    """The holds of one member, over its connections. Belongs to the event loop."""

    def __init__(self) -> None:
        self._held: dict[Hold, _Held] = {}
        self._ordered: dict[int, Hold] = {}
        self._lease: Hold | None = None
        self._unanswered: dict[int, OffsetSet] = {}
        self._lows: dict[int, int] = {}
        self._lost: dict[int, tuple[Hold, OffsetSet]] = {}

    @property
    def holds(self) -> list[Hold]:
        """Those that are held now."""
        return [hold for hold, held in self._held.items() if not held.revoked]

    def in_hand(self, hold: Hold) -> OffsetSet:
        """What was delivered under it and is neither acknowledged nor given back."""
        held = self._held.get(hold)
        return OffsetSet() if held is None else held.given

    def may_deliver(self, hold: Hold) -> bool:
        """False once it was revoked or lost: what is not delivered yet must not be."""
        held = self._held.get(hold)
        return held is not None and not held.revoked

    def holder(self, partition: int, offset: int) -> Hold | None:
        """The hold under which this message was delivered and is still in hand."""
        hold = self._ordered.get(partition)
        if hold is not None:
            return hold if offset in self._held[hold].given else None
        for hold, held in self._held.items():
            if hold.partition == partition and offset in held.given:
                return hold
        return None

    def still(self, delivery: Delivery) -> Delivery | None:
        """What of a delivery is still to be delivered, after it has waited for its turn."""
        held = self._held.get(delivery.hold)
        if held is None or held.revoked or not delivery.offsets:
            return None
        first, last = delivery.offsets[0], delivery.offsets[-1]
        if held.given.common(first, last) == [(first, last)]:
            return delivery
        left = [offset for offset in delivery.offsets if offset in held.given]
        return replace(delivery, offsets=left) if left else None

    def assign(self, control: Mapping[str, Any]) -> Hold:
        """A partition is ours from now on.

        Acknowledgements that had no answer when the connection broke are still true, unless the
        low mark moved back meanwhile: then somebody has sought, and wants them once more.
        """
        partition = int(control["partition"])
        hold = Hold(partition, generation=int(control["generation"]))
        self._drop(self._ordered.pop(partition, None))
        held = _held(control, int(control["low"]))
        self._held[hold] = held
        self._ordered[partition] = hold
        unanswered = self._unanswered.pop(partition, None)
        if held.low < self._lows.get(partition, 0):
            self._lost.pop(partition, None)
        elif unanswered is not None:
            for first, last in unanswered:
                held.done.add(max(first, held.low), last)
        self._lows[partition] = held.low
        return hold

    def lease(self, control: Mapping[str, Any]) -> Hold:
        """The frame that comes next is ours."""
        hold = Hold(int(control["partition"]), lease=int(control["lease"]))
        self._held[hold] = _held(control, int(control["first_offset"]))
        self._lease = hold
        return hold

    def redeliver(self, control: Mapping[str, Any]) -> None:
        """The frame that comes next is sent for these offsets alone; they were given back."""
        hold = self._named(control)
        held = None if hold is None else self._held.get(hold)
        if held is None:
            return
        for offset in control["offsets"]:
            held.given.discard(int(offset), int(offset))
        held.attempts.update(_attempts(control))
        held.history.update(parse_history(control))

    def take(self, frame: Frame) -> Taken:
        """What of a frame is to be delivered; nothing where it is not ours."""
        stamp, producer = frame.envelope.stamp, frame.envelope.producer
        hold = self._lease or self._ordered.get(producer.partition)
        self._lease = None
        held = None if hold is None else self._held.get(hold)
        if stamp is None or hold is None or held is None or held.revoked:
            return Taken(None)
        first, last = stamp.base_offset, stamp.base_offset + producer.count - 1
        done = held.done.common(max(first, held.low), last)
        for begin, end in done:
            held.done.discard(begin, end)
            self._acknowledged(hold, held, begin, end)
        offsets = _fresh(held, max(first, held.low), last)
        for begin, end in ranges_of(offsets):
            held.given.add(begin, end)
        self._forget_if_empty(hold)
        if not offsets:
            return Taken(hold, None, done)
        attempts = {
            offset: tries
            for offset, tries in held.attempts.items()
            if first <= offset <= last and offset in held.given
        }
        history = {}
        if held.history:
            history = {each: held.history.pop(each) for each in attempts if each in held.history}
        return Taken(hold, Delivery(hold, frame, offsets, attempts, history), done)

    def ack(self, hold: Hold, ranges: Iterable[Range]) -> tuple[Hold, list[Range]]:
        """What of `ranges` may be acknowledged, and under which hold.

        It must have been delivered under `hold`. What was delivered under one that went with its
        connection, and is done only now, is acknowledged under the partition's next one: nobody
        needs it again.
        """
        held = self._held.get(hold)
        if held is None:
            return self._ack_late(hold, ranges)
        taken = [common for first, last in ranges for common in held.given.common(first, last)]
        for first, last in taken:
            self._acknowledged(hold, held, first, last)
        self._forget_if_empty(hold)
        return hold, taken

    def _ack_late(self, hold: Hold, ranges: Iterable[Range]) -> tuple[Hold, list[Range]]:
        lost, given = self._lost.get(hold.partition, (None, OffsetSet()))
        if lost != hold:
            return hold, []
        done = [common for first, last in ranges for common in given.common(first, last)]
        for first, last in done:
            given.discard(first, last)
        current = self._ordered.get(hold.partition)
        if current is None:
            unanswered = self._unanswered.setdefault(hold.partition, OffsetSet())
            for first, last in done:
                unanswered.add(first, last)
            return hold, []
        held = self._held[current]
        taken = [again for first, last in done for again in held.given.common(first, last)]
        for first, last in done:
            held.done.add(first, last)
        for first, last in taken:
            held.done.discard(first, last)
            self._acknowledged(current, held, first, last)
        return current, taken

    def _acknowledged(self, hold: Hold, held: _Held, first: int, last: int) -> None:
        held.acked.add(first, last)
        held.given.discard(first, last)
        _drop_attempts(held, first, last)
        unanswered = self._unanswered.setdefault(hold.partition, OffsetSet())
        if unanswered.range_count < UNANSWERED_RANGES_MAX:
            unanswered.add(first, last)

    def nack(self, hold: Hold, offsets: Iterable[int]) -> list[int]:
        """What of `offsets` may be given back under `hold`."""
        held = self._held.get(hold)
        if held is None:
            return []
        taken = sorted({offset for offset in offsets if offset in held.given})
        for offset in taken:
            held.given.discard(offset, offset)
            held.attempts[offset] = held.attempts.get(offset, 0) + 1
        self._forget_if_empty(hold)
        return taken

    def failed(self, hold: Hold, attempts: Mapping[int, int]) -> dict[int, int]:
        """Tries that failed here, as far as they belong to what is in hand."""
        held = self._held.get(hold)
        if held is None:
            return {}
        taken = {offset: tries for offset, tries in attempts.items() if offset in held.given}
        held.attempts.update(taken)
        return taken

    def confirmed(self, control: Mapping[str, Any]) -> None:
        """The log has made acknowledgements durable."""
        partition, low = int(control["partition"]), int(control["low"])
        self._lows[partition] = max(low, self._lows.get(partition, 0))
        unanswered = self._unanswered.get(partition)
        if unanswered is not None:
            unanswered.discard(0, low - 1)
            for first, last in control.get("ranges", ()):
                unanswered.discard(int(first), int(last))
        hold = self._ordered.get(partition)
        if hold is not None and (held := self._held.get(hold)) is not None:
            held.low = max(held.low, low)
            held.acked.discard(0, held.low - 1)

    @property
    def all_confirmed(self) -> bool:
        """True where every acknowledgement is known to be durable, or to have been in vain."""
        return not any(self._unanswered.values())

    def revoke(self, control: Mapping[str, Any]) -> Hold | None:
        """The partition goes to another member: deliver no more; what is in hand may be ended.

        A lease that is revoked is gone at once.
        """
        hold = self._named(control)
        if hold is not None and hold.lease is not None:
            return hold if self._drop(hold) else None
        held = None if hold is None else self._held.get(hold)
        if hold is None or held is None:
            return None
        held.revoked = True
        return hold

    def undelivered(self, hold: Hold, offsets: Sequence[int]) -> None:
        """They have waited in vain: nobody began with them, so they are not in hand."""
        held = self._held.get(hold)
        if held is not None:
            for first, last in ranges_of(offsets):
                held.given.discard(first, last)

    def is_finished(self, hold: Hold) -> bool:
        """True where it was revoked and nothing of it is in hand any more."""
        held = self._held.get(hold)
        return held is not None and held.revoked and not held.given

    def release(self, hold: Hold) -> bool:
        """Nothing more will be acknowledged under it. False where it was not held."""
        if self._held.pop(hold, None) is None:
            return False
        if self._ordered.get(hold.partition) == hold:
            del self._ordered[hold.partition]
        return True

    def fenced(self, control: Mapping[str, Any]) -> Hold | None:
        """The log says that the hold was lost, and what was in hand with it."""
        hold = self._named(control)
        if hold is None:
            return None
        if self._ordered.get(hold.partition) == hold:
            del self._ordered[hold.partition]
        self._unanswered.pop(hold.partition, None)
        return hold if self._drop(hold) else None

    def lost(self) -> list[Hold]:
        """The connection is gone, and every hold with it."""
        gone = list(self._held)
        for partition, hold in self._ordered.items():
            self._lost[partition] = hold, self._held[hold].given
        # A lease never comes back; what was said about it has an answer or was in vain.
        self._unanswered = {
            partition: offsets
            for partition, offsets in self._unanswered.items()
            if partition in self._ordered
        }
        self._held.clear()
        self._ordered.clear()
        self._lease = None
        return gone

    def _named(self, control: Mapping[str, Any]) -> Hold | None:
        partition = int(control["partition"])
        if control.get("lease") is not None:
            return Hold(partition, lease=int(control["lease"]))
        if control.get("generation") is not None:
            return Hold(partition, generation=int(control["generation"]))
        return None

    def _drop(self, hold: Hold | None) -> bool:
        return hold is not None and self._held.pop(hold, None) is not None

    def _forget_if_empty(self, hold: Hold) -> None:
        """A lease whose messages are all settled is over; there are as many as frames."""
        held = self._held[hold]
        if hold.lease is not None and not held.given:
            del self._held[hold]


def _held(control: Mapping[str, Any], low: int) -> _Held:
    acked = OffsetSet(control.get("acked", ()))
    return _Held(low, acked, _attempts(control), parse_history(control))


def _attempts(control: Mapping[str, Any]) -> dict[int, int]:
    return {int(offset): int(tries) for offset, tries in control.get("attempts", {}).items()}


def _fresh(held: _Held, first: int, last: int) -> Sequence[int]:
    """The offsets that are neither acknowledged nor in hand; a range where they are all."""
    runs = [
        fresh
        for begin, end in held.acked.missing(first, last)
        for fresh in held.given.missing(begin, end)
    ]
    if len(runs) == 1:
        return range(runs[0][0], runs[0][1] + 1)
    return [offset for begin, end in runs for offset in range(begin, end + 1)]


def _drop_attempts(held: _Held, first: int, last: int) -> None:
    if held.attempts:
        for offset in [each for each in held.attempts if first <= each <= last]:
            del held.attempts[offset]
