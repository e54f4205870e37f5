"""The spool's files: append and sync, read back, mark as settled, give room back.

Blocking; one thread uses it. Knows records and positions, no lanes and no network. The invariant
after any crash: what `append` has returned is found by `open`, unless it was marked.
"""

import errno
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Final

from sidecar.spool.spool_format import (
    HEAD_BYTES,
    SEGMENT_MAGIC,
    Kind,
    Record,
    decode_done,
    decode_record,
    encode_done,
    encode_record,
    make_position,
    payload_length,
    record_bytes,
    scan_segment,
    split_position,
)
from sidecar.spool.whole_file import sync_folder

_NAME: Final = re.compile(r"([0-9]{10})\.spool")
_DISK_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
PROBE_BYTES: Final = 1024 * 1024
"""A full disk is taken to have room again when this fits: a batch of the default size."""
RESTART_BYTES: Final = 1024 * 1024
"""A drained segment smaller than this is written on; a larger one is replaced by a new one."""


class SpoolFull(Exception):
    """The disk has no room. Nothing of the append is kept; it may work again later."""


class SpoolFailed(Exception):
    """The disk did not do what it was told. The spool takes nothing more until a restart.

    `unsure` where what was to be appended may be found by the next run all the same.
    """

    def __init__(self, text: str, *, unsure: bool = False) -> None:
        super().__init__(text)
        self.unsure = unsure


@dataclass(frozen=True, slots=True)
class Stored:
    """A frame that waits in the spool."""

    position: int
    order: int
    written_us: int
    frame: bytes | memoryview


@dataclass(slots=True)
class _Segment:
    """One file. `live` counts its frames that are not marked."""

    number: int
    path: Path
    size: int = 0
    live: int = 0


class FileLayer:
    """The calls to the operating system, in one place so that tests can make them fail."""

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        """As os.write."""
        return os.write(descriptor, data)

    def sync(self, descriptor: int) -> None:
        """Bring written data to the disk."""
        if hasattr(os, "fdatasync"):
            os.fdatasync(descriptor)
        else:
            os.fsync(descriptor)


