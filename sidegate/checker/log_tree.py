"""One log against its tree: who signed which checkpoints, and whether the batches are theirs.

Joins the segments' summaries, the tree's files and checkpoints from elsewhere. What no witness has
cosigned is unproven, which is not a fault: the newest batches always are, for a moment.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from log_format.checkpoint_note import log_origin
from log_format.envelope import decode_envelope
from log_format.errors import FormatError
from log_format.layout import SEGMENT_HEAD_BYTES, parse_segment_name
from log_format.note import VerifierKey
from log_format.tree import HASH_BYTES
from sidegate.checker.findings import Finding, SegmentSummary
from sidegate.checker.mapped import map_file
from sidegate.checker.tree_check import TreeCheck, split_views
from sidegate.checker.tree_files import SERIES_FOLDER, Claim, TreeFiles, signature_findings

DIFFERING_MAX = 100
"""Batches named one by one because their tile has another hash."""


@dataclass(frozen=True, slots=True)
class Keys:
    """The public keys that a check goes by. Without them it can say less.

    A core that has renewed its key has several under one name, and each checkpoint is under one.
    """

    cores: tuple[VerifierKey, ...] = ()
    gatekeepers: tuple[VerifierKey, ...] = ()


@dataclass(slots=True)
class TreeReport:
    """The verdict on one log's tree. `cosigned` is the size of the greatest tree that some given
    witness has cosigned and that the log's batches have."""

    leaves: int = 0
    checkpoints: int = 0
    cosigned: int = 0
    unproven: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


class LogTree:
    """The tree of the log in `folder`. Make it before the segments are read: while the core runs,
    checkpoints cover what was synced before them."""

    def __init__(
        self, folder: Path, root: Path, log_id: bytes | None, keys: Keys, given: Sequence[Claim]
    ) -> None:
        self._folder = folder
        self._keys = keys
        self._origin = None if log_id is None else log_origin(log_id)
        self._files = TreeFiles(folder, root)
        self._given = [claim for claim in given if claim.head.origin == self._origin]
        self._cores = [core for core in keys.cores if core.name == self._origin]

    @property
    def has_senders(self) -> bool:
        """Whether this log's batches carry provenance: the log that has a tree is the main one."""
        return self._files.exists or bool(self._cores) or bool(self._given)

    def check(self, summaries: Iterable[SegmentSummary]) -> TreeReport | None:
        """Recompute the tree and compare; None for a log that has none, such as control state."""
        if not self.has_senders:
            return None
        summaries = list(summaries)
        report = TreeReport(findings=list(self._files.findings))
        claims = self._sound_claims(report)
        report.findings += split_views([*self._files.claims, *self._given])
        tree = TreeCheck(self._files, claims)
        for summary in summaries:
            _feed(tree, summary)
        tree.finish(self._folder.name)
        report.findings += self._named(tree.differing)
        report.findings += tree.findings
        report.findings += self._missing()
        report.findings += self._missing_ends(summaries)
        report.leaves = tree.size
        report.checkpoints = len(self._files.claims) + len(self._given)
        wrong = {finding.file for finding in report.findings}
        self._tell_unproven(report, [claim for claim in claims if claim.name not in wrong])
        return report

    def _sound_claims(self, report: TreeReport) -> list[Claim]:
        claims = []
        for claim in (*self._files.claims, *self._given):
            if claim.head.origin != self._origin:
                text = f"checkpoint is of the log {claim.head.origin}, not of {self._origin}"
                report.findings.append(Finding("checkpoint", claim.name, None, text))
                continue
            claims.append(claim)
            report.findings += signature_findings(claim, self._cores, self._keys.gatekeepers)
        return claims

    def _missing(self) -> list[Finding]:
        """Checkpoints that must have been here: the tree's state or a witness tells of them."""
        name = self._files.name(self._files.folder)
        if not self._files.exists:
            # A core that has just begun, or one of an older version, has no tree either.
            text = "checkpoint of {} leaves: {} tells of it, and the log has no tree"
            return [
                Finding("tree_missing", name, None, text.format(claim.head.size, claim.name))
                for claim in self._given
            ]
        newest = max((claim.head.size for claim in self._files.claims), default=0)
        told = {claim.name: claim.head.size for claim in self._given}
        if self._files.state is not None:
            told["the tree's state"] = self._files.state.signed
        text = "checkpoint of {} leaves: {} tells of it, and the newest here is of {}"
        return [
            Finding("checkpoint_missing", name, None, text.format(size, who, newest))
            for who, size in told.items()
            if size > newest
        ]

    def _missing_ends(self, summaries: Sequence[SegmentSummary]) -> list[Finding]:
        """Checkpoints of segments' ends, which are never thinned out."""
        sizes = {claim.head.size for claim in self._files.claims}
        ends = [summary.next_leaf for summary in summaries[:-1] if summary.next_leaf is not None]
        name = self._files.name(self._files.folder / SERIES_FOLDER)
        text = "checkpoint of {} leaves: a segment ends there, and it is not among the kept ones"
        return [
            Finding("checkpoint_missing", name, None, text.format(end))
            for end in ends
            if end not in sizes and end < max(sizes, default=0)
        ]

    def _tell_unproven(self, report: TreeReport, claims: Sequence[Claim]) -> None:
        sizes = [claim.head.size for claim in claims if self._is_cosigned(claim)]
        report.cosigned = max(sizes, default=0)
        if not self._cores:
            report.unproven.append(
                "no key of this log's core was given, so no signature of it counts"
            )
        if not self._keys.gatekeepers:
            report.unproven.append("no witness's key was given, so no cosignature counts")
        alone = sorted({claim.head.size for claim in claims} - set(sizes))
        report.unproven += [f"checkpoint of {size} leaves: not cosigned" for size in alone]
        if report.leaves > report.cosigned:
            text = "leaves {} to {}: no cosigned checkpoint covers them"
            report.unproven.append(text.format(report.cosigned, report.leaves - 1))

    def _is_cosigned(self, claim: Claim) -> bool:
        return bool(claim.cosigners(self._keys.gatekeepers))

    def _named(self, leaves: Sequence[int]) -> list[Finding]:
        """Leaves that differ from their tile, as batches with topic and offsets."""
        wanted = set(leaves[:DIFFERING_MAX])
        found: list[Finding] = []
        for path in sorted(self._folder.iterdir()):
            if wanted and parse_segment_name(path.name) is not None:
                found += _batches(path, self._files.name(path), wanted)
        return found


