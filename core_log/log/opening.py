"""From a folder to a log that can go on: finds the segments, decides about damage, replays.

The shell around `walk`: it opens files, and cuts, keeps and removes as the table says. What the
checkpoint covers is not read again. Imports every rung below the journal.
"""

import os
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from core_log.clock import Clock
from core_log.control.starts import load_starts
from core_log.log.checkpoint import ENTRIES_SUFFIX, Checkpoint, load_checkpoint, load_entries
from core_log.log.files import File, Files
from core_log.log.folder import Folder, FoundSegment, keep_torn, look_into, write_again
from core_log.log.index import Index, Key
from core_log.log.index_file import IndexUnusable, SegmentState, index_path, load_index
from core_log.log.log_errors import LogRefused
from core_log.log.options import LogOptions
from core_log.log.partitions import Partitions
from core_log.log.producers import Producers
from core_log.log.recovery import Action
from core_log.log.results import Cut, LostRange, RecoveryReport
from core_log.log.scan import Bad, Window, scan
from core_log.log.segment import Segment, create_segment
from core_log.log.segments import SealedSegment, Segments
from core_log.log.state import State
from core_log.log.store import Store
from core_log.log.walk import Findings, Ground, Walk, Walked
from log_format.layout import SEGMENT_HEAD_BYTES, SegmentHead

LOG_ID_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Tail:
    """The segment to append to, and how much of its index the last checkpoint holds."""

    segment: Segment
    store: Store
    saved_entries: int
    saved_crc: int


@dataclass(frozen=True, slots=True)
class Opened:
    """A log that was opened: all that a journal goes on with. Everything in it is synced."""

    log_id: bytes
    state: State
    segments: Segments
    tail: Tail
    checkpoint_leaf: int
    report: RecoveryReport


