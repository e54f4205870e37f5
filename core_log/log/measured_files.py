"""The file layer with a stopwatch on `sync`, which is what an append waits for."""

import mmap
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from core_log.log.files import File, Mode, OsFiles
from log_format.layout import SEGMENT_SUFFIX

Observe = Callable[[str, float], None]
"""Is told the kind of file (`segment` or `other`) and the seconds of a sync, from any thread."""


class MeasuredFile:
    """A file whose syncs are timed; everything else goes straight through."""

    __slots__ = ("_file", "_kind", "_observe")

    def __init__(self, file: File, kind: str, observe: Observe) -> None:
        self._file = file
        self._kind = kind
        self._observe = observe

    def size(self) -> int:
        """Its length in bytes."""
        return self._file.size()

    def read(self, position: int, length: int) -> bytes:
        """Up to `length` bytes at `position`."""
        return self._file.read(position, length)

    def write(self, position: int, buffers: Sequence[bytes]) -> int:
        """Write buffers at `position`."""
        return self._file.write(position, buffers)

    def sync(self) -> None:
        """Sync, and tell how long it took."""
        began = time.perf_counter()
        self._file.sync()
        self._observe(self._kind, time.perf_counter() - began)

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes."""
        self._file.truncate(size)

    def map(self) -> mmap.mmap | bytes:
        """The whole file as it is now."""
        return self._file.map()

    def close(self) -> None:
        """Give the descriptor back."""
        self._file.close()


class MeasuredFiles(OsFiles):
    """The operating system's files, with their syncs timed."""

    def __init__(self, observe: Observe) -> None:
        self._observe = observe

    def open(self, path: Path, mode: Mode) -> File:  # type: ignore[override]
        """Open one file."""
        kind = "segment" if path.suffix == SEGMENT_SUFFIX else "other"
        return MeasuredFile(super().open(path, mode), kind, self._observe)
