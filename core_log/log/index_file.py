"""A sealed segment's index on disk: entries, the partitions' runs, and a directory of them.

The head repeats the segment's log, first leaf, rewrite count and length: an index of another
state of the segment is not used. Its numbers have the machine's own byte order, because the file
is mapped as it is; one from another machine is rebuilt. Imports the index and the file layer.
"""

import struct
import sys
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from crc32c import crc32c

from core_log.log.files import File, Files, replace_file
from core_log.log.index import ENTRY_BYTES, Index, Key, Run
from log_format.layout import SEGMENT_SUFFIX

INDEX_SUFFIX: Final = ".idx"
_MAGIC: Final = b"SGIDX1le" if sys.byteorder == "little" else b"SGIDX1be"
_HEAD: Final = struct.Struct("<8s16sQQQQQQQIIII")
"""magic, log id, first leaf, rewritten, segment length, entries, directory at, lost leaves,
missing leaves, directory length, CRC-32C of entries and runs, zeros, CRC-32C of the rest of head
and directory"""
_DIRECTORY: Final = struct.Struct("<IiQQqqqQq")
"""topic length, partition, run at, run length, first offset, end offset, greatest time, bytes
with bodies, end of those without"""

_CHECK_BYTES: Final = 1024 * 1024
"""Read at a time to check an index."""


class IndexUnusable(Exception):
    """This index file does not describe the segment; rebuild it."""


@dataclass(frozen=True, slots=True)
class SegmentState:
    """Which state of which segment an index describes."""

    log_id: bytes
    first_leaf: int
    rewritten: int
    length: int


def index_path(segment_path: Path) -> Path:
    """The index that lies beside a segment."""
    return segment_path.with_name(segment_path.name.removesuffix(SEGMENT_SUFFIX) + INDEX_SUFFIX)


def save_index(files: Files, path: Path, index: Index, state: SegmentState) -> None:
    """Write a sealed segment's index, whole or not at all."""
    directory: list[bytes] = []
    runs: list[bytes] = []
    at = _HEAD.size + len(index) * ENTRY_BYTES
    for (topic, partition), run in sorted(index.runs.items(), key=lambda item: item[1].slot):
        name = topic.encode("ascii")
        directory.append(
            _DIRECTORY.pack(
                len(name),
                partition,
                at,
                len(run),
                run.first_offset,
                run.end_offset,
                run.greatest_us,
                run.body_bytes,
                run.bodiless_end,
            )
            + name
        )
        runs.append(array("I", run.numbers).tobytes())
        at += len(runs[-1])
    names = b"".join(directory)
    content = [index.packed(), *runs]
    crc = 0
    for piece in content:
        crc = crc32c(piece, crc)
    head = _pack_head(state, (len(index), at, index.lost, index.missing), crc, names)
    replace_file(files, path, [head, *content, names])


def load_index(files: Files, path: Path, expected: SegmentState, *, check: bool) -> Index:
    """Map a sealed segment's index, or raise IndexUnusable.

    Head and directory are always checked. `check` reads the entries as well and belongs before
    the first lookup; without it, opening a log costs the same however many batches it has.
    """
    try:
        file = files.open(path, "read")
    except FileNotFoundError as error:
        raise IndexUnusable("there is none") from error
    mapped = file.map()
    if len(mapped) < _HEAD.size:
        raise IndexUnusable("it is incomplete")
    view = memoryview(mapped)
    fields = _HEAD.unpack_from(view)
    entries, directory_at, lost, missing, directory_len, crc = fields[5:11]
    if fields[0] != _MAGIC or directory_at + directory_len != len(view):
        raise IndexUnusable("it is of another version or length")
    names = bytes(view[directory_at:])
    if _pack_head(expected, fields[5:9], crc, names) != view[: _HEAD.size]:
        raise IndexUnusable("it describes another state of the segment, or is damaged")
    if check and _crc_of(file, _HEAD.size, directory_at) != crc:
        raise IndexUnusable("its entries are damaged")
    entries_end = _HEAD.size + entries * ENTRY_BYTES
    runs = _load_runs(view, names, entries_end, directory_at)
    return Index(expected.first_leaf, view[_HEAD.size : entries_end], runs, lost, missing)


def _crc_of(file: File, begin: int, end: int) -> int:
    """The checksum of a part of the file, read and not mapped.

    A page that the disk cannot read is an error here; in a mapping it would end the process.
    """
    crc = 0
    for position in range(begin, end, _CHECK_BYTES):
        try:
            crc = crc32c(file.read(position, min(_CHECK_BYTES, end - position)), crc)
        except OSError as error:
            raise IndexUnusable(f"the disk cannot read it ({error.strerror})") from error
    return crc


def _pack_head(
    state: SegmentState, extent: tuple[int, int, int, int], crc: int, names: bytes
) -> bytes:
    """The head. `extent` is: entries, where the directory begins, lost leaves, missing leaves."""
    head = _HEAD.pack(
        _MAGIC,
        state.log_id,
        state.first_leaf,
        state.rewritten,
        state.length,
        *extent,
        len(names),
        crc,
        0,
        0,
    )
    return head[:-4] + struct.pack("<I", crc32c(names, crc32c(head[:-4])))


def _load_runs(view: memoryview, names: bytes, begin: int, end: int) -> dict[Key, Run]:
    runs: dict[Key, Run] = {}
    position = 0
    while position < len(names):
        fields = _DIRECTORY.unpack_from(names, position)
        name_len, partition, at, count, first = fields[:5]
        position += _DIRECTORY.size
        topic = names[position : position + name_len].decode("ascii")
        position += name_len
        if at < begin or at + count * 4 > end:
            raise IndexUnusable("a run lies outside of the file")
        run = Run(len(runs), first)
        run.numbers = view[at : at + count * 4].cast("I")
        run.end_offset, run.greatest_us, run.body_bytes, run.bodiless_end = fields[5:]
        runs[topic, partition] = run
    return runs