class Opener:
    """Opens one log. Used once, by one thread, under the log's lock."""

    def __init__(self, files: Files, directory: Path, options: LogOptions, clock: Clock) -> None:
        self._files = files
        self._directory = directory
        self._options = options
        self._clock = clock
        self._findings = Findings()
        self._greatest: dict[Key, int] = {}
        self._held: dict[Key, int] = {}
        self._checkpoint: Checkpoint | None = None

    def open(self) -> Opened:
        """Do it all."""
        began = self._clock.monotonic()
        folder = look_into(self._files, self._directory)
        self._log_id = self._agree_on_log_id(folder)
        self._state = self._saved_state()
        self._segments = Segments(
            self._files,
            self._directory,
            self._log_id,
            open_max=self._options.open_segments_max,
            rebuild=Rebuilder(self._files, self._state.partitions).rebuild,
        )
        tail = self._walk_all(folder)
        self._note_missing_tails()
        self._set_starts()
        return Opened(
            log_id=self._log_id,
            state=self._state,
            segments=self._segments,
            tail=self._new_tail() if tail is None else tail,
            checkpoint_leaf=0 if self._checkpoint is None else self._checkpoint.leaf,
            report=self._report(self._clock.monotonic() - began),
        )

    def _agree_on_log_id(self, folder: Folder) -> bytes:
        ids = {found.head.log_id for found in folder.segments if found.head is not None}
        if len(ids) > 1:
            raise LogRefused(
                f"{self._directory} holds segments of {len(ids)} logs; "
                "keep those of one of them here and move the others away"
            )
        checkpoint = load_checkpoint(self._files, self._directory)
        if checkpoint is not None and ids and checkpoint.log_id not in ids:
            self._findings.notes.append("the checkpoint is of another log and was not used")
            checkpoint = None
        self._checkpoint = checkpoint
        if ids:
            return ids.pop()
        return os.urandom(LOG_ID_BYTES) if checkpoint is None else checkpoint.log_id

    def _saved_state(self) -> State:
        state = State(
            Partitions(),
            Producers(self._options.producers_max),
            leaf=0,
            check_sequences=self._options.check_sequences,
        )
        if self._checkpoint is not None:
            for key, end, greatest in self._checkpoint.partitions:
                partition = state.partitions.make(key)
                partition.end = end
                partition.greatest_us = greatest
            for producer_key, producer_state in self._checkpoint.producers:
                state.producers.put(producer_key, producer_state)
            state.leaf = self._checkpoint.leaf
        return state

    def _walk_all(self, folder: Folder) -> Tail | None:
        """Every segment in order; returns the last one, if it can be appended to."""
        found = folder.segments
        if found and found[0].first_leaf > 0:
            self._findings.lose(LostRange(0, found[0].first_leaf))
        if not found and self._state.leaf > 0:
            self._findings.lose(LostRange(0, self._state.leaf))
        for item, following in pairwise(found):
            self._walk_sealed(item, following.first_leaf)
            entries = item.path.with_suffix(ENTRIES_SUFFIX)
            if entries.name in folder.names and not self._segments.is_pinned(item.first_leaf):
                self._files.remove(entries)
        return self._walk_last(found[-1]) if found else None

    def _walk_sealed(self, item: FoundSegment, following: int) -> None:
        state = SegmentState(self._log_id, item.first_leaf, item.rewritten, item.size)
        try:
            replayed = following > self._state.leaf
            index = load_index(self._files, index_path(item.path), state, check=replayed)
            if index.end_leaf != following:
                raise IndexUnusable("it ends with another leaf")
        except IndexUnusable:
            self._findings.rebuilt_indexes += 1
            file, index, walked = self._walk(item, following)
            if walked.next_leaf > following:
                raise LogRefused(
                    f"{item.path.name} holds leaves up to {walked.next_leaf - 1}, and a segment "
                    f"that begins with leaf {following} follows it; move the one away that does "
                    "not belong here"
                ) from None
            sealed = SealedSegment(
                item.first_leaf, following, walked.end, item.rewritten, index.lost + index.missing
            )
            segment = Segment(item.first_leaf, item.rewritten, file, index)
            self._segments.add_sealed(sealed, segment)
        else:
            if item.head is None:
                self._findings.quarantine_head(item.path.name, item.first_leaf)
            if replayed:
                self._replay(item, index)
            self._segments.add_sealed(
                SealedSegment(
                    item.first_leaf,
                    following,
                    item.size,
                    item.rewritten,
                    index.lost + index.missing,
                )
            )
        self._add_runs(index)
        self._state.leaf = max(self._state.leaf, following)

    def _walk_last(self, item: FoundSegment) -> Tail | None:
        checkpoint = self._checkpoint
        file, index, walked = self._walk(item, None)
        # Its name alone says that all leaves below it were given away.
        self._state.leaf = max(self._state.leaf, item.first_leaf)
        if walked.action is Action.DISCARD:
            return None
        segment = Segment(item.first_leaf, item.rewritten, file, index)
        self._add_runs(index)
        self._state.leaf = max(self._state.leaf, walked.next_leaf)
        if walked.action is Action.QUARANTINE_AND_LEAVE:
            sealed = SealedSegment(
                item.first_leaf,
                index.end_leaf,
                walked.end,
                item.rewritten,
                index.lost + index.missing,
            )
            self._segments.add_sealed(sealed, segment)
            return None
        self._segments.add_active(segment)
        store = Store(file, walked.end)
        if checkpoint is None or self._walked_from == SEGMENT_HEAD_BYTES:
            return Tail(segment, store, 0, 0)
        return Tail(segment, store, checkpoint.entries, checkpoint.entries_crc)

    def _walk(self, item: FoundSegment, following: int | None) -> tuple[File, Index, Walked]:
        """Walk over a segment that has no usable index, and do what the table says."""
        file = self._files.open(item.path, "write")
        index, begin = self._saved_index(item)
        self._walked_from = begin
        window = Window(file.read, item.size)
        proven = max(following or 0, 0 if self._checkpoint is None else self._checkpoint.leaf)
        ground = Ground(item.path.name, index, begin, proven, following, item.head is not None)
        walked = Walk(ground, window, self._greatest, self._findings, self._state).run()
        self._findings.scanned_bytes += max(item.size - begin, 0)
        if window.unreadable:
            self._findings.notes.append(
                f"{item.path.name}: the disk cannot read {window.unreadable} pages"
            )
        if walked.action in (Action.CUT, Action.DISCARD):
            self._cut(item, file, walked)
        if walked.action is not Action.DISCARD and following is None and walked.end > begin:
            write_again(file, begin, walked.end, readable=not window.unreadable)
        return file, index, walked

    def _cut(self, item: FoundSegment, file: File, walked: Walked) -> None:
        kept = keep_torn(self._files, item, file, walked.end)
        if walked.action is Action.CUT:
            file.truncate(walked.end)
            file.sync()
        else:
            self._files.remove(item.path)
            self._files.sync_directory(self._directory)
        self._findings.cuts.append(
            Cut(
                item.path.name,
                walked.end,
                item.size - walked.end,
                walked.next_leaf,
                walked.whole_frames,
                kept,
            )
        )

    def _saved_index(self, item: FoundSegment) -> tuple[Index, int]:
        """The part of a growing segment's index that the checkpoint holds, and where it ends."""
        checkpoint = self._checkpoint
        if (
            checkpoint is not None
            and checkpoint.segment == item.first_leaf
            and checkpoint.position <= item.size
            and item.head is not None
        ):
            index = load_entries(self._files, item.path, checkpoint)
            if index is not None:
                self._greatest.update({key: run.greatest_us for key, run in index.runs.items()})
                return index, checkpoint.position
        return Index(item.first_leaf), SEGMENT_HEAD_BYTES

    def _replay(self, item: FoundSegment, index: Index) -> None:
        """Bring the state forward over a sealed segment whose index is good."""
        leaf = max(self._state.leaf, item.first_leaf)
        if leaf >= index.end_leaf - index.missing:
            return
        file = self._files.open(item.path, "read")
        window = Window(file.read, item.size)
        begin = index.position_of(leaf)
        self._findings.scanned_bytes += item.size - begin
        for found in scan(window, begin, leaf):
            if not isinstance(found, Bad):
                self._findings.scanned_frames += 1
                self._findings.lose(self._state.apply(found.envelope))
        file.close()

    def _add_runs(self, index: Index) -> None:
        for key, run in index.runs.items():
            partition = self._state.partitions.make(key)
            partition.add_run(run.first_offset, index.first_leaf)
            partition.start = max(partition.start, run.bodiless_end)
            self._greatest[key] = run.greatest_us
            self._held[key] = run.end_offset

    def _note_missing_tails(self) -> None:
        """By the checkpoint, a partition may end behind the last batch that is still there."""
        for partition in self._state.partitions:
            held = self._held.get(partition.key, 0)
            if held < partition.end:
                leaf = self._state.leaf
                self._findings.lose(LostRange(leaf, leaf, *partition.key, held, partition.end))

    def _set_starts(self) -> None:
        """Starts were saved before any body went, and ends lie above them, whatever was lost."""
        saved = load_starts(self._files, self._directory)
        if saved is None:
            self._findings.notes.append(
                "the file `starts` is damaged; starts were inferred from the removed bodies"
            )
            saved = {}
        for key, start in saved.items():
            partition = self._state.partitions.make(key)
            partition.start = max(partition.start, start)
            partition.end = max(partition.end, partition.start)

    def _new_tail(self) -> Tail:
        leaf = self._state.leaf
        head = SegmentHead(self._log_id, leaf, 0, self._clock.now_us())
        file = create_segment(self._files, self._directory, head)
        segment = Segment(leaf, 0, file, Index(leaf))
        self._segments.add_active(segment)
        return Tail(segment, Store(file, SEGMENT_HEAD_BYTES), 0, 0)

    def _report(self, seconds: float) -> RecoveryReport:
        findings = self._findings
        return RecoveryReport(
            clean=not (
                findings.scanned_bytes
                or findings.cuts
                or findings.quarantined
                or findings.lost
                or findings.notes
            ),
            scanned_bytes=findings.scanned_bytes,
            scanned_frames=findings.scanned_frames,
            rebuilt_indexes=findings.rebuilt_indexes,
            cuts=tuple(findings.cuts),
            quarantined=tuple(findings.quarantined),
            lost=tuple(findings.lost),
            notes=tuple(findings.notes),
            seconds=seconds,
        )


