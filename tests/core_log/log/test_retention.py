"""Where topics begin after retention: by age, by bytes, whatever the clock did."""

from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core_log.log.index import Index
from core_log.log.retention import (
    Held,
    erasable_bytes,
    live_bytes,
    start_by_age,
    starts_by_bytes,
)

KEY = ("orders", 0)


def held_of(segments: list[list[tuple[int, int]]]) -> list[Held]:
    """A partition over segments of (append time, length), one record a batch, all with bodies."""
    held, offsets, greatest, leaf = [], count(), 0, 0
    for batches in segments:
        index = Index(leaf)
        for time, length in batches:
            greatest = max(greatest, time)
            index.add(KEY, next(offsets), 1, 64, length, time, greatest, True)
            leaf += 1
        if batches:
            held.append(Held(index, index.runs[KEY]))
    return held


def by_age(segments: list[list[int]], cutoff: int, *, now: int, start: int = 0) -> int:
    held = held_of([[(time, 100) for time in times] for times in segments])
    return start_by_age(held, start, cutoff_us=cutoff, now_us=now)


def test_what_is_older_than_the_cutoff_goes() -> None:
    segments = [[10, 20], [30, 40, 50], [60]]
    starts = [by_age(segments, cutoff, now=100) for cutoff in (5, 10, 25, 45, 60, 99)]
    assert starts == [0, 1, 2, 4, 6, 6]


def test_a_start_never_goes_back() -> None:
    assert by_age([[10, 20, 30]], 15, now=100, start=2) == 2


def test_a_clock_that_was_behind_expires_nothing_early() -> None:
    """The third batch says 5, but was appended after one that says 50."""
    assert by_age([[10, 50, 5, 60]], 20, now=100) == 1


def test_a_clock_that_was_ahead_does_not_keep_everything_for_ever() -> None:
    """Batches stamped 9000 at a true time of about 30 go when a later believable one goes."""
    segments = [[10, 20, 9000], [9001, 40, 50], [60, 70]]
    assert by_age(segments, 25, now=100) == 2
    assert by_age(segments, 45, now=100) == 5
    assert by_age(segments, 65, now=100) == 7
    assert by_age(segments, 80, now=100) == 8


@given(
    st.lists(st.lists(st.integers(0, 120), max_size=6), max_size=5),
    st.integers(0, 130),
    st.integers(0, 130),
)
def test_nothing_goes_that_a_believable_time_before_it_would_keep(
    segments: Any, cutoff: Any, now: Any
) -> None:
    start = by_age(segments, cutoff, now=now)
    times = [time for segment in segments for time in segment]
    assert 0 <= start <= len(times)
    believable = [time for time in times[:start] if time <= now]
    if cutoff <= now:
        assert all(time <= cutoff for time in believable)
        if start < len(times):
            later = [time for time in times[start:] if time <= now]
            assert not later or later[0] > cutoff


def by_bytes(partitions: dict[int, list[list[int]]], limit: int) -> dict[int, int]:
    """Partitions over segments of lengths; leaves run through a segment's partitions in turn."""
    segments = max(map(len, partitions.values()))
    leaf, offsets = 0, dict.fromkeys(partitions, 0)
    topic: dict[int, list[Held]] = {number: [] for number in partitions}
    for segment in range(segments):
        index = Index(leaf)
        rows = {number: each[segment] for number, each in partitions.items()}
        for place in range(max(map(len, rows.values()))):
            for number, lengths in rows.items():
                if place < len(lengths):
                    key = ("orders", number)
                    index.add(key, offsets[number], 1, 64, lengths[place], 1, 1, True)
                    offsets[number] += 1
        leaf += len(index)
        for (_, number), run in index.runs.items():
            topic[number].append(Held(index, run))
    return starts_by_bytes(topic, dict.fromkeys(partitions, 0), limit)


@pytest.mark.parametrize(
    ("limit", "expected"),
    [(1000, 0), (600, 0), (599, 1), (500, 1), (301, 3), (100, 5), (1, 5), (0, 5)],
)
def test_the_oldest_go_until_the_rest_fits_and_the_newest_stays(limit: Any, expected: Any) -> None:
    assert by_bytes({0: [[100, 100], [100, 100], [100, 100]]}, limit) == {0: expected}


def test_the_oldest_of_all_partitions_go_first() -> None:
    partitions = {0: [[100, 100], [100]], 1: [[100], [100, 100]]}
    assert by_bytes(partitions, 600) == {0: 0, 1: 0}
    assert by_bytes(partitions, 500) == {0: 1, 1: 0}
    assert by_bytes(partitions, 400) == {0: 1, 1: 1}
    assert by_bytes(partitions, 300) == {0: 2, 1: 1}
    assert by_bytes(partitions, 200) == {0: 3, 1: 1}


@given(
    st.lists(st.lists(st.integers(1, 500), max_size=5), min_size=1, max_size=4),
    st.integers(0, 4000),
)
def test_what_stays_fits_unless_it_is_the_newest_alone(segments: Any, limit: Any) -> None:
    lengths = [length for segment in segments for length in segment]
    (start,) = by_bytes({0: segments}, limit).values()
    kept = lengths[start:]
    assert sum(kept) <= limit or len(kept) <= 1
    assert start == 0 or sum(lengths[start - 1 :]) > max(limit, lengths[-1])


def test_a_topic_without_a_batch_has_nothing_to_drop() -> None:
    assert starts_by_bytes({0: []}, {0: 0}, 10) == {0: 0}
    assert starts_by_bytes({}, {}, 10) == {}


def test_bytes_are_counted_on_either_side_of_a_start() -> None:
    (held,) = held_of([[(1, 100), (1, 200), (1, 400)]])
    assert [live_bytes(held, start) for start in range(5)] == [700, 600, 400, 0, 0]
    assert [erasable_bytes(held, start) for start in range(5)] == [0, 100, 300, 700, 700]


def test_bodies_that_are_gone_are_not_counted_again() -> None:
    index = Index(0)
    for offset, (length, has_body) in enumerate(
        [(90, False), (90, False), (300, True), (400, True)]
    ):
        index.add(KEY, offset, 1, 64, length, 1, 1, has_body)
    held = Held(index, index.runs[KEY])
    assert [erasable_bytes(held, start) for start in (0, 2, 3, 4)] == [0, 0, 300, 700]
    assert [live_bytes(held, start) for start in (2, 3, 4)] == [700, 400, 0]
