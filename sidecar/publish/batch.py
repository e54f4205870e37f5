"""A batch on its way: the entries that apps wait for, and the frame that carries them.

May import `log_format`. A batch never changes its records; only its place in a producer's
sequence may change, and only while it is known not to be in the log.
"""

from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from log_format.body import encode_body
from log_format.envelope import Codec, new_envelope
from log_format.frame import Frame, body_padding, decode_frame
from log_format.parts import Producer
from log_format.sequence import sequence_after
from sidecar.delivery.record_id import derived_id, scoped_id
from sidecar.errors import SidecarError
from sidecar.publish.compressor import Compressor
from sidecar.publish.message import Message
from sidecar.publish.producer import ProducerEpoch
from sidecar.publish.ring import Ring

if TYPE_CHECKING:
    from sidecar.publish.dedupe import Seen
    from sidecar.publish.lane import Lane

RECORD_OVERHEAD_BYTES = 32
"""What the columns add to each message: its event time, and an offset in up to five columns."""
LINE_OVERHEAD_BYTES = 12
"""What they add to each line: its event time, and an offset in the one column that lines have."""

_UNCOMPRESSED = Compressor("none")


class Ack(Enum):
    """What an app wants to have happened before it is answered."""

    AUTO = "auto"
    CORE = "core"
    SIDECAR = "sidecar"
    NONE = "none"

    @property
    def detached(self) -> bool:
        """True where the app does not want to hear what the log says."""
        return self in (Ack.SIDECAR, Ack.NONE)


class Lines(NamedTuple):
    """Many records of one request, each a payload and nothing else, with newlines between them."""

    topic: str
    text: bytes
    records: int
    event_us: int


class Committed(NamedTuple):
    """Where a message lies in the log; for lines, where the first of them does."""

    topic: str
    partition: int
    offset: int
    id: str
    durability: str


class Kept(NamedTuple):
    """The sidecar has the message and will send it. `durability` is `spooled` or `none`."""

    topic: str
    id: str | None
    durability: str


Outcome = Committed | Kept | SidecarError
Reply = Callable[[Outcome], None]


class Entry:
    """What one request put into a partition, and whoever waits for its outcome.

    `reply` is called once, with the outcome, and is None from then on. `accepted` once it has a
    place in its partition's order; `stored` once it is on the sidecar's disk; `keep` where being
    stored is all that its app waits for; `follows` where it repeats an id and has no place itself.
    """

    __slots__ = (
        "accepted", "ack", "count", "deadline", "follows", "keep", "lane", "payload", "reply",
        "size", "stored",
    )  # fmt: skip

    def __init__(self, payload: Message | Lines, ack: Ack, reply: Reply | None) -> None:
        self.payload = payload
        self.ack = ack
        self.reply = reply
        self.deadline = 0.0
        self.accepted = False
        self.stored = False
        self.lane: Lane | None = None
        self.follows: Seen | None = None
        self.keep = ack is Ack.SIDECAR
        if isinstance(payload, Message):
            self.count = 1
            self.size = payload.size + RECORD_OVERHEAD_BYTES
        else:
            self.count = payload.records
            self.size = len(payload.text) + 1 + self.count * (LINE_OVERHEAD_BYTES - 1)

    @property
    def own_id(self) -> str | None:
        """The app's own id for the message, if it gave one."""
        if isinstance(self.payload, Message) and self.payload.id is not None:
            return self.payload.id.decode("utf-8")
        return None

    def answer(self, outcome: Outcome) -> None:
        """Tell whoever still waits; nothing happens where nobody does."""
        reply, self.reply = self.reply, None
        if reply is not None:
            reply(outcome)

    def answer_stored(self) -> None:
        """It is on disk: that may be all that was asked for."""
        self.stored = True
        if self.keep and self.reply is not None:
            self.answer(Kept(self.payload.topic, self.own_id, "spooled"))


class Form(NamedTuple):
    """How a batch's body is stored: its codec, its bytes so, and the bytes of its columns."""

    codec: Codec
    body_len: int
    size: int