@dataclass(frozen=True, slots=True)
class Rebuilder:
    """Makes a sealed segment's index anew while the log is open."""

    files: Files
    partitions: Partitions

    def rebuild(self, sealed: SealedSegment, segments: Segments) -> Index:
        """The index of a sealed segment, from its frames and those of the segments before it."""
        file = self.files.open(segments.path(sealed.first_leaf), "read")
        index = Index(sealed.first_leaf)
        ground = Ground(
            segments.path(sealed.first_leaf).name,
            index,
            SEGMENT_HEAD_BYTES,
            proven=sealed.end_leaf,
            following=sealed.end_leaf,
            head_sound=True,
        )
        greatest = _GreatestBefore(sealed.first_leaf, self.partitions, segments)
        Walk(ground, Window(file.read, sealed.length), greatest, Findings(), None).run()
        file.close()
        return index


class _GreatestBefore(dict[Key, int]):
    """A partition's greatest append time before some segment, looked up when first asked for."""

    def __init__(self, first_leaf: int, partitions: Partitions, segments: Segments) -> None:
        super().__init__()
        self._first_leaf = first_leaf
        self._partitions = partitions
        self._segments = segments

    def get(self, key: Key, default: int = 0) -> int:  # type: ignore[override]
        """The greatest time so far."""
        if key not in self:
            partition = self._partitions.get(key)
            before = [] if partition is None else partition.runs_before(self._first_leaf)
            self[key] = default
            if before:
                run = self._segments.get(before[-1]).index.runs.get(key)
                self[key] = default if run is None else run.greatest_us
        return self[key]
