"""Where partitions begin and end, and which segments hold them."""

from core_log.log.partitions import Partition, Partitions


def test_an_offset_is_looked_for_in_the_last_segment_that_begins_before_it() -> None:
    partition = Partition(("orders", 0))
    for first_offset, leaf in ((10, 0), (20, 100), (35, 300)):
        partition.add_run(first_offset, leaf)
    places = [partition.run_of(offset) for offset in (0, 10, 19, 20, 34, 35, 999)]
    assert places == [0, 0, 0, 1, 1, 2, 2]


def test_the_segments_before_a_leaf_do_not_include_it() -> None:
    partition = Partition(("orders", 0))
    for first_offset, leaf in ((10, 0), (20, 100), (35, 300)):
        partition.add_run(first_offset, leaf)
    assert list(partition.runs_before(100)) == [0]
    assert list(partition.runs_before(0)) == []
    assert list(partition.runs_before(1000)) == [0, 100, 300]


def test_a_partition_is_made_once() -> None:
    partitions = Partitions()
    assert partitions.get(("orders", 0)) is None
    made = partitions.make(("orders", 0))
    assert partitions.make(("orders", 0)) is made is partitions.get(("orders", 0))
    assert len(partitions) == 1


def test_a_topics_partitions_come_in_order_and_alone() -> None:
    partitions = Partitions()
    for key in (("orders", 2), ("audit", 0), ("orders", 0)):
        partitions.make(key)
    assert [each.key[1] for each in partitions.of_topic("orders")] == [0, 2]
    assert [each.key for each in partitions] == [("orders", 2), ("audit", 0), ("orders", 0)]
