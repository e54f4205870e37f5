"""Where a topic begins once retention has had its say: plain functions over indexes.

Retention works on whole batches. Imports the index; reads no file but what the index maps, and
knows nothing of how bodies are removed.
"""

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from core_log.log.index import Index, Run


@dataclass(frozen=True, slots=True)
class Held:
    """What one segment holds of a partition."""

    index: Index
    run: Run


def start_by_age(held: Iterable[Held], start: int, *, cutoff_us: int, now_us: int) -> int:
    """The first offset at or above `start` that was appended after `cutoff_us`.

    By the greatest append time so far, so that a clock that was behind expires nothing early. A
    batch stamped later than `now_us` was stamped by a clock that was ahead: it says nothing of
    itself, and goes when a later batch with a believable time goes.
    """
    for each in held:
        index, run = each.index, each.run
        if run.end_offset <= start:
            continue
        if run.greatest_us <= cutoff_us:
            start = run.end_offset
            continue
        late = index.find_time(run, cutoff_us + 1)
        if late:
            start = max(start, index.at(run, late - 1).end_offset)
        for ordinal in range(max(late, index.find(run, start)), len(run)):
            entry = index.at(run, ordinal)
            if entry.append_us > now_us:
                continue
            if entry.append_us > cutoff_us:
                return start
            start = max(start, entry.end_offset)
    return start


def starts_by_bytes(
    topic: Mapping[int, Sequence[Held]], starts: Mapping[int, int], limit: int
) -> dict[int, int]:
    """Per partition, where a topic begins so that its frames come to at most `limit` bytes.

    The oldest batches go first, whichever partition they are in. The newest stays, however small
    the limit: a topic's size does not empty it.
    """
    starts = dict(starts)
    total = sum(
        live_bytes(each, starts[partition]) for partition, held in topic.items() for each in held
    )
    excess = total - max(limit, _newest_length(topic))
    for segment in _by_segment(topic):
        if excess <= 0:
            break
        there = sum(live_bytes(each, starts[partition]) for partition, each in segment.items())
        if there <= excess:
            excess -= there
            starts |= {partition: each.run.end_offset for partition, each in segment.items()}
            continue
        batches = [
            _batches(partition, each, starts[partition]) for partition, each in segment.items()
        ]
        for _number, length, partition, end_offset in heapq.merge(*batches):
            if excess <= 0:
                break
            excess -= length
            starts[partition] = end_offset
    return starts


def live_bytes(held: Held, start: int) -> int:
    """The length of the frames at and above `start` that have their bodies."""
    run = held.run
    if start >= run.end_offset:
        return 0
    return run.body_bytes - erasable_bytes(held, start)


def erasable_bytes(held: Held, start: int) -> int:
    """The length of the frames below `start` that still have their bodies."""
    index, run = held.index, held.run
    if start >= run.end_offset:
        return run.body_bytes
    size = 0
    for ordinal in range(max(index.find(run, run.bodiless_end), 0), len(run)):
        entry = index.at(run, ordinal)
        if entry.end_offset > start:
            break
        if entry.has_body:
            size += entry.length
    return size


def _newest_length(topic: Mapping[int, Sequence[Held]]) -> int:
    newest = [
        (held[-1].index.first_leaf + held[-1].run.numbers[-1], held[-1])
        for held in topic.values()
        if held
    ]
    if not newest:
        return 0
    _leaf, last = max(newest, key=lambda pair: pair[0])
    return last.index.at(last.run, len(last.run) - 1).length


def _by_segment(topic: Mapping[int, Sequence[Held]]) -> list[dict[int, Held]]:
    segments: dict[int, dict[int, Held]] = {}
    for partition, held in topic.items():
        for each in held:
            segments.setdefault(each.index.first_leaf, {})[partition] = each
    return [segments[leaf] for leaf in sorted(segments)]


def _batches(partition: int, held: Held, start: int) -> Iterator[tuple[int, int, int, int]]:
    """A run's live batches in leaf order: number, length, partition, end offset."""
    index, run = held.index, held.run
    for ordinal in range(max(index.find(run, start), 0), len(run)):
        entry = index.at(run, ordinal)
        if entry.end_offset > start and entry.has_body:
            yield run.numbers[ordinal], entry.length, partition, entry.end_offset
