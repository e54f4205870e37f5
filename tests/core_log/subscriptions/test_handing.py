"""What the state machines of a subscription share."""

from hypothesis import given
from hypothesis import strategies as st

from core_log.subscriptions.fcfs import Fcfs
from core_log.subscriptions.handing import RUN_BITS, Group, Numbers, size, within, without
from core_log.subscriptions.ordered import Ordered

RANGES = st.lists(st.integers(0, 40), max_size=8, unique=True).map(
    lambda ends: [
        (first, last - 1)
        for first, last in zip(sorted(ends)[::2], sorted(ends)[1::2], strict=False)
    ]
)


def test_numbers_rise_also_from_one_run_to_the_next() -> None:
    first, second = Numbers(3), Numbers(4)
    numbers = [first(), first(), second(), second()]
    assert numbers == sorted(set(numbers))
    assert numbers[0] == (3 << RUN_BITS) + 1
    assert Numbers(2**20)() < 2**53, "every JSON reader keeps it exactly"


@given(RANGES, st.integers(0, 40), st.integers(0, 40))
def test_ranges_are_cut_as_sets_are(ranges: list[tuple[int, int]], one: int, other: int) -> None:
    first, last = min(one, other), max(one, other)

    def offsets(given: list[tuple[int, int]]) -> set[int]:
        return {offset for a, b in given for offset in range(a, b + 1)}

    cut = set(range(first, last + 1))
    assert offsets(list(within(ranges, first, last))) == offsets(ranges) & cut
    assert offsets(without(ranges, first, last)) == offsets(ranges) - cut
    assert size(ranges) == len(offsets(ranges))


def test_both_modes_are_groups() -> None:
    groups: list[Group] = [
        Ordered([], lease_s=1, number=Numbers(0)),
        Fcfs([], lease_s=1, number=Numbers(0)),
    ]
    assert [group.next_due() for group in groups] == [None, None]
