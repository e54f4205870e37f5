"""Exactly-once append: which batch of a producer comes next, and which came before.

`judge` is the rule, a plain function of a producer's state and a batch. `Producers` holds the
states, keyed by the stamped principal, so that nobody can fence or swallow another's messages.
Imports the format's sequence arithmetic; knows nothing of files.
"""

import struct
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final, NamedTuple

from log_format.envelope import Envelope
from log_format.parts import Producer
from log_format.sequence import SEQUENCE_MAX, sequence_after

REPEATS_MAX: Final = 16
"""Batches of a producer that are remembered with their offsets. A sidecar has 5 in flight at
most, as Kafka's idempotent producers do; three times that leaves room for retries that cross."""

BEHIND: Final = (SEQUENCE_MAX + 1) // 2
"""Sequences wrap around: a distance of at least half the ring means behind, not ahead."""

_RECENT: Final = struct.Struct("<iiqqq8s")
RECENT_BYTES: Final = _RECENT.size
"""first sequence, count, base offset, leaf, append time, the first bytes of the body's hash"""
DIGEST_BYTES: Final = 8
"""Of the body's SHA-256: enough to tell a repeat from another batch under the same number."""


class ProducerKey(NamedTuple):
    """Whose sequence it is."""

    principal: str
    producer_id: int
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class ProducerState:
    """What is known of one producer in one partition. Replaced, never changed.

    `recent` holds up to REPEATS_MAX packed batches of this epoch, oldest first.
    """

    epoch: int
    next_sequence: int
    recent: bytes


class Batch(NamedTuple):
    """The numbers of one batch, as its producer part has them."""

    epoch: int
    first_sequence: int
    records: int
    digest: bytes


def key_of(envelope: Envelope) -> ProducerKey:
    """Whose sequence a batch belongs to; the core's own records have the principal ""."""
    part, provenance = envelope.producer, envelope.provenance
    principal = "" if provenance is None else provenance.principal
    return ProducerKey(principal, part.producer_id, part.topic, part.partition)


def batch_of(part: Producer) -> Batch:
    """A batch's numbers."""
    return Batch(part.epoch, part.first_sequence, part.count, part.body_sha256[:DIGEST_BYTES])


class Accept(NamedTuple):
    """The batch is the next one."""


class Repeat(NamedTuple):
    """The batch is in the log already, here."""

    base_offset: int
    leaf: int
    append_us: int


class Refusal(NamedTuple):
    """The batch cannot be taken. `code` is one of the wire's."""

    code: str
    detail: str
    members: dict[str, object]


Verdict = Accept | Repeat | Refusal
ACCEPT: Final = Accept()


def judge(state: ProducerState | None, batch: Batch) -> Verdict:
    """Take the batch, recognise it, or say why not."""
    if state is None or batch.epoch > state.epoch:
        if batch.first_sequence == 0:
            return ACCEPT
        return _gap(batch, 0, "a new producer or epoch begins at sequence 0")
    if batch.epoch < state.epoch:
        return Refusal(
            "fenced",
            f"epoch {batch.epoch} was ended by epoch {state.epoch} of the same producer; "
            "give this batch up, or send it under a newer epoch",
            {"current_epoch": state.epoch},
        )
    if batch.first_sequence == state.next_sequence:
        return ACCEPT
    if (batch.first_sequence - state.next_sequence) & SEQUENCE_MAX < BEHIND:
        return _gap(batch, state.next_sequence, "an earlier batch is missing; send that one first")
    return _recognise(state, batch)


def _recognise(state: ProducerState, batch: Batch) -> Verdict:
    for first, records, base_offset, leaf, append_us, digest in _RECENT.iter_unpack(state.recent):
        if first == batch.first_sequence:
            if (records, digest) == (batch.records, batch.digest):
                return Repeat(base_offset, leaf, append_us)
            break
    else:
        return Refusal(
            "duplicate_too_old",
            f"sequence {batch.first_sequence} lies before the last {REPEATS_MAX} batches: it was "
            "appended, its offset is no longer remembered; do not send it again",
            {"expected_sequence": state.next_sequence},
        )
    return Refusal(
        "sequence_conflict",
        f"sequence {batch.first_sequence} was used for another batch; "
        "raise the epoch and begin again at sequence 0",
        {"expected_sequence": state.next_sequence},
    )


def _gap(batch: Batch, expected: int, why: str) -> Refusal:
    return Refusal(
        "sequence_gap",
        f"sequence {batch.first_sequence} where {expected} is next: {why}",
        {"expected_sequence": expected},
    )


def advance(
    state: ProducerState | None, batch: Batch, base_offset: int, leaf: int, append_us: int
) -> ProducerState:
    """The state after a batch that `judge` accepted, or that the log is known to hold."""
    packed = _RECENT.pack(
        batch.first_sequence, batch.records, base_offset, leaf, append_us, batch.digest
    )
    if state is not None and state.epoch == batch.epoch:
        packed = (state.recent + packed)[-REPEATS_MAX * RECENT_BYTES :]
    return ProducerState(batch.epoch, sequence_after(batch.first_sequence, batch.records), packed)


class Producers:
    """All states, at most `limit` of them.

    Beyond the limit the principal that has most gives up its longest idle ones, so that a flood
    of ids costs nobody else's memory of what was sent. Idle is counted in batches, not in time:
    a clock that jumps must not make the log forget what it has. Order within a principal is by
    last use. One thread changes it. `get` is safe from any thread, since states are replaced whole.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._count = 0
        self._by_principal: dict[str, OrderedDict[ProducerKey, ProducerState]] = {}

    def __len__(self) -> int:
        return self._count

    def get(self, key: ProducerKey) -> ProducerState | None:
        """A producer's state, if it is remembered."""
        states = self._by_principal.get(key.principal)
        return None if states is None else states.get(key)

    def put(self, key: ProducerKey, state: ProducerState) -> None:
        """Set a producer's state; it is then the most recently used one of its principal."""
        states = self._by_principal.get(key.principal)
        if states is None:
            states = self._by_principal[key.principal] = OrderedDict()
        if key in states:
            states.move_to_end(key)
        else:
            self._count += 1
        states[key] = state
        if self._count > self._limit:
            self._forget_some()

    def _forget_some(self) -> None:
        """Forget a hundredth at a time: finding the greatest principal is not done per batch."""
        for _ in range(max(1, self._limit // 100)):
            principal = max(self._by_principal, key=lambda name: len(self._by_principal[name]))
            greatest = self._by_principal[principal]
            greatest.popitem(last=False)
            self._count -= 1
            if not greatest:
                del self._by_principal[principal]

    def snapshot(self) -> list[tuple[ProducerKey, ProducerState]]:
        """All states, in order of last use within each principal."""
        return [item for states in self._by_principal.values() for item in states.items()]


class StagedProducers:
    """The states as they will be once the group that is being written has reached the disk.

    Used by the writer alone; `apply` after the write, or drop it and nothing has happened.
    """

    __slots__ = ("_base", "_changed")

    def __init__(self, base: Producers) -> None:
        self._base = base
        self._changed: dict[ProducerKey, ProducerState] = {}

    def get(self, key: ProducerKey) -> ProducerState | None:
        """A producer's state with this group's batches."""
        return self._changed.get(key) or self._base.get(key)

    def put(self, key: ProducerKey, state: ProducerState) -> None:
        """Set a state for the rest of this group."""
        self._changed[key] = state

    def apply(self) -> None:
        """The group is written: make its states the true ones."""
        for key, state in self._changed.items():
            self._base.put(key, state)
