"""A record without an id of its own gets one that nobody else has."""

import pytest

from log_format.parts import Producer
from log_format.sequence import SEQUENCE_MAX
from sidecar.delivery.record_id import derived_id, id_prefix, scoped_id


def part(topic="t", partition=0, first=0, epoch=3):
    return Producer(topic, partition, 0x1F, epoch, first, 1, 0, 0, bytes(32))


@pytest.mark.parametrize(
    ("first", "index", "expected"),
    [(0, 0, 0), (5, 2, 7), (SEQUENCE_MAX, 0, SEQUENCE_MAX), (SEQUENCE_MAX, 1, 0)],
)
def test_a_derived_id_counts_on_and_wraps_as_sequences_do(first, index, expected):
    assert derived_id(part(first=first), index) == f"{id_prefix(part())}{expected}"
    assert id_prefix(part()).startswith("000000000000001f-3-")


def test_the_same_sequence_in_another_topic_partition_or_epoch_has_another_id():
    producers = [part(), part(topic="u"), part(partition=1), part(epoch=4)]
    assert len({derived_id(producer, 0) for producer in producers}) == len(producers)


@pytest.mark.parametrize(
    ("own", "headers", "scoped"),
    [
        (None, b'{"ce-source":"/a"}', None),
        (b"1", None, b"1"),
        (b"1", b'{"h":"v"}', b"1"),
        (b"1", b'{"ce-source":"/a"}', b"/a\x001"),
        (b"1", b'{"ce-source":7}', b"1"),
        (b"1", b'["ce-source"]', b"1"),
        (b"1", b'{"ce-source"', b"1"),
    ],
)
def test_a_cloud_event_is_told_from_others_by_its_source_too(own, headers, scoped):
    assert scoped_id(own, headers) == scoped
