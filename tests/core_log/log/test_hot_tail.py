"""The newest frames in memory: the same bytes objects, and never more than the limit."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from core_log.log.hot_tail import FRAME_OVERHEAD_BYTES, HotTail
from core_log.log.results import Committed

KEYS = [("orders", 0), ("audit", 0)]


def batch(key: Any, base: Any, count: Any, size: Any) -> Committed:
    return Committed(*key, base, count, 1, 0, b"x" * size)


@given(
    st.lists(
        st.tuples(st.sampled_from(KEYS), st.integers(1, 3), st.integers(0, 900)), max_size=300
    ),
    st.integers(0, 8000),
)
def test_it_holds_exactly_the_newest_that_fit(plan: Any, limit: Any) -> None:
    tail = HotTail(limit)
    held: list[Committed] = []
    ends = dict.fromkeys(KEYS, 0)
    for key, count, size in plan:
        new = batch(key, ends[key], count, size)
        ends[key] += count
        tail.add([new])
        held.append(new)
        while sum(len(each.frame) + FRAME_OVERHEAD_BYTES for each in held) > limit:
            held.pop(0)
    assert tail.size == sum(len(each.frame) + FRAME_OVERHEAD_BYTES for each in held)
    for key in KEYS:
        mine = [each for each in held if (each.topic, each.partition) == key]
        for offset in range(ends[key] + 2):
            hot = [each for each in mine if each.base_offset + each.count > offset]
            there = bool(hot) and hot[0].base_offset <= offset
            found = tail.read(key, offset, 1 << 20)
            if there:
                assert found == (tuple(each.frame for each in hot), ends[key])
            else:
                assert found is None


def test_readers_share_one_bytes_object() -> None:
    tail = HotTail(10_000)
    new = batch(KEYS[0], 0, 1, 100)
    tail.add([new])
    (first,), _ = tail.read(KEYS[0], 0, 1000)
    (second,), _ = tail.read(KEYS[0], 0, 1000)
    assert first is second is new.frame


def test_a_read_stops_at_its_bytes_but_gives_one_frame_at_least() -> None:
    tail = HotTail(10_000)
    tail.add([batch(KEYS[0], n * 2, 2, 100) for n in range(5)])
    assert tail.read(KEYS[0], 3, 250) == ((b"x" * 100,) * 2, 6)
    assert tail.read(KEYS[0], 3, 1) == ((b"x" * 100,), 4)
    assert tail.read(KEYS[0], 8, 1000) == ((b"x" * 100,), 10)
