"""Keeps the window of ids over restarts: small records in two files that take turns.

Written before a message is sent and before its app is answered, so that it holds after kill -9;
not synced, so that a power loss may lose the last of it. Blocking, a few microseconds at a time.
"""

import contextlib
import os
import struct
from collections.abc import Iterable, Iterator
from enum import IntEnum
from pathlib import Path
from typing import Final, NamedTuple

from crc32c import crc32c

from sidecar.publish.dedupe import KEY_BYTES

_RECORD: Final = struct.Struct("<B3xiqq16s")
_CRC: Final = struct.Struct("<I4x")
RECORD_BYTES: Final = _RECORD.size + _CRC.size
_DURABILITIES: Final = ("committed", "interval", "os", "memory")


class Mark(IntEnum):
    """What a record says of an id."""

    BEGUN = 1
    DONE = 2
    FORGOTTEN = 3
    GENERATION = 4
    """The first of a file; its offset is the number that counts the files begun."""


class Line(NamedTuple):
    """One record. Partition and offset only where it is done."""

    mark: Mark
    key: bytes
    at_us: int
    partition: int = 0
    offset: int = 0
    durability: str = "committed"


def encode_line(line: Line) -> bytes:
    """A record as bytes; the durability takes the mark's upper bits."""
    code = _DURABILITIES.index(line.durability) if line.durability in _DURABILITIES else 0
    packed = _RECORD.pack(line.mark | code << 4, line.partition, line.offset, line.at_us, line.key)
    return packed + _CRC.pack(crc32c(packed))


def decode_lines(data: bytes) -> Iterator[Line]:
    """All sound records; a torn one ends the file, a damaged one is passed over."""
    for at in range(0, len(data) - RECORD_BYTES + 1, RECORD_BYTES):
        packed = data[at : at + _RECORD.size]
        if _CRC.unpack_from(data, at + _RECORD.size)[0] != crc32c(packed):
            continue
        head, partition, offset, at_us, key = _RECORD.unpack(packed)
        if head & 15 in (1, 2, 3, 4) and head >> 4 < len(_DURABILITIES) and len(key) == KEY_BYTES:
            yield Line(Mark(head & 15), key, at_us, partition, offset, _DURABILITIES[head >> 4])


class DedupeJournal:
    """Two files, `ids.0` and `ids.1`. The newer is written until it holds `lines_max` records,
    then the older one is begun anew: together they always hold the newest `lines_max`.

    A file begins with its generation, so that no clock has to tell which one is newer.
    """

    def __init__(self, folder: Path, lines_max: int) -> None:
        self._paths = (folder / "ids.0", folder / "ids.1")
        self._lines_max = lines_max
        self._current = 0
        self._count = 0
        self._generation = 0
        self._descriptor: int | None = None

    def open(self) -> list[Line]:
        """Everything that is remembered, oldest first; then ready to be written. A disk that does
        not take the files says so again at each `write`."""
        found = [
            list(decode_lines(path.read_bytes())) if path.exists() else [] for path in self._paths
        ]
        ages = [_generation(lines) for lines in found]
        self._current = 1 if ages[1] > ages[0] else 0
        self._generation = ages[self._current]
        older, newer = found[1 - self._current], found[self._current]
        self._count = len(newer)
        with contextlib.suppress(OSError):
            self._reopen(truncate=False)
        return [line for line in older + newer if line.mark is not Mark.GENERATION]

    def write(self, lines: Iterable[Line]) -> None:
        """Remember; in the operating system's hands when this returns. OSError where the disk
        does not take it; then none or some of the lines are remembered."""
        records = [encode_line(line) for line in lines]
        if not records:
            return
        if self._descriptor is None:
            self._reopen(truncate=False)
        elif self._count >= self._lines_max:
            self._current = 1 - self._current
            self._generation += 1
            self._reopen(truncate=True)
        if self._count == 0:
            first = Line(Mark.GENERATION, bytes(KEY_BYTES), 0, offset=self._generation)
            records.insert(0, encode_line(first))
        self._append(b"".join(records))
        self._count += len(records)

    def close(self) -> None:
        """Give the file back. Whatever is still written opens it once more."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _append(self, data: bytes) -> None:
        descriptor = self._descriptor
        if descriptor is None:
            raise OSError("the file of ids is closed")
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(descriptor, view) :]
        except OSError:
            _cut_to_whole(descriptor)
            raise

    def _reopen(self, *, truncate: bool) -> None:
        self.close()
        path = self._paths[self._current]
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | (os.O_TRUNC if truncate else 0)
        self._descriptor = os.open(path, flags, 0o600)
        if truncate:
            self._count = 0
        _cut_to_whole(self._descriptor)


def _generation(lines: list[Line]) -> int:
    """Of a file; an empty one is older than any."""
    if not lines:
        return -1
    return lines[0].offset if lines[0].mark is Mark.GENERATION else 0


def _cut_to_whole(descriptor: int) -> None:
    """A torn last record would put every later one out of step."""
    os.ftruncate(descriptor, os.fstat(descriptor).st_size // RECORD_BYTES * RECORD_BYTES)
