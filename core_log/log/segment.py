"""A segment: a head, frames back to back, and an index beside them.

Named by its first leaf (`00000000000000000000.seg`, `.idx`). The last one grows; the others are
sealed, wholly synced, and change only when the cleaner puts a rewritten file in their place.
Imports the rungs below (files, index) and the format; knows nothing of other segments.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from core_log.log.files import File, Files, write_whole
from core_log.log.index import Entry, Index, Key
from core_log.log.index_file import SegmentState
from log_format.errors import BadField, FormatError
from log_format.frame import Frame, decode_frame
from log_format.layout import SegmentHead, encode_segment_head, segment_name

GAP_BYTES_MAX: Final = 16 * 1024
"""Other partitions' bytes that a read takes along: below this, one system call costs more."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One state of a segment: a file and the index that fits it.

    Readers hold the pair. The cleaner makes a new pair and never touches this one, so a read
    that has begun ends on the bytes that it began with.
    """

    first_leaf: int
    rewritten: int
    file: File
    index: Index


class Extent(NamedTuple):
    """What a partition has in this segment from some offset on, as far as it was asked for."""

    frames: list[bytes]
    next_offset: int
    stopped: bool
    problem: str | None
    problem_end: int


def create_segment(files: Files, directory: Path, head: SegmentHead) -> File:
    """A new segment's file with its head, durable under its name before any frame is written."""
    path = directory / segment_name(head.first_leaf)
    file = files.open(path, "create")
    write_whole(file, 0, [encode_segment_head(head)])
    file.sync()
    files.sync_directory(directory)
    return file


def state_of(log_id: bytes, segment: Segment, length: int) -> SegmentState:
    """What an index file of this segment must say."""
    return SegmentState(log_id, segment.first_leaf, segment.rewritten, length)


def read_extent(
    segment: Segment, key: Key, offset: int, end_offset: int, max_bytes: int, *, at_least_one: bool
) -> Extent:
    """Frames of `key` from the one that holds `offset`, below `end_offset`.

    `stopped` says that the bytes are used up or a problem was met, `problem` what is wrong with
    the offsets from `next_offset` up to `problem_end`.
    """
    run = segment.index.runs.get(key)
    if run is None:  # All that it had here was lost, and the index was rebuilt without it.
        return Extent([], offset, False, None, offset)
    ordinal = max(segment.index.find(run, offset), 0)
    wanted: list[Entry] = []
    size = 0
    at = offset
    stopped = False
    hole: int | None = None
    while ordinal < len(run):
        entry = segment.index.at(run, ordinal)
        ordinal += 1
        if entry.end_offset <= at:
            continue
        if entry.base_offset >= end_offset:
            break
        if entry.base_offset > at:
            hole = entry.base_offset
            break
        if entry.has_body:
            if size + entry.length > max_bytes and (wanted or not at_least_one):
                stopped = True
                break
            wanted.append(entry)
            size += entry.length
        at = entry.end_offset
    frames, bad = _fetch(segment, key, wanted)
    if bad is not None:
        entry = wanted[len(frames)]
        return Extent(frames, max(entry.base_offset, offset), True, bad, entry.end_offset)
    if hole is not None:
        return Extent(frames, at, True, "they were lost to damage", hole)
    return Extent(frames, at, stopped, None, at)


def _fetch(segment: Segment, key: Key, entries: Sequence[Entry]) -> tuple[list[bytes], str | None]:
    """The entries' frames, checked; up to the first that is not what the index says."""
    frames: list[bytes] = []
    begin = 0
    while begin < len(entries):
        stop = begin + 1
        end = entries[begin].position + entries[begin].length
        while stop < len(entries) and entries[stop].position - end <= GAP_BYTES_MAX:
            end = entries[stop].position + entries[stop].length
            stop += 1
        first = entries[begin].position
        try:
            data = segment.file.read(first, end - first)
        except OSError as error:
            return frames, f"the disk cannot read them ({error.strerror})"
        for entry in entries[begin:stop]:
            frame = data
            if entry.length != len(data):
                frame = data[entry.position - first : entry.position - first + entry.length]
            try:
                check_frame(frame, key, entry)
            except FormatError as error:
                return frames, f"the stored batch is damaged ({error})"
            frames.append(frame)
        begin = stop
    return frames, None


def check_frame(data: bytes, key: Key, entry: Entry) -> Frame:
    """The frame in `data`, if it is sound in envelope and body and the one that `entry` names."""
    frame = decode_frame(data)
    envelope = frame.envelope
    stamp = envelope.stamp
    producer = envelope.producer
    if (
        stamp is None
        or stamp.base_offset != entry.base_offset
        or (producer.topic, producer.partition) != key
        or producer.count != entry.records
        or envelope.frame_len != len(data)
        or envelope.has_body != entry.has_body
    ):
        raise BadField("frame", "is not the one that was stored here")
    if envelope.has_body:
        frame.check_hash()
    return frame
