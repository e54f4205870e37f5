"""A log's folder: which segments it has, how far it is synced, and which ranges tasks read.

A plan freezes the ends of all files, so that a log that grows meanwhile is read as it was when
the plan was made. Reads heads of frames only. Imports the format; knows nothing of Spark.
"""

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from log_format.envelope import peek_lengths
from log_format.errors import FormatError
from log_format.layout import (
    SEGMENT_HEAD_BYTES,
    SEGMENT_SUFFIX,
    decode_segment_head,
    parse_segment_name,
)
from spark.damage import Damage
from spark.frame_walk import Range, map_file

LOG_IN_STATE: Final = Path("data") / "core"
"""Where the development mesh keeps the core's log, below its state folder."""
SPLIT_SEGMENTS_MAX: Final = 16
"""With more segments than this every core has enough to do with whole ones, and none has to be
walked over only to be split."""
TASKS_PER_CORE: Final = 2
SPLIT_BYTES_MIN: Final = 8 * 1024 * 1024
SPLIT_BYTES_MAX: Final = 256 * 1024 * 1024
"""A whole segment of the default size: half a second of work."""

_LOG_SUFFIXES: Final = frozenset({SEGMENT_SUFFIX, ".idx", ".entries", ".torn", ".tmp"})
_LOG_NAMES: Final = frozenset({"lock", "checkpoint", "starts"})
"""The files that a core writes beside its segments."""
_LEAF: Final = struct.Struct("<Q")
_LEAF_BEFORE_END: Final = 32
"""The stamp is an envelope's last part, and its leaf begins so many bytes before its end."""


class NoLog(Exception):
    """There is no log to read. The message says where was looked and what to do."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment's file. `head` fields are None where the head can't be read."""

    path: Path
    first_leaf: int
    size: int
    log_id: bytes | None
    rewritten: int | None


def log_folder(path: str) -> Path:
    """The folder that holds the segments: `path` itself, or the core's below a state folder."""
    folder = Path(path)
    for candidate in (folder, folder / LOG_IN_STATE):
        if candidate.is_dir() and any(candidate.glob(f"*{SEGMENT_SUFFIX}")):
            return candidate
    raise NoLog(
        f"{path} holds no log: there is no *{SEGMENT_SUFFIX} file in it or in its {LOG_IN_STATE};"
        " name a log's folder, or start a mesh with `make up`"
    )


def segments_of(folder: Path) -> list[Segment]:
    """The segments in the log's order."""
    found = []
    for path in folder.iterdir():
        first_leaf = parse_segment_name(path.name)
        if first_leaf is not None:
            found.append(_look(path, first_leaf))
    return sorted(found, key=lambda segment: segment.first_leaf)


def _look(path: Path, first_leaf: int) -> Segment:
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            head = decode_segment_head(file.read(SEGMENT_HEAD_BYTES))
    except FormatError:
        return Segment(path, first_leaf, size, None, None)
    except OSError:
        return Segment(path, first_leaf, 0, None, None)
    return Segment(path, first_leaf, size, head.log_id, head.rewritten)


def foreign_files(folder: Path) -> Iterator[Damage]:
    """Files that call themselves segments and are named as none."""
    for path in sorted(folder.glob(f"*{SEGMENT_SUFFIX}")):
        if parse_segment_name(path.name) is None:
            text = "is not named as a segment; move it out of the log's folder"
            yield Damage(path.name, 0, 0, "foreign_file", text)


def other_files(folder: Path) -> list[str]:
    """The names of files that are none of a log's: nothing in them is read."""
    return sorted(
        path.name
        for path in folder.iterdir()
        if path.is_file() and path.suffix not in _LOG_SUFFIXES and path.name not in _LOG_NAMES
    )


def foreign_segments(segments: list[Segment]) -> Iterator[Damage]:
    """Segments of another log than the first one's."""
    known = [segment for segment in segments if segment.log_id is not None]
    for segment in known[1:]:
        if segment.log_id != known[0].log_id:
            text = f"belongs to the log {_hex(segment)}, not to {_hex(known[0])}"
            yield Damage(segment.path.name, 0, SEGMENT_HEAD_BYTES, "foreign_segment", text)


def _hex(segment: Segment) -> str:
    return (segment.log_id or b"").hex()


def split_size(log_bytes: int, cores: int) -> int:
    """The length of ranges that gives every core a few of them: a task costs about 40 ms besides
    what it reads, and the last one to end should not keep the others waiting for long."""
    return min(max(log_bytes // (TASKS_PER_CORE * cores), SPLIT_BYTES_MIN), SPLIT_BYTES_MAX)


def plan(
    folder: Path,
    *,
    split_bytes: int | None = None,
    first_leaf: int = 0,
    end_leaf: int | None = None,
) -> list[Range]:
    """The ranges that make up the log as it is now, or those that hold some of the leaves."""
    segments = segments_of(folder)
    if split_bytes is None:
        total = sum(segment.size for segment in segments)
        split_bytes = split_size(total, os.cpu_count() or 1)
    splits = len(segments) <= SPLIT_SEGMENTS_MAX
    ranges: list[Range] = []
    for number, segment in enumerate(segments):
        last = number == len(segments) - 1
        following = None if last else segments[number + 1].first_leaf
        if following is not None and following <= first_leaf:
            continue
        if end_leaf is not None and segment.first_leaf >= end_leaf:
            break
        cuts = _cuts(segment, split_bytes) if splits and segment.size > split_bytes else []
        begins = [(0, segment.first_leaf), *cuts]
        ends = [*cuts, (segment.size, None)]
        for (begin, leaf), (end, next_leaf) in zip(begins, ends, strict=True):
            final = next_leaf is None
            ranges.append(
                Range(
                    str(segment.path),
                    segment.path.name,
                    begin,
                    end,
                    segment.rewritten,
                    leaf,
                    next_leaf,
                    last=last and final,
                )
            )
    return ranges


def _cuts(segment: Segment, split_bytes: int) -> list[tuple[int, int]]:
    """Positions of frames, about `split_bytes` apart, with their leaves; none behind damage."""
    try:
        data = map_file(segment.path)
    except OSError:
        return []
    cuts: list[tuple[int, int]] = []
    position, due = SEGMENT_HEAD_BYTES, split_bytes
    while position < segment.size:
        try:
            lengths = peek_lengths(data, position)
        except FormatError:
            break
        end = position + lengths.envelope
        if end > segment.size:
            break
        if position >= due:
            (leaf,) = _LEAF.unpack_from(data, end - _LEAF_BEFORE_END)
            cuts.append((position, leaf))
            due = position + split_bytes
        position += lengths.frame
    return cuts
