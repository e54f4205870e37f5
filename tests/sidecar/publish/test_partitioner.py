"""Which partition a message goes to, and that it stays so."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.publish.partitioner import STICKY_RECORDS, Partitioner, partition_of_key
from sidecar.uplink.topic_memory import TopicInfo


@pytest.mark.parametrize(("key", "crc"), [(b"", 0), (b"a", 0xE8B7BE43), (b"123456789", 0xCBF43926)])
def test_the_hash_of_a_key_is_the_published_crc_32_for_ever(key, crc):
    """0xCBF43926 is the algorithm's check value. Another hash would break every key's order."""
    for partitions in (1, 10, 64, 2**31 - 1):
        assert partition_of_key(key, partitions) == crc % partitions


@given(st.binary(max_size=30), st.integers(1, 1000))
def test_a_key_always_goes_to_the_same_existing_partition(key, partitions):
    one, other = (Partitioner(TopicInfo(partitions, "key")) for _ in "ab")
    other.partition(None)
    first = one.partition(key)
    assert 0 <= first < partitions
    assert one.partition(key) == other.partition(key) == first


def test_an_empty_key_is_a_key():
    partitioner = Partitioner(TopicInfo(7, "key"))
    assert {partitioner.partition(b"") for _ in range(1000)} == {0}


def test_keys_are_spread():
    spread = Counter(partition_of_key(b"%d" % number, 8) for number in range(8000))
    assert len(spread) == 8
    assert min(spread.values()) > 800


def test_round_robin_takes_each_partition_in_turn_whatever_the_key():
    partitioner = Partitioner(TopicInfo(3, "round_robin"))
    assert [partitioner.partition(b"same") for _ in range(7)] == [0, 1, 2, 0, 1, 2, 0]


@pytest.mark.parametrize(("strategy", "key"), [("sticky", b"k"), ("sticky", None), ("key", None)])
def test_sticky_stays_for_a_run_of_messages_and_then_moves_on(strategy, key):
    partitioner = Partitioner(TopicInfo(2, strategy))
    taken = [partitioner.partition(key) for _ in range(3 * STICKY_RECORDS)]
    assert taken == [0] * STICKY_RECORDS + [1] * STICKY_RECORDS + [0] * STICKY_RECORDS


@pytest.mark.parametrize("strategy", ["key", "round_robin", "sticky"])
def test_a_topic_with_one_partition_has_one_partition(strategy):
    partitioner = Partitioner(TopicInfo(1, strategy))
    assert {partitioner.partition(key) for key in (None, b"", b"a", b"b")} == {0}


def test_lines_of_one_request_go_to_one_partition_unless_they_take_turns():
    text = b"a\nb\n\nd\ne"
    assert Partitioner(TopicInfo(1, "round_robin")).spread(text, 5) == [(0, text, 5)]
    sticky = Partitioner(TopicInfo(2, "sticky"))
    assert [sticky.spread(text, 5) for _ in range(3)] == [
        [(0, text, 5)],
        [(1, text, 5)],
        [(0, text, 5)],
    ]
    turns = Partitioner(TopicInfo(2, "round_robin"))
    assert turns.spread(text, 5) == [(0, b"a\n\ne", 3), (1, b"b\nd", 2)]
    assert turns.spread(b"f", 1) == [(1, b"f", 1)]
