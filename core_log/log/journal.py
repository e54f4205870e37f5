"""The log on disk, without threads: appends groups, rolls segments, reads, takes checkpoints.

`Log` gives it a writer thread and admission. Imports every rung below. Knows no queue, no caller
and no limit on what waits.
"""

from bisect import bisect_left
from dataclasses import dataclass, replace
from pathlib import Path

from crc32c import crc32c

from core_log.clock import Clock
from core_log.log.checkpoint import ENTRIES_SUFFIX, Checkpoint, save_checkpoint, save_entries
from core_log.log.files import Files
from core_log.log.group import Group
from core_log.log.hot_tail import HotTail
from core_log.log.index import Index, Key
from core_log.log.log_errors import Damaged
from core_log.log.opening import Opened, Opener
from core_log.log.options import LogOptions
from core_log.log.partitions import Partition
from core_log.log.results import ReadResult
from core_log.log.segment import Segment, create_segment, read_extent
from core_log.log.segments import SealedSegment, Segments
from core_log.log.store import Store
from core_log.tree.tree import Tree
from core_log.tree.tree_opening import open_tree
from log_format.layout import SEGMENT_HEAD_BYTES, SegmentHead


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A moment of the log that a checkpoint may save: all of it is synced."""

    checkpoint: Checkpoint
    index: Index


class Journal:
    """An open log's segments and state.

    Invariant: everything below `next_leaf` is written and everything below `durable_leaf` is
    synced; a reader sees a batch only after `apply`. One thread at a time writes (`group` to
    `snapshot`), one saves (`save`), any thread may read.
    """

    def __init__(
        self, opened: Opened, files: Files, directory: Path, options: LogOptions, clock: Clock
    ) -> None:
        self._files = files
        self._directory = directory
        self._options = options
        self._clock = clock
        self._active = opened.tail.segment
        self._store = opened.tail.store
        self._saved_segment = opened.tail.segment.first_leaf
        self._saved_entries = opened.tail.saved_entries
        self._saved_crc = opened.tail.saved_crc
        self.log_id = opened.log_id
        self.report = opened.report
        self.partitions = opened.state.partitions
        self.producers = opened.state.producers
        self.segments = opened.segments
        self.hot = HotTail(options.hot_tail_bytes)
        self.next_leaf = opened.state.leaf
        self.durable_leaf = opened.state.leaf
        self.checkpoint_leaf = opened.checkpoint_leaf
        self.unsaved_bytes = 0
        self.tree: Tree | None = None

    @classmethod
    def open(cls, files: Files, directory: Path, options: LogOptions, clock: Clock) -> "Journal":
        """Open the log in a folder, recovering what there is. The caller holds its lock."""
        opened = Opener(files, directory, options, clock).open()
        journal = cls(opened, files, directory, options, clock)
        if options.tree:
            journal._open_tree()
        return journal

    def _open_tree(self) -> None:
        opened = open_tree(
            self._files,
            self._directory,
            self.log_id,
            self.segments,
            self.next_leaf,
            self._clock,
            accept_lost=self._options.accept_lost_leaves,
        )
        self.tree = opened.tree
        if opened.notes:
            notes = (*self.report.notes, *opened.notes)
            self.report = replace(self.report, clean=False, notes=notes)

    @property
    def active(self) -> Segment:
        """The segment that grows."""
        return self._active

    @property
    def bytes(self) -> int:
        """The length of all segments."""
        return self._store.end + sum(sealed.length for sealed in self.segments.sealed)

    @property
    def lost(self) -> int:
        """Leaves that damage has taken."""
        return self._active.index.lost + sum(sealed.lost for sealed in self.segments.sealed)

    # Writing: the writer thread.

    def group(self) -> Group:
        """A new group that continues this log."""
        return Group(
            self.partitions,
            self.producers,
            self._options,
            first_leaf=self.next_leaf,
            durable_leaf=self.durable_leaf,
            append_us=self._clock.now_us(),
        )

    def write(self, group: Group) -> None:
        """Put a group's bytes at the end of the log, in a new segment if this one is full.

        After an OSError nothing is known but that the log is as it was up to its end: call
        `cut_back`, or stop.
        """
        end = self._store.end
        if end > SEGMENT_HEAD_BYTES and end + group.bytes > self._options.segment_bytes:
            self.roll()
        self._store.append(group.frames)

    def cut_back(self) -> None:
        """Take back, durably, what a failed write has left behind the end."""
        self._store.cut_back(self._store.end)

    def sync(self, group: Group | None = None) -> None:
        """Make all that was written durable, with a group that is not applied yet.

        An error here is final. The system may have dropped what it could not write and call it
        written the next time: never try again.
        """
        self._store.sync()
        self.durable_leaf = self.next_leaf if group is None else group.next_leaf

    def apply(self, group: Group) -> None:
        """The group is in the log: let readers and producers know."""
        self.hot.add(group.committed)
        position = self._store.end - group.bytes
        index = self._active.index
        for batch in group.committed:
            key = (batch.topic, batch.partition)
            partition = self.partitions.make(key)
            fresh = key not in index.runs
            partition.greatest_us = max(partition.greatest_us, batch.append_us)
            index.add(
                key,
                batch.base_offset,
                batch.count,
                position,
                len(batch.frame),
                batch.append_us,
                partition.greatest_us,
                True,
            )
            if fresh:
                partition.add_run(batch.base_offset, index.first_leaf)
            partition.end = batch.base_offset + batch.count
            position += len(batch.frame)
        group.apply_producers()
        if self.tree is not None:
            self.tree.extend(group.leaf_hashes)
        self.next_leaf = group.next_leaf
        self.unsaved_bytes += group.bytes

    def roll(self) -> None:
        """Seal the last segment, synced, and begin a new one. An empty one is left as it is.

        After an OSError the log is as it was: the new file is gone again.
        """
        if self._store.end == SEGMENT_HEAD_BYTES:
            return
        if self.durable_leaf < self.next_leaf:
            self.sync()
        head = SegmentHead(self.log_id, self.next_leaf, 0, self._clock.now_us())
        try:
            file = create_segment(self._files, self._directory, head)
        except OSError:
            # Left behind, it would claim the leaves that go into this segment instead.
            self._files.remove(self.segments.path(self.next_leaf))
            self._files.sync_directory(self._directory)
            raise
        old = self._active
        sealed = SealedSegment(
            old.first_leaf, self.next_leaf, self._store.end, old.rewritten, old.index.lost
        )
        self._active = Segment(self.next_leaf, 0, file, Index(self.next_leaf))
        self._store = Store(file, SEGMENT_HEAD_BYTES)
        self.segments.add_active(self._active)
        self.segments.add_sealed(sealed, old)

    def snapshot(self) -> Snapshot:
        """This moment, for `save`. Syncs what is not synced yet."""
        if self.durable_leaf < self.next_leaf:
            self.sync()
        self.unsaved_bytes = 0
        index = self._active.index
        slots = sorted(index.runs, key=lambda key: index.runs[key].slot)
        checkpoint = Checkpoint(
            log_id=self.log_id,
            leaf=self.next_leaf,
            segment=self._active.first_leaf,
            position=self._store.end,
            entries=len(index),
            entries_crc=0,
            slots=slots,
            partitions=[(each.key, each.end, each.greatest_us) for each in self.partitions],
            producers=self.producers.snapshot(),
        )
        return Snapshot(checkpoint, index)

    # Saving: one thread beside the writer.

    def save(self, snapshot: Snapshot) -> None:
        """Put sealed segments' indexes on disk, then a checkpoint that relies on them."""
        for sealed in self.segments.unsaved():
            self.segments.save(sealed)
            self._files.remove(self.segments.path(sealed.first_leaf).with_suffix(ENTRIES_SUFFIX))
        checkpoint = replace(
            snapshot.checkpoint, entries_crc=self._save_entries(snapshot.checkpoint, snapshot.index)
        )
        save_checkpoint(self._files, self._directory, checkpoint)
        self.checkpoint_leaf = checkpoint.leaf
        if self.tree is not None:
            self.tree.save(checkpoint.leaf)

    def _save_entries(self, checkpoint: Checkpoint, index: Index) -> int:
        """Save the entries that a checkpoint counts; returns their checksum.

        A segment that was sealed since the snapshot has its whole index on disk by now.
        """
        if self.segments.is_sealed(checkpoint.segment):
            return 0
        if self._saved_segment != checkpoint.segment:
            self._saved_segment, self._saved_entries, self._saved_crc = checkpoint.segment, 0, 0
        packed = index.packed(self._saved_entries, checkpoint.entries)
        if packed:
            path = self.segments.path(checkpoint.segment)
            save_entries(self._files, path, self._saved_entries, packed)
            self._saved_entries = checkpoint.entries
            self._saved_crc = crc32c(packed, self._saved_crc)
        return self._saved_crc

    # Reading: any thread.

    def read_hot(self, key: Key, offset: int, max_bytes: int) -> ReadResult | None:
        """Frames from memory; None if the disk has to be asked."""
        partition = self.partitions.get(key)
        if partition is None:
            return ReadResult((), offset, 0, 0)
        start, end = partition.start, partition.end
        at = max(offset, start)
        if at >= end:
            return ReadResult((), at, start, end)
        held = self.hot.read(key, at, max_bytes)
        if held is None:
            return None
        frames, following = held
        return ReadResult(frames, following, start, max(end, following))

    def read(self, key: Key, offset: int, max_bytes: int) -> ReadResult:
        """Frames from memory or disk: at least one if there is one; else why not, as Damaged."""
        hot = self.read_hot(key, offset, max_bytes)
        if hot is not None:
            return hot
        return self._read_disk(self.partitions.make(key), offset, max_bytes)

    def _read_disk(self, partition: Partition, offset: int, max_bytes: int) -> ReadResult:
        key, start, end = partition.key, partition.start, partition.end
        at = max(offset, start)
        frames: list[bytes] = []
        size = 0
        for number in range(partition.run_of(at), len(partition.run_leaves)):
            segment = self.segments.get(partition.run_leaves[number])
            extent = read_extent(segment, key, at, end, max_bytes - size, at_least_one=not frames)
            frames += extent.frames
            size += sum(map(len, extent.frames))
            at = extent.next_offset
            if extent.problem is not None and not frames:
                raise Damaged(*key, at, extent.problem_end, extent.problem)
            if extent.stopped or at >= end:
                break
        else:
            if not frames:
                raise Damaged(*key, at, end, "they were lost to damage")
        return ReadResult(tuple(frames), at, start, end)

    def leaf_of(self, key: Key, offset: int) -> int | None:
        """The leaf of the batch that holds `offset`; None if there is none, or it is lost."""
        partition = self.partitions.get(key)
        if partition is None or not partition.run_leaves or not 0 <= offset < partition.end:
            return None
        index = self.segments.get(partition.run_leaves[partition.run_of(offset)]).index
        run = index.runs.get(key)
        ordinal = -1 if run is None else index.find(run, offset)
        if run is None or ordinal < 0 or index.at(run, ordinal).end_offset <= offset:
            return None
        return index.first_leaf + run.numbers[ordinal]

    def offset_for_time(self, key: Key, time_us: int) -> int:
        """The first offset by which the clock had reached `time_us` at an append; else the end."""
        partition = self.partitions.get(key)
        if partition is None:
            return 0
        end = partition.end
        leaves = partition.run_leaves
        number = bisect_left(_GreatestTimes(partition, self.segments), time_us)
        if number == len(leaves):
            return end
        index = self.segments.get(leaves[number]).index
        run = index.runs.get(key)
        found = 0 if run is None else index.at(run, index.find_time(run, time_us)).base_offset
        return min(max(found, partition.start), end)


class _GreatestTimes:
    """A partition's segments as a sequence of greatest append times, for `bisect`."""

    def __init__(self, partition: Partition, segments: Segments) -> None:
        self._partition = partition
        self._segments = segments

    def __len__(self) -> int:
        return len(self._partition.run_leaves)

    def __getitem__(self, number: int) -> int:
        for leaf in reversed(self._partition.run_leaves[: number + 1]):
            run = self._segments.get(leaf).index.runs.get(self._partition.key)
            if run is not None:
                return run.greatest_us
        return 0
