"""What apps say is understood, or answered with the member that is wrong."""

import pytest

from sidecar.delivery.socket_commands import (
    OFFSETS_MAX,
    Ack,
    Nack,
    Pause,
    Resume,
    Seek,
    offsets_in,
    parse_command,
    ranges_in,
    start_of,
)
from sidecar.delivery.start import Start
from sidecar.errors import BadQuery


@pytest.mark.parametrize(
    ("text", "expected", "ranges"),
    [
        ('{"type":"ack","offset":17}', Ack(0, 17), [(17, 17)]),
        ('{"type":"ack","partition":2,"offsets":[5,4,9,4]}', None, [(4, 5), (9, 9)]),
        ('{"type":"ack","ranges":[[1,3],[7,7]]}', None, [(1, 3), (7, 7)]),
        ('{"type":"nack","offset":1,"delay_ms":500}', Nack(0, 1, delay_ms=500), [(1, 1)]),
    ],
)
def test_settling(text, expected, ranges):
    command = parse_command(text)
    if expected is not None:
        assert command == expected
    assert ranges_in(command) == ranges


def test_what_is_given_back_is_named_one_by_one():
    assert offsets_in(parse_command('{"type":"nack","ranges":[[1,3]]}')) == [1, 2, 3]
    with pytest.raises(BadQuery, match=f"more than {OFFSETS_MAX}"):
        offsets_in(parse_command('{"type":"nack","ranges":[[0,99999999999]]}'))


def test_pauses():
    assert parse_command(b'{"type":"pause"}') == Pause()
    assert parse_command(b'{"type":"resume"}') == Resume()


@pytest.mark.parametrize(
    ("text", "partitions", "start"),
    [
        ('{"type":"seek","to":"earliest"}', None, Start("earliest", None)),
        ('{"type":"seek","to":"latest"}', (1, 2), Start("latest", (1, 2))),
        ('{"type":"seek","to":"offset:5"}', None, Start({"offsets": {"0": 5}}, (0,))),
        (
            '{"type":"seek","to":"offset:5","partition":3}',
            (1, 3),
            Start({"offsets": {"3": 5}}, (3,)),
        ),
        (
            '{"type":"seek","to":"time:1970-01-01T00:00:01Z"}',
            None,
            Start({"time_us": 1_000_000}, None),
        ),
    ],
)
def test_seeks_are_written_as_from_is(text, partitions, start):
    command = parse_command(text)
    assert isinstance(command, Seek)
    assert start_of(command, partitions) == start


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("", "frame"),
        ("{", "frame"),
        ("[]", "frame"),
        ("[" * 5000, "frame"),
        ("{}", "type"),
        ('{"type":"nope"}', "type"),
        ('{"type":1}', "type"),
        ('{"type":"ack"}', "offset"),
        ('{"type":"ack","offset":1,"ranges":[]}', "offset"),
        ('{"type":"ack","offset":-1}', "offset"),
        ('{"type":"ack","offset":"x"}', "offset"),
        ('{"type":"ack","offset":1.5}', "offset"),
        ('{"type":"ack","offset":9223372036854775808}', "offset"),
        ('{"type":"ack","offset":1,"partition":-1}', "partition"),
        ('{"type":"ack","offsets":[1,"x"]}', "offsets"),
        ('{"type":"ack","ranges":[[1,2,3]]}', "ranges"),
        ('{"type":"ack","ranges":[[3,1]]}', "ranges"),
        ('{"type":"ack","offset":1,"delay_ms":1}', "delay_ms"),
        ('{"type":"nack","offset":1,"delay_ms":3600001}', "delay_ms"),
        ('{"type":"seek"}', "to"),
        ('{"type":"pause","x":1}', "x"),
    ],
)
def test_a_bad_frame_is_answered_with_the_member_at_fault(text, field):
    with pytest.raises(BadQuery) as caught:
        parse_command(text)
    assert caught.value.members == {"field": field}


def test_a_bad_place_is_the_fault_of_to():
    with pytest.raises(BadQuery) as caught:
        start_of(parse_command('{"type":"seek","to":"nowhere"}'), None)
    assert caught.value.members == {"field": "to"}