def _feed(tree: TreeCheck, summary: SegmentSummary) -> None:
    if summary.first_leaf is None or summary.next_leaf is None or not summary.leaves:
        return
    first = min(summary.leaves)
    end = max(begin + len(joined) // HASH_BYTES for begin, joined in summary.leaves.items())
    if len(summary.leaves) == 1:
        tree.feed(first, _split(summary.leaves[first]))
        return
    if end - first > 2 * summary.batches + 1024:
        # Numbers that lie far apart are damage that is named already; nothing to lay out.
        end = first
    placed: list[bytes | None] = [None] * (end - first)
    for begin, joined in summary.leaves.items():
        for at, leaf in enumerate(_split(joined), begin - first):
            if at < len(placed):
                placed[at] = leaf
    tree.feed(first, placed)


def _split(joined: bytes) -> list[bytes]:
    return [joined[at : at + HASH_BYTES] for at in range(0, len(joined), HASH_BYTES)]


def _batches(path: Path, name: str, wanted: set[int]) -> list[Finding]:
    data, position, found = map_file(path), SEGMENT_HEAD_BYTES, []
    text = "not the batch that stands in the tree"
    while position < len(data):
        try:
            envelope = decode_envelope(data, position)
        except FormatError:
            break
        producer, stamp = envelope.producer, envelope.stamp
        if stamp is not None and stamp.leaf in wanted:
            last = stamp.base_offset + producer.count - 1
            place = f"{producer.topic}/{producer.partition} offsets {stamp.base_offset} to {last}"
            found.append(
                Finding(
                    "tree_leaf",
                    name,
                    position,
                    f"{place}: leaf {stamp.leaf}: {text}",
                    producer.topic,
                    producer.partition,
                    stamp.base_offset,
                    last,
                )
            )
        position += envelope.frame_len
    return found