class SpoolFiles:
    """Segments in a folder, the last of which is written to. Not thread-safe.

    Segments are removed from the oldest on, once all of their frames are marked: the marks may
    lie in younger ones. `next_order` is above the order of every frame that was ever stored here.
    Each position may be marked once. On a full disk there may be no segment to write to; then what
    is there can be read and sent all the same, and segments that are settled make room.
    """

    def __init__(self, folder: Path, *, segment_bytes: int, files: FileLayer | None = None) -> None:
        self._folder = folder
        self._segment_bytes = segment_bytes
        self._files = files or FileLayer()
        self._segments: list[_Segment] = []
        self._descriptor: int | None = None
        self._next_number = 0
        self._unwritten_marks: list[int] = []
        self.failed: str | None = None
        self.next_order = 0
        self.damaged_bytes = 0

    @property
    def bytes_used(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self._segments)

    @property
    def live(self) -> int:
        """Frames that are not marked."""
        return sum(segment.live for segment in self._segments)

    def open(self, found: Callable[[Stored], None]) -> None:
        """Read what is there; `found` is called for each frame that is not marked, in file order.

        A torn tail of the last segment is cut. Damage elsewhere is passed over and counted.
        SpoolFull or SpoolFailed where nothing can be written: what is there was found before.
        """
        names = []
        if self._folder.exists():
            names = sorted(
                each.name for each in self._folder.iterdir() if _NAME.fullmatch(each.name)
            )
        self._segments = [
            _Segment(int(name.partition(".")[0]), self._folder / name) for name in names
        ]
        self._next_number = self._segments[-1].number + 1 if self._segments else 0
        done: set[int] = set()
        for segment in self._segments:
            for record in self._scan(segment, segment.path.read_bytes()):
                if record.kind is Kind.DONE:
                    done.update(decode_done(record))
        # Read twice and never held as a whole: a full spool is larger than the sidecar may be.
        for segment in self._segments:
            for each in scan_segment(segment.path.read_bytes()):
                if isinstance(each, Record) and each.kind is Kind.FRAME:
                    self._note(segment, each, done, found)
        # Before anything is written: a full disk may get room by this alone.
        self._remove_settled()
        self._begin_segment()

    def append(self, frames: Iterable[tuple[int, bytes]], written_us: int) -> list[int]:
        """Store frames with their orders and sync; their positions. All of them or none."""
        self._refuse_failed()
        records = []
        for order, frame in frames:
            records.append(encode_record(Kind.FRAME, order, written_us, frame))
            self.next_order = max(self.next_order, order + 1)
        size = sum(map(len, records))
        if self._descriptor is None or self._active.size + size > self._segment_bytes:
            self._begin_segment()
        segment = self._active
        ends = list(accumulate(map(len, records), initial=segment.size))
        self._write(b"".join(records))
        segment.live += len(records)
        return [make_position(segment.number, begin) for begin in ends[:-1]]

    def mark(self, positions: Iterable[int], written_us: int) -> None:
        """Mark frames as settled and sync; remove segments that hold no others.

        SpoolFull where the disk has no room for the marks: they are written with the next ones,
        and until then a crash would bring these frames back.
        """
        self._refuse_failed()
        by_number = {segment.number: segment for segment in self._segments}
        for position in positions:
            self._unwritten_marks.append(position)
            segment = by_number.get(split_position(position)[0])
            if segment is not None:
                segment.live -= 1
        # A segment without live frames needs no marks; removing it makes room for the others.
        self._remove_settled()
        kept = {segment.number for segment in self._segments}
        marks = [each for each in self._unwritten_marks if split_position(each)[0] in kept]
        if marks:
            if self._descriptor is None:
                self._begin_segment()
            self._write(encode_done(marks, written_us))
        self._unwritten_marks.clear()
        self._restart_empty()

    def probe(self) -> None:
        """Whether a disk that was full takes something again: nothing, or why not is raised."""
        self._refuse_failed()
        if self._descriptor is None:
            self._begin_segment()
        descriptor, size = self._descriptor, self._active.size
        if descriptor is None:
            raise SpoolFailed("the spool is closed")
        try:
            # A crash meanwhile leaves a torn tail of zeros, which the next run cuts.
            self._write_whole(descriptor, bytes(PROBE_BYTES))
            self._files.sync(descriptor)
        except OSError as error:
            raise self._refused(error) from error
        finally:
            self._take_back(descriptor, size)

    def read(self, position: int) -> Stored | None:
        """The frame at `position`, or None where the disk has lost it."""
        number, offset = split_position(position)
        segment = next((each for each in self._segments if each.number == number), None)
        if segment is None:
            return None
        with segment.path.open("rb") as file:
            file.seek(offset)
            head = file.read(HEAD_BYTES)
            length = payload_length(head)
            if length is None:
                return None
            whole = head + file.read(record_bytes(length) - len(head))
        record = decode_record(whole, 0)
        if record is None or record.kind is not Kind.FRAME:
            return None
        return Stored(position, record.order, record.written_us, bytes(record.payload))

    def close(self) -> None:
        """Give the file back."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    @property
    def _active(self) -> _Segment:
        return self._segments[-1]

    def _refuse_failed(self) -> None:
        if self.failed is not None:
            raise SpoolFailed(self.failed)

    def _scan(self, segment: _Segment, data: bytes) -> Iterator[Record]:
        segment.size = len(data)
        for each in scan_segment(data):
            if isinstance(each, Record):
                yield each
            elif each.at_end and segment is self._active:
                os.truncate(segment.path, each.offset)
                segment.size = each.offset
            else:
                self.damaged_bytes += each.end - each.offset

    def _note(
        self, segment: _Segment, record: Record, done: set[int], found: Callable[[Stored], None]
    ) -> None:
        position = make_position(segment.number, record.offset)
        self.next_order = max(self.next_order, record.order + 1)
        if position not in done:
            segment.live += 1
            found(Stored(position, record.order, record.written_us, record.payload))

    def _begin_segment(self) -> None:
        # A number never comes again in one run: marks of a removed segment may still wait.
        number = self._next_number
        path = self._folder / f"{number:010d}.spool"
        descriptor = None
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
            self._write_whole(descriptor, SEGMENT_MAGIC)
            self._files.sync(descriptor)
            sync_folder(self._folder)
        except OSError as error:
            if descriptor is not None:
                os.close(descriptor)
                path.unlink(missing_ok=True)
            raise self._refused(error) from error
        self.close()
        self._descriptor = descriptor
        self._next_number += 1
        self._segments.append(_Segment(number, path, size=len(SEGMENT_MAGIC)))

    def _write(self, data: bytes) -> None:
        segment, descriptor = self._active, self._descriptor
        if descriptor is None:
            raise SpoolFailed("the spool is closed")
        try:
            self._write_whole(descriptor, data)
        except OSError as error:
            self._take_back(descriptor, segment.size)
            raise self._refused(error) from error
        try:
            self._files.sync(descriptor)
        except OSError as error:
            erased = self._erased(segment)
            if erased and error.errno in _DISK_FULL:
                raise self._refused(error) from error
            # What reached the disk is unknown now, and asking again would hide it.
            self.failed = f"the spool could not be synced: {error}; restart the sidecar"
            raise SpoolFailed(self.failed, unsure=not erased) from error
        segment.size += len(data)

    def _write_whole(self, descriptor: int, data: bytes) -> None:
        """The operating system may take less than it is given."""
        view = memoryview(data)
        while view:
            view = view[self._files.write(descriptor, view) :]

    def _erased(self, segment: _Segment) -> bool:
        """Cut what was just written off again, for good: whoever sent it is told that it is not
        kept, so a later run must not find it. False where the disk refuses that too."""
        if self._descriptor is None:
            return False
        try:
            os.ftruncate(self._descriptor, segment.size)
            self._files.sync(self._descriptor)
        except OSError:
            return False
        return True

    def _take_back(self, descriptor: int, size: int) -> None:
        try:
            os.ftruncate(descriptor, size)
        except OSError as error:
            self.failed = f"a torn write could not be taken back: {error}"

    def _refused(self, error: OSError) -> Exception:
        if error.errno in _DISK_FULL and self.failed is None:
            return SpoolFull(f"the spool's disk is full: {error.strerror}")
        self.failed = self.failed or f"the spool could not be written: {error}"
        return SpoolFailed(self.failed)

    def _remove_settled(self) -> None:
        removed = False
        kept = 0 if self._descriptor is None else 1
        while len(self._segments) > kept and not self._segments[0].live:
            self._segments.pop(0).path.unlink(missing_ok=True)
            removed = True
        if removed:
            sync_folder(self._folder)

    def _restart_empty(self) -> None:
        """A drained spool gives its room back, also that of the segment in use."""
        if self._descriptor is None:
            return
        if len(self._segments) == 1 and not self._active.live and self._active.size > RESTART_BYTES:
            self._begin_segment()
            self._remove_settled()
