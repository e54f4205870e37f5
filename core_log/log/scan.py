"""Reading a segment without an index: frame after frame, and past damage to the next one.

Pure over a `read(position, length)` function. Frames lie at multiples of 8, so the search for the
next one after damage goes in steps of 8, and believes what it finds only if checksum, hash and
leaf number agree. Imports the format only.

A message may hold the bytes of a well-made frame. It can be taken for one of the log only where
damage has destroyed just the envelope around it, above the last checkpoint of the index, and
where it guessed the leaf number. Its gatekeeper's signature is then false, which the audit finds.
"""

import errno
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from log_format.envelope import (
    HEAD_BYTES,
    MAGIC,
    MAGIC_BODILESS,
    Envelope,
    decode_envelope,
    peek_lengths,
)
from log_format.errors import FormatError

Read = Callable[[int, int], bytes]
"""`read(position, length)`: the bytes there, fewer only at the end of the file."""

AHEAD_BYTES: Final = 4 * 1024 * 1024
"""Read at a time: large enough that the disk streams, small next to a process's memory."""

_PAGE_BYTES: Final = 4096
"""What is given up around a place that the disk cannot read."""

FRAME_BYTES_MIN: Final = 128
"""No stamped frame is shorter: bounds how many leaves a damaged stretch can have held."""

_ALIGNMENT: Final = 8
_MAGIC_START: Final = b"SGB"


@dataclass(frozen=True, slots=True)
class Sound:
    """A frame whose envelope, and body if it has one, are as they were written."""

    position: int
    envelope: Envelope

    @property
    def end(self) -> int:
        """Where the next item begins."""
        return self.position + self.envelope.frame_len


@dataclass(frozen=True, slots=True)
class BadBody:
    """A sound envelope whose body is not the one that it names."""

    position: int
    envelope: Envelope
    why: str

    @property
    def end(self) -> int:
        """Where the next item begins."""
        return self.position + self.envelope.frame_len


@dataclass(frozen=True, slots=True)
class Bad:
    """Bytes in which no frame can be found."""

    position: int
    length: int
    why: str

    @property
    def end(self) -> int:
        """Where the next item begins."""
        return self.position + self.length


Item = Sound | BadBody | Bad


class Window:
    """Reads ahead, so that walking over small frames is not one system call each.

    Where the disk refuses to read, the page in question reads as zeros, which is damage like any
    other, and `unreadable` counts it. Not thread-safe.
    """

    def __init__(self, read: Read, end: int) -> None:
        self._read = read
        self._begin = 0
        self._data = b""
        self.end = end
        self.unreadable = 0

    def get(self, position: int, length: int) -> bytes:
        """The bytes at `position`, fewer only at the end."""
        length = min(length, self.end - position)
        begin = position - self._begin
        if begin < 0 or begin + length > len(self._data):
            self._data = self._fetch(position, min(max(length, AHEAD_BYTES), self.end - position))
            self._begin = position
            begin = 0
        return self._data[begin : begin + length]

    def _fetch(self, position: int, length: int) -> bytes:
        try:
            return self._read(position, length)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
        pages = []
        while length > 0:
            step = min(_PAGE_BYTES - position % _PAGE_BYTES, length)
            try:
                pages.append(self._read(position, step))
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                pages.append(bytes(step))
                self.unreadable += 1
            position += step
            length -= step
        return b"".join(pages)


def scan(window: Window, begin: int, next_leaf: int) -> Iterator[Item]:
    """Everything from `begin` to the end, in order and without gaps, as items.

    `next_leaf` is the leaf that is due at `begin`. Leaf numbers only rise; a frame that breaks
    this is damage, however sound it looks.
    """
    position = begin
    while position < window.end:
        item = _frame_at(window, position, next_leaf)
        if isinstance(item, str):
            found = _next_sound(window, position + _ALIGNMENT, position, next_leaf)
            stop = window.end if found is None else found
            yield Bad(position, stop - position, item)
            position = stop
        else:
            yield item
            position = item.end
            next_leaf = _leaf(item.envelope) + 1


def _frame_at(window: Window, position: int, least_leaf: int) -> Sound | BadBody | str:
    """The frame at `position`, or what is wrong there."""
    try:
        lengths = peek_lengths(window.get(position, HEAD_BYTES))
        data = window.get(position, lengths.frame)
        envelope = decode_envelope(data)
    except FormatError as error:
        return str(error)
    if envelope.stamp is None:
        return "a frame without a stamp"
    if envelope.stamp.leaf < least_leaf:
        return f"leaf {envelope.stamp.leaf} where {least_leaf} is next"
    if len(data) < lengths.frame:
        return "the file ends inside a body"
    if envelope.has_body:
        body = memoryview(data)[lengths.envelope : lengths.envelope + envelope.body_len]
        if sha256(body).digest() != envelope.producer.body_sha256:
            return BadBody(position, envelope, "the body's SHA-256 differs from the envelope's")
        if any(data[lengths.envelope + envelope.body_len :]):
            return BadBody(position, envelope, "the padding after the body is not zero")
    return Sound(position, envelope)


def _next_sound(window: Window, position: int, damage: int, least_leaf: int) -> int | None:
    """Where the next believable frame begins, searching from `position`."""
    while position < window.end:
        chunk = window.get(position, AHEAD_BYTES)
        at = chunk.find(_MAGIC_START)
        while at >= 0:
            candidate = position + at
            if candidate % _ALIGNMENT == 0 and chunk[at : at + 4] in (MAGIC, MAGIC_BODILESS):
                item = _frame_at(window, candidate, least_leaf)
                room = (candidate - damage) // FRAME_BYTES_MIN + 1
                if isinstance(item, Sound) and _leaf(item.envelope) <= least_leaf + room:
                    return candidate
            at = chunk.find(_MAGIC_START, at + 1)
        if position + len(chunk) >= window.end:
            return None
        position += len(chunk) - _ALIGNMENT
    return None


def _leaf(envelope: Envelope) -> int:
    stamp = envelope.stamp
    if stamp is None:
        raise ValueError("a frame of the log has a stamp")
    return stamp.leaf
