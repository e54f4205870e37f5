"""A log by the wire's rules for producers, so that a lost or doubled message shows."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from log_format.envelope import add_provenance, add_stamp
from log_format.frame import body_padding, iter_frames
from log_format.parts import Provenance, Stamp


@dataclass
class FakeLog:
    """Topics, frames and producers, by the wire's rules."""

    frames: dict[tuple[str, int], list[tuple[int, bytes]]] = field(default_factory=dict)
    ends: dict[tuple[str, int], int] = field(default_factory=dict)
    producers: dict[tuple[int, str, int], tuple[int, int, list[tuple[int, int, int]]]] = field(
        default_factory=dict
    )
    topics: dict[str, dict[str, Any]] = field(default_factory=dict)
    leaves: int = 0
    appended: asyncio.Condition = field(default_factory=asyncio.Condition)

    def topic(self, name: str, **settings: Any) -> dict[str, Any]:
        default = {"name": name, "partitions": 1, "strategy": "key"}
        return self.topics.setdefault(name, {**default, **settings})

    def append(self, frame: Any) -> dict[str, Any]:
        producer = frame.envelope.producer
        place = {"topic": producer.topic, "partition": producer.partition}
        if self.topic(producer.topic)["partitions"] <= producer.partition:
            return {**place, "error": "unknown_partition", "detail": "no", "retryable": False}
        who = (producer.producer_id, producer.topic, producer.partition)
        epoch, expected, recent = self.producers.get(who, (producer.epoch, 0, []))
        if producer.epoch < epoch:
            return {**place, "error": "fenced", "detail": "old epoch", "current_epoch": epoch}
        if producer.epoch > epoch:
            epoch, expected, recent = producer.epoch, 0, []
        for first, count, offset in recent:
            if first == producer.first_sequence:
                assert count == producer.count
                return self._ok(producer, offset, duplicate=True)
        if (producer.first_sequence - expected) & 0x7FFFFFFF >= 1 << 30:
            # Behind what is next, and no longer remembered with its offset.
            return {
                **place,
                "error": "duplicate_too_old",
                "detail": f"{producer.first_sequence} was appended long ago",
                "expected_sequence": expected,
            }
        if producer.first_sequence != expected:
            return {
                **place,
                "error": "sequence_gap",
                "detail": f"{producer.first_sequence} where {expected} is next",
                "expected_sequence": expected,
            }
        frame.check_hash()
        assert frame.columns().count == producer.count
        key = (producer.topic, producer.partition)
        offset = self.ends.get(key, 0)
        sealed = add_provenance(
            frame.envelope.raw,
            Provenance("app", "iss", "client", bytes(32), "jti", bytes(16), bytes(32), "r", "g", 1),
        )
        stamped = add_stamp(sealed, Stamp(self.leaves, offset, 1, 0))
        whole = stamped + bytes(frame.body) + body_padding(frame.envelope.body_len)
        self.frames.setdefault(key, []).append((offset, whole))
        self.ends[key] = offset + producer.count
        self.leaves += 1
        after = (producer.first_sequence + producer.count) & 0x7FFFFFFF
        recent = [*recent, (producer.first_sequence, producer.count, offset)][-5:]
        self.producers[who] = (epoch, after, recent)
        return self._ok(producer, offset, duplicate=False)

    def _ok(self, producer: Any, offset: int, *, duplicate: bool) -> dict[str, Any]:
        return {
            "topic": producer.topic,
            "partition": producer.partition,
            "base_offset": offset,
            "count": producer.count,
            "leaf": self.leaves,
            "append_us": 1,
            "durability": "committed",
            "duplicate": duplicate,
        }

    def values(self, topic: str, partition: int = 0) -> list[bytes]:
        """Every payload of a partition, in order."""
        found = []
        for _offset, whole in self.frames.get((topic, partition), ()):
            (frame,) = iter_frames(whole)
            found += [value or b"" for value in frame.columns().value]
        return found