class Batch:
    """A closed batch. Belongs to the event loop.

    `doubtful` from the moment that an answer to it was lost, for ever. `position` is its record in
    the spool, if it has one; `replaces` are records that a newer stamp has made worthless, and a
    batch that has some may not be sent before it is stored again. `order` never changes.
    """

    __slots__ = (
        "_codec", "body_len", "doubtful", "entries", "frame", "has_ids", "order", "position",
        "producer", "replaces", "resolved", "size", "storing",
    )  # fmt: skip

    def __init__(
        self,
        producer: Producer,
        frame: bytes,
        form: Form,
        entries: list[Entry],
        order: int,
        *,
        position: int | None = None,
        has_ids: bool = False,
    ) -> None:
        self.producer = producer
        self.frame = frame
        self._codec, self.body_len, self.size = form
        self.entries = entries
        self.order = order
        self.position = position
        self.doubtful = position is not None
        self.replaces: list[int] = []
        self.storing = False
        self.resolved = False
        self.has_ids = has_ids

    def ids(self) -> list[bytes | None]:
        """What repeats of each record are recognised by; none at all where no record has an id."""
        if not self.has_ids:
            return []
        columns = decode_frame(self.frame).columns()
        return [scoped_id(*each) for each in zip(columns.id, columns.headers, strict=True)]

    @property
    def owner(self) -> ProducerEpoch:
        """Whose sequence this batch is a part of."""
        return ProducerEpoch(self.producer.producer_id, self.producer.epoch)

    @property
    def waits(self) -> bool:
        """Whether any app still waits for it."""
        return any(entry.reply is not None for entry in self.entries)

    def restamp(self, owner: ProducerEpoch, first_sequence: int) -> int:
        """Give an unsent, or surely refused, batch another place; return the sequence after it."""
        length = len(self.frame)
        self.producer = replace(
            self.producer,
            producer_id=owner.producer_id,
            epoch=owner.epoch,
            first_sequence=first_sequence,
        )
        # The envelope's length depends on the topic alone, so the body stays where it is.
        envelope = new_envelope(
            self.producer,
            body_len=self.body_len,
            uncompressed_len=self.size,
            codec=self._codec,
        )
        self.frame = envelope + self.frame[len(envelope) :]
        if len(self.frame) != length:
            raise AssertionError("a restamped frame has another length")
        if self.position is not None:
            self.replaces.append(self.position)
            self.position = None
        return sequence_after(first_sequence, self.producer.count)

    def answer_committed(self, base_offset: int, durability: str) -> None:
        """Tell each waiting app where its message is."""
        producer = self.producer
        topic, partition = producer.topic, producer.partition
        index = 0
        for entry in self.entries:
            if entry.ack is Ack.SIDECAR:
                entry.answer(Kept(topic, entry.own_id, "spooled"))
            elif entry.reply is not None:
                own = entry.own_id or derived_id(producer, index)
                entry.answer(Committed(topic, partition, base_offset + index, own, durability))
            index += entry.count

    def answer_all(self, error: SidecarError) -> None:
        """Tell each waiting app the same."""
        for entry in self.entries:
            entry.answer(error)


def take_run(ring: Ring[Entry], bytes_max: int) -> list[Entry]:
    """Take the entries of the next batch: up to its size, of one kind, and waiting alike.

    Messages and lines are encoded differently; entries that want to hear the log's answer are not
    mixed with those that do not, so that a batch can be handed back as a whole.
    """
    first = ring.take()
    entries, size = [first], first.size
    kind, detached = type(first.payload), first.ack.detached
    while ring:
        entry = ring.peek()
        size += entry.size
        if (
            size > bytes_max
            or type(entry.payload) is not kind
            or entry.ack.detached is not detached
        ):
            break
        entries.append(ring.take())
    return entries


def make_batch(
    topic: str,
    partition: int,
    owner: ProducerEpoch,
    first_sequence: int,
    entries: list[Entry],
    order: int,
    compressor: Compressor = _UNCOMPRESSED,
) -> Batch:
    """Encode `entries`, all messages or all lines, as the next batch of `owner`."""
    encode = _encode_lines if isinstance(entries[0].payload, Lines) else _encode_messages
    first_us, greatest_us, count, body = encode(entries)
    codec, stored = compressor.pack(body)
    producer = Producer(
        topic=topic,
        partition=partition,
        producer_id=owner.producer_id,
        epoch=owner.epoch,
        first_sequence=first_sequence,
        count=count,
        first_event_us=first_us,
        greatest_event_us=greatest_us,
        body_sha256=sha256(stored).digest(),
    )
    form = Form(codec, len(stored), len(body))
    envelope = new_envelope(
        producer, body_len=form.body_len, uncompressed_len=form.size, codec=codec
    )
    frame = b"".join((envelope, stored, body_padding(form.body_len)))
    has_ids = any(isinstance(e.payload, Message) and e.payload.id is not None for e in entries)
    return Batch(producer, frame, form, entries, order, has_ids=has_ids)


def stored_batch(frame: Frame, raw: bytes, position: int, order: int) -> Batch:
    """A batch that an earlier run, or an earlier hour, has left in the spool."""
    envelope = frame.envelope
    has_ids = not frame.columns().id.all_null
    return Batch(
        envelope.producer,
        raw,
        Form(envelope.codec, envelope.body_len, envelope.uncompressed_len),
        [],
        order,
        position=position,
        has_ids=has_ids,
    )


def _encode_messages(entries: list[Entry]) -> tuple[int, int, int, bytes]:
    _topics, values, times, keys, ids, content_types, headers = zip(
        *[entry.payload for entry in entries], strict=True
    )
    body = encode_body(
        array("q", times),
        values,
        ids=_column(ids),
        keys=_column(keys),
        content_types=_column(content_types),
        headers=_column(headers),
    )
    return times[0], max(times), len(times), body


def _encode_lines(entries: list[Entry]) -> tuple[int, int, int, bytes]:
    blocks = [entry.payload for entry in entries if isinstance(entry.payload, Lines)]
    times: array[int] = array("q")
    for block in blocks:
        times.extend(array("q", [block.event_us]) * block.records)
    text = blocks[0].text if len(blocks) == 1 else b"\n".join([block.text for block in blocks])
    body = encode_body(times, text.split(b"\n"), data=text.replace(b"\n", b""))
    greatest = max(block.event_us for block in blocks)
    return blocks[0].event_us, greatest, len(times), body


def _column(values: Sequence[bytes | None]) -> Sequence[bytes | None] | None:
    """A column that nobody filled is left out of the body."""
    return None if values.count(None) == len(values) else values
