"""What is kept for close readers is bounded, and tells who may read from it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.delivery.recent import Entry, Recent


def entry(first, count=1, size=10, partition=0):
    return Entry(partition, first, first + count, size, f"{partition}:{first}")


def test_a_reader_goes_from_the_oldest_to_the_newest():
    recent = Recent({0: 5})
    recent.add(entry(5, 2))
    recent.add(entry(7))
    assert [recent.at(cursor).item for cursor in range(recent.start, recent.end)] == ["0:5", "0:7"]
    assert recent.at(recent.end) is None


def test_the_oldest_go_when_there_are_too_many_bytes_and_the_newest_stays():
    recent = Recent({0: 0}, bytes_max=25)
    for first in range(5):
        recent.add(entry(first))
    assert (recent.start, recent.end) == (3, 5)
    with pytest.raises(LookupError):
        recent.at(2)
    recent.add(entry(5, size=1000))
    assert (recent.start, recent.end) == (5, 6)


def test_only_who_misses_nothing_may_join():
    recent = Recent({0: 10, 1: 0}, bytes_max=20)
    assert recent.can_serve({0: 10, 1: 0})
    assert recent.can_serve({0: 12})
    assert not recent.can_serve({0: 9, 1: 0})
    assert not recent.can_serve({2: 0})
    recent.begin(2, 0)
    recent.begin(0, 99)
    assert recent.can_serve({0: 10, 2: 0})
    for first in range(10, 14):
        recent.add(entry(first))
    assert not recent.can_serve({0: 11, 1: 0})
    assert recent.can_serve({0: 12, 1: 0})


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 5), st.integers(1, 30))))
def test_whoever_may_join_gets_every_offset_once(arrivals):
    recent = Recent({0: 0, 1: 0, 2: 0}, bytes_max=60)
    ends = {0: 0, 1: 0, 2: 0}
    for partition, count, size in arrivals:
        recent.add(entry(ends[partition], count, size, partition))
        ends[partition] += count
    for partition, end in ends.items():
        for begin in range(end + 1):
            if not recent.can_serve({partition: begin}):
                continue
            at = begin
            for cursor in range(recent.start, recent.end):
                found = recent.at(cursor)
                if found.partition == partition and found.next_offset > at:
                    assert found.first <= at
                    at = found.next_offset
            assert at == end
