"""One group commit in the making: numbers assigned, producers asked, bytes built, nothing changed.

The log's state is read here and not written: drop the group and nothing has happened. Imports the
rungs below and the format; knows no file and no thread.
"""

from collections.abc import Iterable

from core_log.log.index import Key
from core_log.log.options import REACHED, LogOptions
from core_log.log.partitions import Partitions
from core_log.log.producers import (
    Batch,
    ProducerKey,
    Producers,
    Refusal,
    Repeat,
    StagedProducers,
    advance,
    batch_of,
    judge,
    key_of,
)
from core_log.log.results import Appended, Committed, Refused
from log_format.envelope import add_stamp
from log_format.errors import FormatError, TooLarge
from log_format.frame import Frame, body_padding
from log_format.leaf import leaf_hash
from log_format.parts import Producer, Stamp

Outcome = Appended | Refused

_RETRYABLE = frozenset({"sequence_gap"})
"""Refusals that go away by themselves: the batch that is missing may still come."""


class Group:
    """A group before its write.

    Invariant: `frames[i]` is the bytes of `committed[i]`, and `leaf_hashes[i]` its hash in the tree
    (none at all for a log without a tree); leaves rise by one from `first_leaf`,
    and all of them carry the same durable position. Used by the writer thread alone.
    """

    def __init__(
        self,
        partitions: Partitions,
        producers: Producers,
        options: LogOptions,
        *,
        first_leaf: int,
        durable_leaf: int,
        append_us: int,
    ) -> None:
        self._partitions = partitions
        self._producers = StagedProducers(producers)
        self._options = options
        self._durable_leaf = durable_leaf
        self._ends: dict[Key, int] = {}
        self._reached = REACHED[options.durability]
        self.append_us = append_us
        self.next_leaf = first_leaf
        self.frames: list[bytes] = []
        self.bytes = 0
        self.committed: list[Committed] = []
        self.leaf_hashes: list[bytes] = []

    def add_all(self, frames: Iterable[Frame]) -> list[Outcome]:
        """What each frame's fate will be once this group is written."""
        return [self._add(frame) for frame in frames]

    def _add(self, frame: Frame) -> Outcome:
        envelope = frame.envelope
        part = envelope.producer
        if envelope.provenance is None and self._options.require_provenance:
            return _refused(part, "bad_frame", "the batch has no provenance of a gatekeeper")
        if not self._options.check_sequences:
            return self._append(frame, None, None)
        producer_key, batch = key_of(envelope), batch_of(part)
        verdict = judge(self._producers.get(producer_key), batch)
        if isinstance(verdict, Repeat):
            return Appended(
                part.topic,
                part.partition,
                verdict.base_offset,
                part.count,
                verdict.leaf,
                verdict.append_us,
                self._reached,
                duplicate=True,
            )
        if isinstance(verdict, Refusal):
            return Refused(
                part.topic,
                part.partition,
                verdict.code,
                verdict.detail,
                verdict.code in _RETRYABLE,
                verdict.members,
            )
        return self._append(frame, producer_key, batch)

    def _append(
        self, frame: Frame, producer_key: ProducerKey | None, batch: Batch | None
    ) -> Outcome:
        envelope = frame.envelope
        part = envelope.producer
        key = (part.topic, part.partition)
        base_offset = self._ends.get(key)
        if base_offset is None:
            partition = self._partitions.get(key)
            base_offset = 0 if partition is None else partition.end
        leaf = self.next_leaf
        try:
            stamped = add_stamp(
                envelope.raw, Stamp(leaf, base_offset, self.append_us, self._durable_leaf)
            )
        except TooLarge as error:
            return _refused(part, "too_large", str(error))
        except FormatError as error:
            return _refused(part, "bad_frame", str(error))
        data = b"".join((stamped, frame.body, body_padding(envelope.body_len)))
        self.frames.append(data)
        if self._options.tree:
            self.leaf_hashes.append(leaf_hash(stamped))
        self.bytes += len(data)
        self.next_leaf = leaf + 1
        self._ends[key] = base_offset + part.count
        self.committed.append(
            Committed(
                part.topic, part.partition, base_offset, part.count, self.append_us, leaf, data
            )
        )
        if producer_key is not None and batch is not None:
            state = self._producers.get(producer_key)
            self._producers.put(
                producer_key, advance(state, batch, base_offset, leaf, self.append_us)
            )
        return Appended(
            part.topic,
            part.partition,
            base_offset,
            part.count,
            leaf,
            self.append_us,
            self._reached,
            duplicate=False,
        )

    def apply_producers(self) -> None:
        """The group is written: its producers have moved on."""
        self._producers.apply()


def _refused(part: Producer, code: str, detail: str) -> Refused:
    return Refused(part.topic, part.partition, code, detail, retryable=False)
