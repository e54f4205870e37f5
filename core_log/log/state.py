"""What a log's envelopes amount to: partitions' ends and producers' sequences.

A checkpoint saves it; what lies above the checkpoint is replayed into it. Imports the tables that
it fills and the format; reads no file.
"""

from dataclasses import dataclass

from core_log.log.partitions import Partitions
from core_log.log.producers import Producers, advance, batch_of, key_of
from core_log.log.results import LostRange
from log_format.envelope import Envelope
from log_format.parts import Stamp


@dataclass(slots=True)
class State:
    """Partitions and producers after all leaves below `leaf`. Used by one thread."""

    partitions: Partitions
    producers: Producers
    leaf: int
    check_sequences: bool

    def apply(self, envelope: Envelope) -> LostRange | None:
        """Replay one batch; says which offsets are missing before it, if any are."""
        producer, stamp = envelope.producer, stamp_of(envelope)
        key = (producer.topic, producer.partition)
        partition = self.partitions.make(key)
        lost = None
        if stamp.base_offset > partition.end:
            lost = LostRange(self.leaf, stamp.leaf, *key, partition.end, stamp.base_offset)
        partition.end = max(partition.end, stamp.base_offset + producer.count)
        partition.greatest_us = max(partition.greatest_us, stamp.append_us)
        self.leaf = stamp.leaf + 1
        if self.check_sequences:
            producer_key, batch = key_of(envelope), batch_of(producer)
            before = self.producers.get(producer_key)
            after = advance(before, batch, stamp.base_offset, stamp.leaf, stamp.append_us)
            self.producers.put(producer_key, after)
        return lost


def stamp_of(envelope: Envelope) -> Stamp:
    """The stamp, which every frame of a log has."""
    if envelope.stamp is None:
        raise ValueError("a frame in the log has no stamp")
    return envelope.stamp
