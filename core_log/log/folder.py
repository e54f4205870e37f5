"""A log's folder: which files are in it, and what is set aside there.

Imports the file layer and the format; knows no index and no state.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from core_log.log.files import TEMPORARY_SUFFIX, File, Files, replace_file, write_whole
from core_log.log.log_errors import LogRefused
from core_log.log.scan import AHEAD_BYTES
from log_format.errors import FormatError, UnsupportedVersion
from log_format.layout import (
    SEGMENT_HEAD_BYTES,
    SegmentHead,
    decode_segment_head,
    parse_segment_name,
    segment_name,
)

TORN_SUFFIX: Final = ".torn"
TORN_BYTES_MAX: Final = 16 * 1024 * 1024
"""Of one torn tail, kept aside for a look: as much as a group commits by default."""
TORN_FILES_MAX: Final = 8
"""Torn tails kept, the latest in the log: who crashes more often has other things to look at."""


@dataclass(frozen=True, slots=True)
class FoundSegment:
    """A segment's file. `head` is None if it is damaged."""

    path: Path
    first_leaf: int
    size: int
    head: SegmentHead | None

    @property
    def rewritten(self) -> int:
        """How often the cleaner has rewritten it; 0 where the head cannot tell."""
        return 0 if self.head is None else self.head.rewritten


@dataclass(frozen=True, slots=True)
class Folder:
    """What lies in a log's folder. The segments are in leaf order."""

    names: frozenset[str]
    segments: list[FoundSegment]


def look_into(files: Files, directory: Path) -> Folder:
    """List the segments with their heads, and remove what an interrupted write has left.

    The names are made durable first: what a process saw that was killed, and what it built on,
    must not be undone by a later loss of power.
    """
    files.sync_directory(directory)
    segments = []
    names = files.names(directory)
    for name in sorted(names):
        path = directory / name
        if name.endswith(TEMPORARY_SUFFIX):
            files.remove(path)
            continue
        first_leaf = parse_segment_name(name)
        if first_leaf is not None:
            segments.append(_found(files, path, first_leaf))
    return Folder(frozenset(names), segments)


def _found(files: Files, path: Path, first_leaf: int) -> FoundSegment:
    file = files.open(path, "read")
    size = file.size()
    try:
        head = decode_segment_head(file.read(0, SEGMENT_HEAD_BYTES))
    except UnsupportedVersion as error:
        raise LogRefused(
            f"{path.name}: {error}; a newer version of Sidegate wrote it: run that version"
        ) from error
    except FormatError:
        head = None
    finally:
        file.close()
    if head is not None and head.first_leaf != first_leaf:
        raise LogRefused(
            f"{path.name} says that it begins with leaf {head.first_leaf}: it was renamed; "
            f"give it its name back ({segment_name(head.first_leaf)})"
        )
    return FoundSegment(path, first_leaf, size, head)


def keep_torn(files: Files, found: FoundSegment, file: File, begin: int) -> str | None:
    """Copy what is about to be cut into a file of its own; returns its name."""
    length = min(found.size - begin, TORN_BYTES_MAX)
    if length <= 0:
        return None
    name = f"{found.path.stem}-{begin:010d}{TORN_SUFFIX}"
    directory = found.path.parent
    replace_file(files, directory / name, [file.read(begin, length)])
    kept = sorted(other for other in files.names(directory) if other.endswith(TORN_SUFFIX))
    for old in kept[:-TORN_FILES_MAX]:
        files.remove(directory / old)
    return name


def write_again(file: File, begin: int, end: int, *, readable: bool) -> None:
    """Write what was just scanned once more, and sync it.

    After a crash it may be in the system's cache only, and a cache page whose writing has failed
    counts as clean from then on: a sync alone would succeed without writing it. Where pages
    could not be read nothing is written over them.
    """
    if readable:
        for position in range(begin, end, AHEAD_BYTES):
            data = file.read(position, min(AHEAD_BYTES, end - position))
            write_whole(file, position, [data])
    file.sync()
