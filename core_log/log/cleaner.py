"""The cleaner: moves topics' starts as retention says, then removes the bodies below them.

The start moves first and is saved, so that no reader is promised what is about to go. Bodies go
when sealed segments are rewritten, each by itself, so that one long-lived topic does not pin the
rest. Imports the journal and the pure parts of retention; never touches the growing segment.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from core_log.clock import Clock
from core_log.control.starts import save_starts
from core_log.log.files import TEMPORARY_SUFFIX, Files
from core_log.log.index import Entry, Index, Key
from core_log.log.journal import Journal
from core_log.log.options import LogOptions, Retention
from core_log.log.partitions import Partition
from core_log.log.results import CleanReport
from core_log.log.retention import Held, erasable_bytes, start_by_age, starts_by_bytes
from core_log.log.rewrite import RewriteGivenUp, Rewritten, head_of, rewrite
from core_log.log.segments import SealedSegment
from core_log.log.space import FULL_ERRNOS
from log_format.layout import SegmentHead

WORTH_SHARE: Final = 0.5
"""A segment is rewritten once this share of its bodies can go: then all rewriting together
writes no more than the log itself has."""

CLOCK_STEP_US: Final = 3_600_000_000
"""A clock that gains an hour on the one that is never set has been set, or the machine slept."""

CLOCK_HOLD_S: Final = 86_400.0
"""For so long after such a step nothing expires by age: a day to notice that a clock is wrong
before it deletes everything."""


class Cleaned(NamedTuple):
    """A pass, and whether the growing segment should be sealed for the next one to clean it."""

    report: CleanReport
    roll: bool


@dataclass(slots=True)
class _Pass:
    """What one pass has done so far."""

    starts_moved: int = 0
    segments_rewritten: int = 0
    bodies_removed: int = 0
    bytes_freed: int = 0
    waiting_bytes: int = 0
    notes: list[str] = field(default_factory=list)


class Cleaner:
    """One log's cleaner. One thread at a time.

    Invariant: a body is removed only below a start that is saved on disk.
    """

    def __init__(
        self,
        journal: Journal,
        files: Files,
        directory: Path,
        options: LogOptions,
        clock: Clock,
    ) -> None:
        self._journal = journal
        self._files = files
        self._directory = directory
        self._options = options
        self._clock = clock
        self._last_seen: tuple[int, float] | None = None
        self._hold_until = float("-inf")
        self._waiting_since: dict[int, float] = {}
        self._stopped = False

    def stop(self) -> None:
        """Give up the pass that runs, soon. From any thread; what is on disk stays whole."""
        self._stopped = True

    def clean(self, retention: Mapping[str, Retention], now_us: int) -> Cleaned:
        """One pass."""
        done = _Pass()
        by_age = self._clock_is_steady(now_us, done)
        moved: dict[Key, int] = {}
        for topic, wanted in retention.items():
            moved |= self._new_starts(topic, wanted, now_us, by_age=by_age)
        self._move_starts(moved, done)
        for sealed in self._candidates():
            if self._stopped:
                break
            self._clean_segment(sealed, done)
        active = self._journal.active
        waiting = self._erasable(active.index)
        done.waiting_bytes += waiting
        roll = waiting > 0 and self._has_waited(active.first_leaf)
        report = CleanReport(
            done.starts_moved,
            done.segments_rewritten,
            done.bodies_removed,
            done.bytes_freed,
            done.waiting_bytes,
            tuple(done.notes),
        )
        return Cleaned(report, roll)

    def _clock_is_steady(self, now_us: int, done: _Pass) -> bool:
        running = self._clock.monotonic()
        if self._last_seen is not None:
            seen_us, seen = self._last_seen
            if now_us - seen_us - (running - seen) * 1_000_000 > CLOCK_STEP_US:
                self._hold_until = running + CLOCK_HOLD_S
        self._last_seen = (now_us, running)
        if running < self._hold_until:
            done.notes.append("the clock was set forward; nothing expires by age for a day")
            return False
        return True

    def _new_starts(
        self, topic: str, wanted: Retention, now_us: int, *, by_age: bool
    ) -> dict[Key, int]:
        partitions = {each.key[1]: each for each in self._journal.partitions.of_topic(topic)}
        starts = {number: each.start for number, each in partitions.items()}
        for number, below in wanted.drop_below.items():
            if number in partitions:
                starts[number] = max(starts[number], min(below, partitions[number].end))
        if wanted.age_us is not None and by_age:
            for number, each in partitions.items():
                starts[number] = start_by_age(
                    self._held(each, starts[number]),
                    starts[number],
                    cutoff_us=now_us - wanted.age_us,
                    now_us=now_us,
                )
        if wanted.bytes is not None:
            held = {number: self._held(each, starts[number]) for number, each in partitions.items()}
            starts = starts_by_bytes(held, starts, wanted.bytes)
        return {
            each.key: min(starts[number], each.end)
            for number, each in partitions.items()
            if starts[number] > each.start
        }

    def _held(self, partition: Partition, start: int) -> list[Held]:
        held = []
        for leaf in partition.run_leaves[partition.run_of(start) :]:
            index = self._journal.segments.peek(leaf)
            run = index.runs.get(partition.key)
            if run is not None:
                held.append(Held(index, run))
        return held

    def _move_starts(self, moved: Mapping[Key, int], done: _Pass) -> None:
        if not moved:
            return
        partitions = self._journal.partitions
        starts = {each.key: each.start for each in partitions if each.start}
        try:
            save_starts(self._files, self._directory, starts | dict(moved))
        except OSError as error:
            if error.errno not in FULL_ERRNOS:
                raise
            done.notes.append("no room to save where topics begin; nothing was dropped")
            return
        for key, start in moved.items():
            partitions.make(key).start = start
        done.starts_moved = len(moved)

    def _candidates(self) -> list[SealedSegment]:
        """Sealed segments that hold something below a start."""
        leaves: set[int] = set()
        for partition in self._journal.partitions:
            if partition.start:
                leaves.update(partition.run_leaves[: partition.run_of(partition.start) + 1])
        unsaved = {sealed.first_leaf for sealed in self._journal.segments.unsaved()}
        return [
            sealed
            for sealed in self._journal.segments.sealed
            if sealed.first_leaf in leaves and sealed.first_leaf not in unsaved
        ]

    def _erasable(self, index: Index) -> int:
        size = 0
        for key, run in list(index.runs.items()):
            partition = self._journal.partitions.get(key)
            if partition is not None and run.first_offset < partition.start and run.body_bytes:
                size += erasable_bytes(Held(index, run), partition.start)
        return size

    def _has_waited(self, first_leaf: int) -> bool:
        """True once a segment has had something to remove for `erase_delay_s`."""
        now = self._clock.monotonic()
        since = self._waiting_since.setdefault(first_leaf, now)
        return now - since >= self._options.erase_delay_s

    def _clean_segment(self, sealed: SealedSegment, done: _Pass) -> None:
        index = self._journal.segments.peek(sealed.first_leaf)
        erasable = self._erasable(index)
        if not erasable:
            self._waiting_since.pop(sealed.first_leaf, None)
            return
        bodies = sum(run.body_bytes for run in index.runs.values())
        if erasable < bodies * WORTH_SHARE and not self._has_waited(sealed.first_leaf):
            done.waiting_bytes += erasable
            return
        try:
            self._rewrite(sealed, done)
        except RewriteGivenUp as given_up:
            done.waiting_bytes += erasable
            done.notes.append(
                f"the segment of leaf {sealed.first_leaf} was not cleaned: {given_up}"
            )
        except OSError as error:
            if error.errno not in FULL_ERRNOS:
                raise
            done.waiting_bytes += erasable
            done.notes.append(f"no room to rewrite the segment of leaf {sealed.first_leaf}")

    def _rewrite(self, sealed: SealedSegment, done: _Pass) -> None:
        segments = self._journal.segments
        segment = segments.get(sealed.first_leaf)
        path = segments.path(sealed.first_leaf)
        old = head_of(segment)
        temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
        head = SegmentHead(old.log_id, old.first_leaf, old.rewritten + 1, old.created_us)
        try:
            new = rewrite(
                self._files,
                temporary,
                segment,
                head,
                sealed.length,
                expired=self._is_expired,
                stopped=lambda: self._stopped,
            )
        except BaseException:
            self._files.remove(temporary)
            raise
        self._put_in_place(sealed, head, temporary, new)
        self._waiting_since.pop(sealed.first_leaf, None)
        done.segments_rewritten += 1
        done.bodies_removed += new.bodies_removed
        done.bytes_freed += sealed.length - new.length
        if new.unreadable:
            done.notes.append(
                f"{path.name}: {new.unreadable} damaged batches were left as they are"
            )

    def _put_in_place(
        self, sealed: SealedSegment, head: SegmentHead, temporary: Path, new: Rewritten
    ) -> None:
        replacement = SealedSegment(
            sealed.first_leaf, sealed.end_leaf, new.length, head.rewritten, sealed.lost
        )
        self._journal.segments.replace(replacement, temporary, new.index)

    def _is_expired(self, key: Key, entry: Entry) -> bool:
        partition = self._journal.partitions.get(key)
        return partition is not None and entry.end_offset <= partition.start
