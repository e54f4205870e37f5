"""The check of whole logs: segments in parallel, then what holds between them."""

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Final

from log_format.checkpoint_note import log_origin
from log_format.errors import FormatError
from log_format.layout import (
    SEGMENT_HEAD_BYTES,
    SEGMENT_SUFFIX,
    decode_segment_head,
    parse_segment_name,
)
from log_format.note import VerifierKey
from sidegate.checker.checkpoint import synced_leaves
from sidegate.checker.findings import Finding, SegmentSummary, offset_gap
from sidegate.checker.log_tree import Keys, LogTree, TreeReport
from sidegate.checker.segment import check_segment
from sidegate.checker.tree_files import Claim

POLL_S: Final = 0.1
"""How often progress is shown; a person sees no difference below this."""
PARALLEL_BYTES_MIN: Final = 8 * 1024 * 1024
"""Below this, starting processes costs more than the check itself."""


class CannotCheckError(Exception):
    """The check could not run: nothing is said about the log."""


@dataclass(slots=True)
class LogReport:
    """The verdict on one log folder."""

    folder: str
    segments: int = 0
    size: int = 0
    batches: int = 0
    records: int = 0
    bodies_removed: int = 0
    torn_bytes: int = 0
    senders_proven: int | None = None
    """Batches whose sender a given gatekeeper's key proves; None where no key was given."""
    tree: TreeReport | None = None
    topics: dict[str, dict[int, int]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


_counter: "Synchronized[int] | None" = None


def find_logs(root: Path) -> list[Path]:
    """Every folder at or below `root` that holds segments."""
    if not root.is_dir():
        raise CannotCheckError(f"{root} is not a folder; name one that holds a log, or run make up")
    folders = sorted(
        Path(folder)
        for folder, _folders, names in os.walk(root, followlinks=True)
        if any(name.endswith(SEGMENT_SUFFIX) for name in names)
    )
    if not folders:
        raise CannotCheckError(f"{root} holds no log: no *{SEGMENT_SUFFIX} file lies below it")
    return folders


def segments_of(folder: Path) -> list[Path]:
    """The segments of one log, in the log's order."""
    return sorted(path for path in folder.iterdir() if parse_segment_name(path.name) is not None)


def verify_log(
    folder: Path,
    *,
    root: Path,
    jobs: int | None = None,
    progress: Callable[[int], None],
    keys: Keys | None = None,
    checkpoints: Sequence[Claim] = (),
) -> LogReport:
    """Check every segment of `folder`, what holds between them, and the tree over all of them.

    `progress` gets bytes done. `checkpoints` come from elsewhere: from a witness's disk, say.
    """
    keys = keys or Keys()
    # Before the segments: while the core runs, it may move on between the two looks.
    synced = synced_leaves(folder)
    tree = LogTree(folder, root, log_id_of(folder), keys, checkpoints)
    paths = segments_of(folder)
    gatekeepers = keys.gatekeepers if tree.has_senders else ()
    names = [str(path.relative_to(root)) for path in paths]
    report = LogReport(str(folder.relative_to(root)) if folder != root else str(folder))
    workers = jobs or os.cpu_count() or 1
    summaries = list(_check_all(paths, names, workers, progress, gatekeepers))
    _join(report, summaries)
    report.findings.extend(_cut_off(summaries, synced))
    report.tree = tree.check(summaries)
    if report.tree is not None:
        report.findings.extend(report.tree.findings)
    if gatekeepers:
        report.senders_proven = sum(summary.senders_proven for summary in summaries)
    report.findings.extend(_foreign_files(folder, root))
    return report


def log_id_of(folder: Path) -> bytes | None:
    """The id in the head of the first segment that can be read."""
    for path in segments_of(folder):
        with path.open("rb") as file, suppress(FormatError):
            return decode_segment_head(file.read(SEGMENT_HEAD_BYTES)).log_id
    return None


def unmatched(
    logs: Sequence[Path], checkpoints: Sequence[Claim], cores: Sequence[VerifierKey] = ()
) -> list[Finding]:
    """Checkpoints and keys of logs that are none of these: such a log was here, and is gone."""
    origins = {log_origin(found) for found in map(log_id_of, logs) if found is not None}
    names = sorted({core.name for core in cores} - origins)
    text = "a core's key of this log was given, and no such log is here"
    return [Finding("log_missing", name, None, text) for name in names] + [
        Finding(
            "log_missing",
            claim.name,
            None,
            f"checkpoint of {claim.head.size} leaves of {claim.head.origin}: no such log is here",
        )
        for claim in checkpoints
        if claim.head.origin not in origins
    ]


def _check_all(
    paths: list[Path],
    names: list[str],
    jobs: int,
    progress: Callable[[int], None],
    gatekeepers: Sequence[VerifierKey],
) -> Iterator[SegmentSummary]:
    try:
        total = sum(path.stat().st_size for path in paths)
        if jobs == 1 or len(paths) == 1 or total < PARALLEL_BYTES_MIN:
            for path, name in zip(paths, names, strict=True):
                yield check_segment(path, name, progress, gatekeepers)
            return
        context = multiprocessing.get_context("spawn")
        counter = context.Value("q", 0)
        with ProcessPoolExecutor(jobs, context, initializer=_share, initargs=(counter,)) as pool:
            futures = [
                pool.submit(_check_one, *pair, gatekeepers)
                for pair in zip(paths, names, strict=True)
            ]
            _show(futures, counter, progress)
            for future in futures:
                yield future.result()
    except OSError as error:
        raise CannotCheckError(f"{error.filename}: {error.strerror}") from error


def _show(
    futures: list[Future[SegmentSummary]],
    counter: "Synchronized[int]",
    progress: Callable[[int], None],
) -> None:
    shown = 0
    while True:
        finished = all(future.done() for future in futures)
        done = counter.value
        progress(done - shown)
        shown = done
        if finished:
            return
        time.sleep(POLL_S)


def _share(counter: "Synchronized[int]") -> None:
    global _counter  # noqa: PLW0603 - a pool's worker has no other way to keep what it was given
    _counter = counter


def _check_one(path: Path, name: str, gatekeepers: Sequence[VerifierKey]) -> SegmentSummary:
    def add(count: int) -> None:
        if _counter is not None:
            with _counter.get_lock():
                _counter.value += count

    return check_segment(path, name, add, gatekeepers)


def _join(report: LogReport, summaries: list[SegmentSummary]) -> None:
    next_leaf = 0
    next_offsets: dict[tuple[str, int], int] = {}
    log_id: bytes | None = None
    for number, summary in enumerate(summaries):
        last = number == len(summaries) - 1
        report.segments += 1
        report.size += summary.size
        report.batches += summary.batches
        report.records += summary.records
        report.bodies_removed += summary.bodies_removed
        report.findings += summary.findings
        report.findings += _torn(summary, last=last)
        report.torn_bytes += summary.torn_bytes if last else 0
        if summary.log_id is not None:
            log_id = log_id or summary.log_id
            if summary.log_id != log_id:
                text = f"belongs to the log {summary.log_id.hex()}, not to {log_id.hex()}"
                report.findings.append(Finding("foreign_segment", summary.file, 0, text))
        if summary.first_leaf is not None and summary.first_leaf != next_leaf:
            text = f"begins with leaf {summary.first_leaf} where leaf {next_leaf} belongs"
            report.findings.append(Finding("leaf_gap", summary.file, None, text))
        next_leaf = summary.next_leaf if summary.next_leaf is not None else next_leaf
        for (topic, partition), runs in summary.runs.items():
            expected = next_offsets.get((topic, partition), 0)
            if runs[0].first_offset != expected:
                report.findings.append(offset_gap(topic, partition, expected, runs[0]))
            next_offsets[topic, partition] = max(run.next_offset for run in runs)
    for (topic, partition), offset in sorted(next_offsets.items()):
        report.topics.setdefault(topic, {})[partition] = offset


def _torn(summary: SegmentSummary, *, last: bool) -> list[Finding]:
    """An incomplete end is what a crash leaves in the last segment, and damage in any other."""
    if last or not summary.torn_bytes:
        return []
    position = summary.size - summary.torn_bytes
    text = f"the last {summary.torn_bytes} bytes are not a whole batch, and later segments exist"
    return [Finding("truncated", summary.file, position, text)]


def _cut_off(summaries: list[SegmentSummary], synced: int | None) -> list[Finding]:
    """Leaves that the last checkpoint proves to have been synced, and that are not there."""
    ends = [summary.next_leaf for summary in summaries if summary.next_leaf is not None]
    end = max(ends, default=0)
    if synced is None or end >= synced:
        return []
    text = (
        f"ends before leaf {end}, and the checkpoint beside it proves that {synced} leaves were"
        " synced: the end of the log is missing"
    )
    return [Finding("cut_off", summaries[-1].file, None, text)]


def _foreign_files(folder: Path, root: Path) -> Iterator[Finding]:
    for path in sorted(folder.glob(f"*{SEGMENT_SUFFIX}")):
        if parse_segment_name(path.name) is None:
            text = "is not named as a segment; move it out of the log's folder"
            yield Finding("foreign_file", str(path.relative_to(root)), None, text)
