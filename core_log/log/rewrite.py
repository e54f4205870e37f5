"""Rewrites one sealed segment without the bodies that have expired; the envelopes stay.

Everything else is copied byte by byte, damaged stretches too: quarantine is not ended by moving
house. The new file is complete and synced when this returns; who called puts it in place.
Imports the segment and the format.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from core_log.log.files import File, Files, write_whole
from core_log.log.index import Entry, Index, Key
from core_log.log.scan import Window
from core_log.log.segment import Segment
from log_format.envelope import decode_envelope, without_body
from log_format.errors import FormatError
from log_format.layout import (
    SEGMENT_HEAD_BYTES,
    SegmentHead,
    decode_segment_head,
    encode_segment_head,
)
from log_format.limits import ENVELOPE_BYTES_MAX

COPY_BYTES: Final = 1024 * 1024
"""Copied at a time: few system calls, and little memory."""

NEIGHBOUR_BYTES_MAX: Final = 16 * 1024
"""Frames up to this length are read many at a time for their envelopes, longer ones each alone:
below it a system call costs more than the bodies that are read along."""

SYNC_BYTES: Final = 8 * COPY_BYTES
"""Written between syncs: a longer one would hold up the writer's own syncs on the same disk."""

Expired = Callable[[Key, Entry], bool]
"""Says whether a batch's body has to go."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A segment's new form: `index` fits the new file, which has `length` bytes."""

    index: Index
    length: int
    bodies_removed: int
    unreadable: int


class RewriteGivenUp(Exception):
    """The segment stays as it is: it cannot be read, or the log is closing."""


def head_of(segment: Segment) -> SegmentHead:
    """A segment's head, which a rewriting has to carry on."""
    try:
        return decode_segment_head(_read(segment.file, 0, SEGMENT_HEAD_BYTES))
    except FormatError as error:
        raise RewriteGivenUp(f"its head is damaged ({error})") from error


def rewrite(
    files: Files,
    path: Path,
    segment: Segment,
    head: SegmentHead,
    length: int,
    *,
    expired: Expired,
    stopped: Callable[[], bool],
) -> Rewritten:
    """Write `segment`, which is `length` bytes long, to `path` without its expired bodies."""
    file = files.open(path, "create")
    try:
        return _Copy(segment, length, file, head, stopped).run(expired)
    finally:
        file.close()


def _read(file: File, position: int, length: int) -> bytes:
    """Read what must be there. An error of the old file is no error of the new one."""
    try:
        data = file.read(position, length)
    except OSError as error:
        raise RewriteGivenUp(f"the disk cannot read it ({error.strerror})") from error
    if len(data) < length:
        raise RewriteGivenUp("its file is shorter than it was")
    return data


class _Copy:
    """One rewriting.

    Invariant: what the old file holds below `_copied_to` is in the new one below `_end`, the last
    `_buffered` bytes of it in memory still.
    """

    def __init__(
        self,
        segment: Segment,
        length: int,
        file: File,
        head: SegmentHead,
        stopped: Callable[[], bool],
    ) -> None:
        self._segment = segment
        self._file = file
        self._stopped = stopped
        self._window = Window(partial(_read, segment.file), length)
        self._index = Index(head.first_leaf)
        self._index.missing = segment.index.missing
        self._buffer = [encode_segment_head(head)]
        self._buffered = SEGMENT_HEAD_BYTES
        self._end = SEGMENT_HEAD_BYTES
        self._copied_to = SEGMENT_HEAD_BYTES
        self._synced = 0
        self._removed = 0
        self._unreadable = 0

    def run(self, expired: Expired) -> Rewritten:
        for key, entry in self._segment.index.in_order():
            if self._stopped():
                raise RewriteGivenUp("the log is closing")
            if key is None:
                self._index.add_lost(1, self._moved(entry.position))
                continue
            envelope = None
            if entry.has_body and expired(key, entry):
                envelope = self._bodiless(entry)
            if envelope is None:
                self._keep(key, entry)
            else:
                self._replace(key, entry, envelope)
        self._copy_to(self._window.end)
        self._flush()
        self._file.sync()
        return Rewritten(self._index, self._end, self._removed, self._unreadable)

    def _moved(self, position: int) -> int:
        """Where a position of the old file that is yet to be copied comes to lie."""
        return self._end + position - self._copied_to

    def _bodiless(self, entry: Entry) -> bytes | None:
        """The envelope that stays. Small frames are read with their neighbours, large ones not."""
        read = self._window.get
        if entry.length > NEIGHBOUR_BYTES_MAX:
            read = partial(_read, self._segment.file)
        try:
            data = read(entry.position, min(entry.length, ENVELOPE_BYTES_MAX))
            return without_body(decode_envelope(data).raw)
        except FormatError:
            self._unreadable += 1
            return None

    def _keep(self, key: Key, entry: Entry) -> None:
        self._add(key, entry, self._moved(entry.position), entry.length, entry.has_body)

    def _replace(self, key: Key, entry: Entry, envelope: bytes) -> None:
        self._copy_to(entry.position)
        self._add(key, entry, self._end, len(envelope), has_body=False)
        self._write(envelope)
        self._copied_to = entry.position + entry.length
        self._removed += 1

    def _add(self, key: Key, entry: Entry, position: int, length: int, has_body: bool) -> None:
        self._index.add(
            key,
            entry.base_offset,
            entry.records,
            position,
            length,
            entry.append_us,
            entry.greatest_us,
            has_body,
        )

    def _copy_to(self, position: int) -> None:
        """Copy the old file's bytes up to `position`."""
        while self._copied_to < position:
            step = min(COPY_BYTES, position - self._copied_to)
            self._write(_read(self._segment.file, self._copied_to, step))
            self._copied_to += step
            if self._stopped():
                raise RewriteGivenUp("the log is closing")

    def _write(self, data: bytes) -> None:
        self._buffer.append(data)
        self._buffered += len(data)
        self._end += len(data)
        if self._buffered >= COPY_BYTES:
            self._flush()

    def _flush(self) -> None:
        write_whole(self._file, self._end - self._buffered, self._buffer)
        self._buffer.clear()
        self._buffered = 0
        if self._end - self._synced >= SYNC_BYTES:
            self._file.sync()
            self._synced = self._end
