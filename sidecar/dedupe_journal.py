"""Keeps the window of ids over restarts: small records in two files that take turns.

Written before a message is sent and before its app is answered, so that it holds after kill -9;
not synced, so that a power loss may lose the last of it. Blocking, a few microseconds at a time.
"""

import os
import struct
from collections.abc import Iterable, Iterator
from enum import IntEnum
from pathlib import Path
from typing import Final, NamedTuple

from crc32c import crc32c

from sidecar.dedupe import KEY_BYTES

_RECORD: Final = struct.Struct("<B3xiqq16s")
_CRC: Final = struct.Struct("<I4x")
RECORD_BYTES: Final = _RECORD.size + _CRC.size
_DURABILITIES: Final = ("committed", "interval", "os", "memory")


class Mark(IntEnum):
    """What a record says of an id."""

    BEGUN = 1
    DONE = 2
    FORGOTTEN = 3


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
        if head & 15 in (1, 2, 3) and head >> 4 < len(_DURABILITIES) and len(key) == KEY_BYTES:
            yield Line(Mark(head & 15), key, at_us, partition, offset, _DURABILITIES[head >> 4])


class DedupeJournal:
    """Two files, `ids.0` and `ids.1`. The newer is written until it holds `lines_max` records,
    then the older one is begun anew: together they always hold the newest `lines_max`."""

    def __init__(self, folder: Path, lines_max: int) -> None:
        self._paths = (folder / "ids.0", folder / "ids.1")
        self._lines_max = lines_max
        self._current = 0
        self._count = 0
        self._descriptor: int | None = None

    def open(self) -> list[Line]:
        """Everything that is remembered, oldest first; then ready to be written."""
        self._paths[0].parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        found = [
            list(decode_lines(path.read_bytes())) if path.exists() else [] for path in self._paths
        ]
        newest = [max((line.at_us for line in lines), default=-1) for lines in found]
        self._current = 1 if newest[1] > newest[0] else 0
        older, newer = found[1 - self._current], found[self._current]
        self._count = len(newer)
        self._reopen(truncate=False)
        return older + newer

    def write(self, lines: Iterable[Line]) -> None:
        """Remember; in the operating system's hands when this returns."""
        records = [encode_line(line) for line in lines]
        if self._descriptor is None or not records:
            return
        if self._count >= self._lines_max:
            self._current = 1 - self._current
            self._count = 0
            self._reopen(truncate=True)
        view = memoryview(b"".join(records))
        while view:
            view = view[os.write(self._descriptor, view) :]
        self._count += len(records)

    def close(self) -> None:
        """Give the file back."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _reopen(self, *, truncate: bool) -> None:
        self.close()
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | (os.O_TRUNC if truncate else 0)
        path = self._paths[self._current]
        self._descriptor = os.open(path, flags, 0o600)
        # A torn last record would put every later one out of step.
        whole = os.fstat(self._descriptor).st_size // RECORD_BYTES * RECORD_BYTES
        os.ftruncate(self._descriptor, whole)
