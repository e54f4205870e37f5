"""Many outcomes as ranges."""

import pytest

from sidecar.errors import Denied, OverQuota
from sidecar.publish.batch import Committed, Kept
from sidecar.publish.ranges import Ranges


def committed(partition, offset, durability="committed"):
    return Committed("t", partition, offset, "id", durability)


def test_messages_that_follow_each_other_make_one_range():
    ranges = Ranges()
    for index in range(3):
        ranges.add(committed(0, 10 + index), index, 1)
    ranges.add(committed(0, 13), 3, 5)
    assert ranges.document() == {
        "count": 8,
        "durability": "committed",
        "partitions": [{"partition": 0, "first_offset": 10, "count": 8}],
    }
    assert ranges.status == 200


def test_a_stranger_between_them_makes_two_and_partitions_are_kept_apart():
    ranges = Ranges()
    for index, (partition, offset) in enumerate([(0, 1), (1, 1), (0, 2), (0, 5), (1, 2)]):
        ranges.add(committed(partition, offset), index, 1)
    assert ranges.runs == [[0, 1, 2], [1, 1, 2], [0, 5, 1]]


@pytest.mark.parametrize(
    ("outcomes", "durability", "status"),
    [
        ([committed(0, 0), Kept("t", None, "spooled")], "spooled", 202),
        ([committed(0, 0), committed(0, 1, "os")], "os", 200),
        ([Kept("t", None, "none"), Kept("t", None, "spooled")], "none", 202),
    ],
)
def test_the_weakest_durability_counts(outcomes, durability, status):
    ranges = Ranges()
    for index, outcome in enumerate(outcomes):
        ranges.add(outcome, index, 1)
    assert (ranges.durability, ranges.status, ranges.count) == (durability, status, 2)


def test_the_first_failure_is_the_one_that_is_told_however_the_answers_arrive():
    ranges = Ranges()
    later, earlier = OverQuota("later"), Denied("earlier")
    ranges.add(later, 7, 1)
    ranges.add(committed(0, 0), 0, 3)
    ranges.add(earlier, 3, 1)
    assert (ranges.failure, ranges.failed_at, ranges.count) == (earlier, 3, 3)
