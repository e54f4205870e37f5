"""Where a subscription begins, from what the request says to what the wire is told."""

import pytest

from sidecar.delivery.start import Start, parse_partition, parse_start, resume
from sidecar.errors import BadQuery


@pytest.mark.parametrize(
    ("query", "origin", "partitions"),
    [
        ({}, "latest", None),
        ({"from": "latest"}, "latest", None),
        ({"from": "earliest"}, "earliest", None),
        ({"from": "earliest", "partition": "3"}, "earliest", (3,)),
        ({"from": "earliest", "partition": "3,1,3"}, "earliest", (1, 3)),
        ({"from": "offset:17"}, {"offsets": {"0": 17}}, (0,)),
        ({"from": "offset:17", "partition": "2"}, {"offsets": {"2": 17}}, (2,)),
        ({"from": f"offset:{2**63 - 1}"}, {"offsets": {"0": 2**63 - 1}}, (0,)),
        ({"from": "time:1970-01-01T00:00:01Z"}, {"time_us": 1_000_000}, None),
        ({"from": "time:1970-01-01T01:00:00+01:00"}, {"time_us": 0}, None),
        ({"from": "time:1970-01-01T01:00:00 01:00"}, {"time_us": 0}, None),
    ],
)
def test_each_form_of_from_is_understood(query, origin, partitions):
    assert parse_start(query, None) == Start(origin, partitions)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Latest",
        "offset",
        "offset:",
        "offset:-1",
        "offset:+1",
        "offset:1.5",
        "offset:٣",
        f"offset:{2**63}",
        "time:",
        "time:yesterday",
        "time:2026-01-01T00:00:00",
        "17",
    ],
)
def test_any_other_from_is_refused_by_name(text):
    with pytest.raises(BadQuery, match=r"^from: ") as caught:
        parse_start({"from": text}, None)
    assert not str(caught.value).startswith("from: from:")


@pytest.mark.parametrize("text", ["", "x", "-1", "1,", "1 2", "٣", "9" * 10])
def test_a_partition_that_is_no_number_is_refused(text):
    with pytest.raises(BadQuery, match=r"^partition: "):
        parse_partition({"partition": text})


def test_a_last_event_id_wins_over_from_and_continues_every_partition():
    start = parse_start({"from": "earliest"}, "0-17_1-5")
    assert start == Start({"offsets": {"0": 17, "1": 5}}, None)
    assert not start.is_latest


def test_an_empty_last_event_id_is_none():
    assert parse_start({"from": "earliest"}, "").origin == "earliest"


def test_a_last_event_id_of_other_partitions_is_refused():
    with pytest.raises(BadQuery, match="Last-Event-ID"):
        parse_start({"partition": "0"}, "0-17_1-5")
    assert parse_start({"partition": "0,1"}, "0-17_1-5").partitions == (0, 1)


def test_resuming_asks_for_exactly_what_follows():
    assert resume({0: 3}, None) == Start({"offsets": {"0": 3}}, None)


def test_only_latest_means_that_nothing_of_the_past_is_wanted():
    assert parse_start({}, None).is_latest
    assert not parse_start({"from": "earliest"}, None).is_latest
