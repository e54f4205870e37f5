"""A frame: an envelope and its body. Encode one, or take frames from bytes."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import sha256

from log_format.body import Columns, check_body, decode_body
from log_format.compression import compress, expand
from log_format.envelope import Codec, Envelope, decode_envelope, new_envelope
from log_format.errors import BadBody, BadField, HashMismatch, Truncated
from log_format.parts import Producer, padded


@dataclass(frozen=True, slots=True)
class Frame:
    """A checked envelope and the body as stored. An empty body where retention removed it."""

    envelope: Envelope
    body: bytes | memoryview

    def check_hash(self) -> None:
        """Raise HashMismatch unless the body is the one that the producer part declares."""
        if sha256(self.body).digest() != self.envelope.producer.body_sha256:
            raise HashMismatch("the body's SHA-256 differs from the one in the envelope")

    def columns(self) -> Columns:
        """The records. Call `check_hash` first where the bytes come from outside."""
        columns = decode_body(self._expanded())
        self._check_count(columns.count)
        return columns

    def check_columns(self) -> None:
        """Raise BadBody where `columns` would; for who only wants to know that it would not."""
        self._check_count(check_body(self._expanded()))

    def _expanded(self) -> bytes | memoryview:
        envelope = self.envelope
        if envelope.encrypted or not envelope.has_body:
            raise BadBody("the body is encrypted or was removed by retention")
        return expand(envelope.codec, self.body, envelope.uncompressed_len)

    def _check_count(self, count: int) -> None:
        if count != self.envelope.producer.count:
            raise BadBody(f"{count} records where the envelope says {self.envelope.producer.count}")


def encode_frame(producer: Producer, body: bytes, *, codec: Codec = Codec.NONE) -> bytes:
    """The frame that a sidecar sends. `producer.body_sha256` is filled in here."""
    stored = compress(body) if codec is Codec.ZSTD else body
    producer = replace(producer, body_sha256=sha256(stored).digest())
    envelope = new_envelope(producer, body_len=len(stored), uncompressed_len=len(body), codec=codec)
    return b"".join((envelope, stored, body_padding(len(stored))))


def body_padding(body_len: int) -> bytes:
    """The zeros between a body and the next frame."""
    return bytes(padded(body_len) - body_len)


def decode_frame(data: bytes | memoryview, position: int = 0) -> Frame:
    """The frame at `position`, with its envelope and padding checked; the hash is not.

    The body is a view into `data`: keep `data` alive, or copy.
    """
    envelope = decode_envelope(data, position)
    end = position + envelope.frame_len
    if len(data) < end:
        raise Truncated("the body is incomplete")
    if not envelope.has_body:
        return Frame(envelope, b"")
    begin = position + len(envelope.raw)
    view = memoryview(data)
    if any(view[begin + envelope.body_len : end]):
        raise BadField("padding", "after the body is not zero")
    return Frame(envelope, view[begin : begin + envelope.body_len])


def iter_frames(data: bytes | memoryview) -> Iterator[Frame]:
    """All frames of a buffer that ends where its last frame does."""
    position = 0
    while position < len(data):
        frame = decode_frame(data, position)
        yield frame
        position += frame.envelope.frame_len
