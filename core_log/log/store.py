"""The lowest rung: bytes at positions in one growing file.

Imports the file layer only; knows nothing of frames, heads or offsets.
"""

from collections.abc import Sequence

from core_log.log.files import File, write_whole


class Store:
    """One file that grows at its end.

    Invariant: `end` is where the next append goes, and everything below it was written whole.
    One thread appends, cuts and syncs; any thread may read below an `end` that it was told of.
    """

    __slots__ = ("_end", "_file")

    def __init__(self, file: File, end: int) -> None:
        self._file = file
        self._end = end

    @property
    def end(self) -> int:
        """The position behind the last whole append."""
        return self._end

    @property
    def file(self) -> File:
        """The file, for readers; it stays open for as long as somebody holds it."""
        return self._file

    def append(self, buffers: Sequence[bytes]) -> int:
        """Write all buffers at the end and return where they begin.

        After an OSError the file may hold a part of them: call `cut_back` before anything else.
        """
        begin = self._end
        self._end = write_whole(self._file, begin, buffers)
        return begin

    def sync(self) -> None:
        """Make everything that was appended durable."""
        self._file.sync()

    def cut_back(self, end: int) -> None:
        """Take back what was written at and above `end`, durably.

        The sync keeps a refused append from coming back: without it a crash could bring up the
        bytes that were cut instead of those that took their place.
        """
        self._end = end
        self._file.truncate(end)
        self._file.sync()
