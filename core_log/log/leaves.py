"""Leaves read back from the log: envelopes and their hashes, by leaf number.

Only envelopes are read where bodies are large. Imports the segments and the format.
"""

from collections.abc import Iterator
from hashlib import sha256
from typing import Final

from core_log.log.index import Index
from core_log.log.scan import Window
from core_log.log.segment import Segment
from core_log.log.segments import Segments
from log_format.envelope import Envelope, decode_envelope, read_stamped
from log_format.errors import FormatError
from log_format.leaf import leaf_hash
from log_format.limits import ENVELOPE_BYTES_MAX

NEIGHBOUR_BYTES_MAX: Final = 16 * 1024
"""Frames up to this length are read many at a time, longer ones each alone: below it a system
call costs more than the bodies that are read along."""

_LOST_PREFIX: Final = b"\x00sidegate lost leaf\n"


def lost_leaf_hash(leaf: int) -> bytes:
    """What stands in the tree for a leaf that damage took before any checkpoint covered it.

    No envelope begins like this, so it can't be taken for one: it says that nothing is known.
    """
    return sha256(_LOST_PREFIX + leaf.to_bytes(8, "little")).digest()


class Leaves:
    """The leaves of one log. Any thread may ask; each opens what it needs."""

    def __init__(self, segments: Segments) -> None:
        self._segments = segments

    def hashes(self, begin: int, end: int) -> Iterator[bytes | None]:
        """The leaf hashes from `begin` up to `end`, in order; None for one that is lost."""
        at = begin
        for first_leaf in self._segments.from_leaf(begin):
            if at >= end:
                return
            for _ in range(at, min(first_leaf, end)):
                yield None
            at = max(at, min(first_leaf, end))
            segment = self._segments.get(first_leaf)
            for found in _hashes(segment, at - first_leaf, end - first_leaf):
                yield found
                at += 1
        for _ in range(at, end):
            yield None

    def envelope(self, leaf: int) -> Envelope | None:
        """One leaf's envelope, as it was stamped; None if it is lost."""
        first_leaf = next(iter(self._segments.from_leaf(leaf)), None)
        if first_leaf is None or first_leaf > leaf:
            return None
        segment = self._segments.get(first_leaf)
        number = leaf - first_leaf
        if number >= len(segment.index) or segment.index.is_lost(number):
            return None
        position, length = _extent(segment.index, number)
        return _decoded(segment.file.read(position, min(length, ENVELOPE_BYTES_MAX)), leaf)


def _hashes(segment: Segment, begin: int, end: int) -> Iterator[bytes | None]:
    index = segment.index
    window = Window(segment.file.read, segment.file.size())
    for number in range(begin, min(end, len(index))):
        if index.is_lost(number):
            yield None
            continue
        position, length = _extent(index, number)
        read = window.get if length <= NEIGHBOUR_BYTES_MAX else segment.file.read
        data = read(position, min(length, ENVELOPE_BYTES_MAX))
        yield _hash(data, segment.first_leaf + number)


def _extent(index: Index, number: int) -> tuple[int, int]:
    entry = index.entry(number)
    return entry.position, entry.length


def _hash(data: bytes, leaf: int) -> bytes | None:
    """The hash of the envelope in `data`, if its checksum is right and it is of this leaf."""
    try:
        raw, stamp = read_stamped(data)
    except FormatError:
        return None
    return leaf_hash(raw) if stamp.leaf == leaf else None


def _decoded(data: bytes, leaf: int) -> Envelope | None:
    """The envelope in `data`, if it is sound and of this leaf."""
    try:
        envelope = decode_envelope(data)
    except FormatError:
        return None
    if envelope.stamp is None or envelope.stamp.leaf != leaf:
        return None
    return envelope
