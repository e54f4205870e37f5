"""One loop filters, renders, cuts to size, and says what was handed over."""

import json

import pytest

from hosting.tracing import Tracing
from log_format.body import encode_body
from log_format.envelope import add_stamp
from log_format.frame import body_padding, decode_frame, encode_frame
from log_format.parts import Producer, Stamp
from sidecar.counters import Counters
from sidecar.delivery import outflow
from sidecar.delivery.filter import Filter
from sidecar.delivery.outflow import Outflow
from sidecar.delivery.topic_reader import Parcel
from sidecar.delivery.topic_stream import Gap
from sidecar.errors import UnknownTopic


def parcel(count, base=0, offsets=None):
    body = encode_body([0] * count, [b"%d" % number for number in range(count)])
    producer = Producer("orders", 0, 1, 0, 0, count, 0, 0, bytes(32))
    plain = decode_frame(encode_frame(producer, body))
    stamped = add_stamp(plain.envelope.raw, Stamp(0, base, 1, 0))
    frame = decode_frame(stamped + bytes(plain.body) + body_padding(plain.envelope.body_len))
    return Parcel(frame, range(base, base + count) if offsets is None else offsets)


class Source:
    """Gives these events, then ends; `rooms` are the answers to the question for room."""

    def __init__(self, *events, rooms=()):
        self.positions = {0: 0}
        self._events = events
        self._rooms = list(rooms)
        self.said = []

    async def events(self):
        for event in self._events:
            yield event
        raise UnknownTopic("it is over")

    async def room(self, parcel):
        room = self._rooms.pop(0) if self._rooms else 10**9
        if room is TimeoutError:
            raise TimeoutError
        return room

    def done(self, parcel, offsets):
        self.said.append(("done", list(offsets)))

    def skipped(self, parcel, offsets):
        self.said.append(("skipped", list(offsets)))

    def gave_up(self, parcel, offsets):
        self.said.append(("gave up", list(offsets)))


class Sink:
    def __init__(self):
        self.written = []

    async def messages(self, lines, offsets, parcel, source):
        assert [json.loads(line)["offset"] for line in lines] == list(offsets)
        self.written.append(list(offsets))

    async def notice(self, notice, source):
        self.written.append(notice)

    async def heartbeat(self):
        self.written.append(None)


async def run(source, *filters):
    sink, counters = Sink(), Counters()
    with pytest.raises(UnknownTopic):
        await Outflow(source, sink, filters, counters, Tracing("sidecar", None)).run()
    return sink.written, counters


async def test_messages_gaps_and_heartbeats_go_out_in_order():
    gap = Gap(0, 3, 5, "expired", "")
    written, counters = await run(Source(parcel(3), None, gap, parcel(2, 5)))
    assert written == [[0, 1, 2], None, gap, [5, 6]]
    assert counters.delivered_messages == 5


async def test_a_large_parcel_goes_out_in_pieces_each_said_to_be_done(monkeypatch):
    monkeypatch.setattr(outflow, "CHUNK_MESSAGES_MAX", 4)
    source = Source(parcel(10))
    written, _ = await run(source)
    assert written == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert source.said == [("done", each) for each in written]


async def test_what_does_not_match_is_said_to_be_skipped_and_counted():
    source = Source(parcel(6))
    written, counters = await run(source, Filter("message % 2 == 0"), Filter("message > 0"))
    assert written == [[2, 4]]
    assert source.said == [("skipped", [1, 3, 5]), ("skipped", [0]), ("done", [2, 4])]
    assert (counters.filtered_messages, counters.delivered_messages) == (4, 2)


async def test_what_cannot_be_judged_is_counted():
    written, counters = await run(Source(parcel(2)), Filter("message.x == 1"))
    assert written == []
    assert counters.filter_errors == 2


async def test_no_more_goes_out_than_there_is_room_for_and_waiting_shows_that_it_lives():
    source = Source(parcel(3), rooms=[2, TimeoutError, 1])
    written, _ = await run(source)
    assert written == [[0, 1], None, [2]]


async def test_where_there_will_never_be_room_the_rest_is_given_up():
    source = Source(parcel(3), parcel(1, 3), rooms=[1, 0])
    written, _ = await run(source)
    assert written == [[0], [3]]
    assert source.said == [("done", [0]), ("gave up", [1, 2]), ("done", [3])]


async def test_only_the_offsets_of_the_parcel_go_out():
    written, _ = await run(Source(parcel(5, offsets=[1, 4])))
    assert written == [[1, 4]]
