"""A batch on its way: the entries that apps wait for, and the frame that carries them.

May import `log_format`. A batch never changes its records; only its place in a producer's
sequence may change, and only while it is known not to be in the log.
"""

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from hashlib import sha256
from typing import NamedTuple

from log_format.body import encode_body
from log_format.envelope import new_envelope
from log_format.frame import body_padding
from log_format.parts import Producer
from sidecar.errors import SidecarError
from sidecar.message import Message
from sidecar.producer import ProducerEpoch


class Ack(Enum):
    """What an app wants to have happened before it is answered."""

    AUTO = "auto"
    CORE = "core"
    SIDECAR = "sidecar"
    NONE = "none"


class Committed(NamedTuple):
    """Where a message lies in the log."""

    topic: str
    partition: int
    offset: int
    id: str
    durability: str


Reply = Callable[["Committed | SidecarError"], None]


class Entry:
    """One accepted message and whoever waits for its outcome.

    `reply` is called once, with the outcome, and is None from then on. `accepted` once it has a
    place in its partition's order.
    """

    __slots__ = ("accepted", "ack", "deadline", "message", "reply")

    def __init__(self, message: Message, ack: Ack, reply: Reply | None) -> None:
        self.message = message
        self.ack = ack
        self.reply = reply
        self.deadline = 0.0
        self.accepted = False

    def answer(self, outcome: "Committed | SidecarError") -> None:
        """Tell whoever still waits; nothing happens where nobody does."""
        reply, self.reply = self.reply, None
        if reply is not None:
            reply(outcome)


@dataclass(slots=True)
class Batch:
    """A closed batch. `doubtful` from the moment that an answer to it was lost, for ever."""

    producer: Producer
    body: bytes
    entries: list[Entry]
    frame: bytes = field(init=False)
    doubtful: bool = False

    def __post_init__(self) -> None:
        self.frame = self._encode()

    @property
    def owner(self) -> ProducerEpoch:
        """Whose sequence this batch is a part of."""
        return ProducerEpoch(self.producer.producer_id, self.producer.epoch)

    def restamp(self, owner: ProducerEpoch, first_sequence: int) -> None:
        """Give an unsent, or surely refused, batch another place in the sequence."""
        self.producer = replace(
            self.producer,
            producer_id=owner.producer_id,
            epoch=owner.epoch,
            first_sequence=first_sequence,
        )
        self.frame = self._encode()

    def committed(self, index: int, base_offset: int, durability: str) -> Committed:
        """What the app of entry `index` is told."""
        producer = self.producer
        own = self.entries[index].message.id
        return Committed(
            producer.topic,
            producer.partition,
            base_offset + index,
            own.decode("utf-8") if own else derived_id(producer, index),
            durability,
        )

    def _encode(self) -> bytes:
        size = len(self.body)
        envelope = new_envelope(self.producer, body_len=size, uncompressed_len=size)
        return b"".join((envelope, self.body, body_padding(size)))


def derived_id(producer: Producer, index: int) -> str:
    """The id of a record that has none of its own; the same wherever the record is read."""
    sequence = (producer.first_sequence + index) & 0x7FFFFFFF
    return f"{producer.producer_id:016x}-{producer.epoch}-{sequence}"


def make_batch(
    topic: str, partition: int, owner: ProducerEpoch, first_sequence: int, entries: list[Entry]
) -> Batch:
    """Encode `entries` as the next batch of `owner`."""
    _topics, values, times, keys, ids, content_types, headers = zip(
        *[entry.message for entry in entries], strict=True
    )
    body = encode_body(
        array("q", times),
        values,
        ids=_column(ids),
        keys=_column(keys),
        content_types=_column(content_types),
        headers=_column(headers),
    )
    producer = Producer(
        topic=topic,
        partition=partition,
        producer_id=owner.producer_id,
        epoch=owner.epoch,
        first_sequence=first_sequence,
        count=len(entries),
        first_event_us=times[0],
        greatest_event_us=max(times),
        body_sha256=sha256(body).digest(),
    )
    return Batch(producer, body, entries)


def _column(values: Sequence[bytes | None]) -> Sequence[bytes | None] | None:
    """A column that nobody filled is left out of the body."""
    return None if values.count(None) == len(values) else values
