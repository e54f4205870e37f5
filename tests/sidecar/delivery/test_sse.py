"""Server-sent events, read back by the rules of the WHATWG's parser."""

from sidecar.delivery.sse import (
    HEARTBEAT,
    RETRY,
    encode_event,
    encode_gap,
    encode_position_event,
    spell_events,
)


def parse(stream):
    """Events as (last event id, data), and the last event id at the end."""
    events, data, identity = [], [], ""
    for line in stream.decode().split("\n"):
        if not line:
            if data:
                events.append((identity, "\n".join(data)))
            data = []
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            data.append(value)
        elif name == "id":
            identity = value
    return events, identity


def test_an_event_carries_its_id_and_its_data():
    stream = encode_event("0-17", b'{"a":": b"}') + encode_event("0-18", b"2")
    assert parse(stream) == ([("0-17", '{"a":": b"}'), ("0-18", "2")], "0-18")


def test_a_position_is_an_event_of_its_own_name():
    encoded = encode_position_event("0-3_1-4")
    assert encoded.startswith(b"event: position\n")
    assert parse(encoded) == ([("0-3_1-4", "{}")], "0-3_1-4")


def test_what_is_no_event_has_no_empty_line():
    assert b"\n\n" not in HEARTBEAT + RETRY


def test_many_events_have_the_ids_of_all_partitions():
    spelled = spell_events(["1", "2"], [7, 9], 1, {0: 4, 1: 7, 2: 0})
    assert parse(spelled.encode()) == (
        [("0-4_1-8_2-0", "1"), ("0-4_1-10_2-0", "2")],
        "0-4_1-10_2-0",
    )
    assert spell_events(["1"], [7], 1, {1: 7}) == "id: 1-8\ndata: 1\n\n"
    assert spell_events(["1"], [7], 1, {}) == "id: 1-8\ndata: 1\n\n"
    assert spell_events(["1"], [7], 1, {0: 3}) == "id: 0-3_1-8\ndata: 1\n\n"


def test_a_heartbeat_is_nothing_to_the_reader_and_does_not_cut_an_event():
    stream = encode_event("0-1", b"1") + HEARTBEAT + encode_event("0-2", b"2") + HEARTBEAT
    assert parse(stream) == ([("0-1", "1"), ("0-2", "2")], "0-2")


def test_a_gap_is_an_event_of_its_own_name_that_moves_the_position():
    encoded = encode_gap("0-25", b'{"code":"damaged"}')
    assert encoded.startswith(b"event: gap\n")
    assert parse(encoded) == ([("0-25", '{"code":"damaged"}')], "0-25")
