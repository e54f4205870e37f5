"""The check of one segment: every frame's structure, checksum, hash, sender, leaf and offsets."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from log_format.envelope import Envelope
from log_format.errors import FormatError, Truncated
from log_format.frame import Frame, decode_frame
from log_format.layout import SEGMENT_HEAD_BYTES, decode_segment_head, parse_segment_name
from log_format.leaf import leaf_hash
from log_format.note import VerifierKey
from log_format.parts import Stamp
from log_format.search import envelope_at, next_frame
from sidegate.checker.findings import Finding, Run, SegmentSummary, offset_gap
from sidegate.checker.mapped import map_file
from sidegate.checker.signatures import Senders

PROGRESS_BYTES: Final = 4 * 1024 * 1024
"""How much is read between two reports of progress: about 3 ms of hashing."""

Progress = Callable[[int], None]


SENDER_FINDINGS_MAX: Final = 1000
"""Batches of one segment named because of their sender: with a key missing, that would be all."""


def check_segment(
    path: Path, name: str, progress: Progress, gatekeepers: Sequence[VerifierKey] = ()
) -> SegmentSummary:
    """Check the segment file at `path`, which reports call `name`; without any gatekeeper's key
    senders are not judged."""
    checker = _SegmentChecker(name, parse_segment_name(path.name), progress, Senders(gatekeepers))
    checker.check(map_file(path))
    return checker.summary


class _SegmentChecker:
    """Walks over one segment once. After damage it goes on at the next sound envelope."""

    def __init__(
        self, name: str, named_leaf: int | None, progress: Progress, senders: Senders
    ) -> None:
        self.summary = SegmentSummary(name, 0)
        self._senders = senders
        self._judging = bool(senders)
        self._sender_findings = 0
        self._hashes: list[bytes] = []
        self._run_begin = 0
        self._named_leaf = named_leaf
        self._progress = progress

    def check(self, data: memoryview) -> None:
        self.summary.size = len(data)
        position = self._check_head(data) if data else 0
        reported = 0
        while position < len(data):
            try:
                frame = decode_frame(data, position)
            except FormatError as error:
                position = self._skip_damage(data, position, error)
                continue
            self._check_frame(frame, position)
            position += frame.envelope.frame_len
            if position - reported >= PROGRESS_BYTES:
                self._progress(position - reported)
                reported = position
        self._progress(len(data) - reported)
        self._end_leaves()

    def _check_head(self, data: memoryview) -> int:
        try:
            head = decode_segment_head(data)
        except FormatError as error:
            self._find("segment_head", 0, str(error))
            return next_frame(data, 0, len(data))
        self.summary.log_id = head.log_id
        if head.first_leaf != self._named_leaf:
            self._find("segment_head", 0, f"named {self._named_leaf}, begins at {head.first_leaf}")
        self.summary.next_leaf = head.first_leaf
        self.summary.first_leaf = head.first_leaf
        return SEGMENT_HEAD_BYTES

    def _check_frame(self, frame: Frame, position: int) -> None:
        envelope = frame.envelope
        if envelope.stamp is None:
            self._find("no_stamp", position, "a batch in the log has no stamp", envelope)
            return
        self._check_leaf(envelope, envelope.stamp, position)
        if self._judging:
            self._check_sender(envelope, position)
        self._check_offsets(envelope, envelope.stamp, position)
        self.summary.batches += 1
        self.summary.records += envelope.producer.count
        self.summary.durable_leaf = max(self.summary.durable_leaf, envelope.stamp.durable_leaf)
        if not envelope.has_body:
            self.summary.bodies_removed += 1
            return
        try:
            frame.check_hash()
            if not envelope.encrypted:
                frame.check_columns()
        except FormatError as error:
            self._find(error.code, position, str(error), envelope)

    def _check_leaf(self, envelope: Envelope, stamp: Stamp, position: int) -> None:
        leaf = stamp.leaf
        if self.summary.next_leaf is not None and leaf != self.summary.next_leaf:
            text = f"leaf {leaf} stands where leaf {self.summary.next_leaf} belongs"
            self._find("leaf_gap", position, text, envelope)
            self._end_leaves()
        if self.summary.first_leaf is None:
            self.summary.first_leaf = leaf
        self.summary.next_leaf = leaf + 1
        if not self._hashes:
            self._run_begin = leaf
        self._hashes.append(leaf_hash(envelope.raw))

    def _end_leaves(self) -> None:
        """The leaves so far follow each other; what comes now does not."""
        if self._hashes:
            self.summary.leaves[self._run_begin] = b"".join(self._hashes)
            self._hashes = []

    def _check_sender(self, envelope: Envelope, position: int) -> None:
        problem = self._senders.problem(envelope)
        if problem is None:
            self.summary.senders_proven += 1
            return
        self._sender_findings += 1
        if self._sender_findings <= SENDER_FINDINGS_MAX:
            self._find(problem[0], position, problem[1], envelope)

    def _check_offsets(self, envelope: Envelope, stamp: Stamp, position: int) -> None:
        producer = envelope.producer
        base = stamp.base_offset
        runs = self.summary.runs.setdefault((producer.topic, producer.partition), [])
        if not runs:
            runs.append(Run(base, base + producer.count, self.summary.file, position))
            return
        run = runs[-1]
        if base != run.next_offset:
            begin = Run(base, base, self.summary.file, position)
            gap = offset_gap(producer.topic, producer.partition, run.next_offset, begin)
            self.summary.findings.append(gap)
        run.next_offset = max(run.next_offset, base + producer.count)

    def _skip_damage(self, data: memoryview, position: int, error: FormatError) -> int:
        following = next_frame(data, position + 8, len(data))
        if following == len(data) and isinstance(error, Truncated):
            self.summary.torn_bytes = len(data) - position
            return following
        envelope = envelope_at(data, position)
        text = f"{error} ({following - position} bytes are not a sound batch)"
        self._find(error.code, position, text, envelope)
        return following

    def _find(self, kind: str, position: int, text: str, envelope: Envelope | None = None) -> None:
        if envelope is None:
            self.summary.findings.append(Finding(kind, self.summary.file, position, text))
            return
        producer = envelope.producer
        first = envelope.stamp.base_offset if envelope.stamp else None
        last = None if first is None else first + producer.count - 1
        named = f"{producer.topic}/{producer.partition}"
        offsets = "" if first is None else f" offsets {first} to {last}"
        self.summary.findings.append(
            Finding(
                kind,
                self.summary.file,
                position,
                f"{named}{offsets}: {text}",
                producer.topic,
                producer.partition,
                first,
                last,
            )
        )
