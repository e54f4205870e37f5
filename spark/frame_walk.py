"""Walks over the frames of one range of a segment, and goes on behind what is damaged.

Frames and damage come out in the file's order. Imports the format; knows nothing of Spark. The
bytes are mapped, not read: a batch that nobody wants costs its envelope only.
"""

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from log_format.errors import FormatError, Truncated
from log_format.frame import Frame, decode_frame
from log_format.layout import SEGMENT_HEAD_BYTES, decode_segment_head
from log_format.search import envelope_at, next_frame
from spark.damage import Damage


@dataclass(frozen=True, slots=True)
class Range:
    """A piece of a segment that one task reads.

    Positions hold while the segment has been rewritten `rewritten` times. The cleaner may rewrite
    it between planning and reading; then the leaves say what belongs to this range. `end_leaf` is
    None for the range that reaches to the segment's end.
    """

    path: str
    file: str
    begin: int
    end: int
    rewritten: int | None
    first_leaf: int
    end_leaf: int | None
    last: bool
    """True for the last range of the log, whose incomplete end is no damage."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A frame and where it lies."""

    frame: Frame
    position: int


def walk(piece: Range) -> Iterator[Placed | Damage]:
    """Every frame of the range, and what is damaged between them."""
    try:
        data = map_file(Path(piece.path))
    except OSError as error:
        yield Damage(piece.file, 0, 0, "unreadable", error.strerror or str(error))
        return
    begin, end, moved = piece.begin, min(piece.end, len(data)), False
    if piece.rewritten is not None:
        try:
            moved = decode_segment_head(data).rewritten != piece.rewritten
        except FormatError as error:
            yield Damage(piece.file, 0, SEGMENT_HEAD_BYTES, "segment_head", str(error))
    if not moved:
        if begin == 0:
            yield from _head_damage(data, piece)
            begin = SEGMENT_HEAD_BYTES if _sound_head(data) else next_frame(data, 0, end)
        yield from _frames(data, begin, end, piece)
        if piece.end > len(data):
            yield Damage(
                piece.file, len(data), piece.end - len(data), "truncated", "the file became shorter"
            )
        return
    # Rewritten since the plan was made: bodies are gone and positions differ, leaves do not.
    next_leaf = 0
    for found in _frames(data, SEGMENT_HEAD_BYTES, len(data), piece):
        envelope = found.envelope if isinstance(found, Damage) else found.frame.envelope
        if envelope is not None and envelope.stamp is not None:
            next_leaf = envelope.stamp.leaf
        if piece.end_leaf is not None and next_leaf >= piece.end_leaf:
            return
        if next_leaf >= piece.first_leaf:
            yield found


def map_file(path: Path) -> memoryview:
    """A file's bytes without reading them; unmapped when the last view of them is gone."""
    with path.open("rb") as file:
        if path.stat().st_size == 0:
            return memoryview(b"")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _sound_head(data: memoryview) -> bool:
    try:
        decode_segment_head(data)
    except FormatError:
        return False
    return True


def _head_damage(data: memoryview, piece: Range) -> Iterator[Damage]:
    try:
        head = decode_segment_head(data)
    except FormatError as error:
        if data or not piece.last:
            length = min(len(data), SEGMENT_HEAD_BYTES)
            yield Damage(piece.file, 0, length, f"segment_{error.code}", str(error))
        return
    if head.first_leaf != piece.first_leaf:
        text = f"the file is named {piece.first_leaf} and begins with leaf {head.first_leaf}"
        yield Damage(piece.file, 0, SEGMENT_HEAD_BYTES, "segment_name", text)


def _frames(data: memoryview, begin: int, end: int, piece: Range) -> Iterator[Placed | Damage]:
    position = begin
    within = data[:end]
    while position < end:
        try:
            frame = decode_frame(within, position)
        except FormatError as error:
            following = next_frame(within, position + 8, end)
            torn = following == end and isinstance(error, Truncated)
            if not (torn and piece.last):
                length = following - position
                text = f"{error} ({length} bytes are no sound batch)"
                envelope = envelope_at(within, position)
                yield Damage(piece.file, position, length, error.code, text, envelope)
            position = following
            continue
        if frame.envelope.stamp is None:
            length = frame.envelope.frame_len
            text = "a batch in the log has no stamp"
            yield Damage(piece.file, position, length, "no_stamp", text, frame.envelope)
        else:
            yield Placed(frame, position)
        position += frame.envelope.frame_len
