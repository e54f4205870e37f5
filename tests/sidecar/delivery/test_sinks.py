"""Each form writes what it is given, and tells what is no message in its own way."""

import json

import pytest

from sidecar.delivery.holdings import Hold
from sidecar.delivery.member_events import Changed, Paused, Revoked
from sidecar.delivery.sinks import EventSink, LineSink, SocketSink, notice_document
from sidecar.delivery.topic_stream import Gap

GAP = Gap(1, 3, 9, "damaged", "rot")


class Wire:
    """Response, request, transport and writer in one: keeps the bytes."""

    def __init__(self, *, closing=False):
        self.data = b""
        self.closing = closing
        self.transport = self
        self.drained = 0

    async def write_later(self, data):
        self.data += data

    def write(self, data):
        self.data += data

    def is_closing(self):
        return self.closing

    async def drain(self):
        self.drained += 1


class Response(Wire):
    write = Wire.write_later


class Source:
    positions = {0: 5, 1: 3, 2: 8}  # noqa: RUF012 - a constant


class Parcel:
    partition = 1


async def test_events_have_ids_that_resume_over_all_partitions():
    response = Response()
    sink = EventSink(response)
    await sink.messages(['{"a":1}', '{"a":2}'], [3, 4], Parcel, Source)
    assert response.data == (
        b'id: 0-5_1-4_2-8\ndata: {"a":1}\n\nid: 0-5_1-5_2-8\ndata: {"a":2}\n\n'
    )


async def test_events_of_gaps_have_their_own_name_and_heartbeats_are_comments():
    response = Response()
    sink = EventSink(response)
    await sink.notice(GAP, Source)
    await sink.notice(Paused(paused=True), Source)
    await sink.heartbeat()
    head, data, *rest = response.data.split(b"\n", 3)[1:]
    assert response.data.startswith(b"event: gap\nid: 0-5_1-9_2-8\ndata: ")
    assert json.loads(data.removeprefix(b"data: "))["code"] == "damaged"
    assert rest[0].endswith(b": heartbeat\n")
    assert head == b"id: 0-5_1-9_2-8"


async def test_lines_are_messages_and_nothing_else():
    response = Response()
    sink = LineSink(Wire(), response)
    await sink.messages(["{}", '"\xc3\xa9"'], [0, 1], Parcel, Source)
    await sink.notice(GAP, Source)
    await sink.heartbeat()
    assert response.data == '{}\n"é"\n'.encode()


async def test_lines_notice_without_a_byte_that_their_reader_has_gone():
    with pytest.raises(ConnectionResetError):
        await LineSink(Wire(closing=True), Response()).heartbeat()


async def test_a_socket_gets_one_message_each_and_is_drained():
    wire = Wire()
    sink = SocketSink(wire, wire)
    await sink.messages(["{}", "[]"], [0, 1], Parcel, Source)
    await sink.notice(Changed(), Source)
    await sink.heartbeat()
    assert wire.data == b"\x81\x02{}\x81\x02[]"
    assert wire.drained == 1
    await sink.say({"type": "x"})
    assert wire.data.endswith(b'\x81\x0c{"type":"x"}')


async def test_a_socket_that_is_gone_is_an_error():
    wire = Wire(closing=True)
    with pytest.raises(ConnectionResetError):
        await SocketSink(wire, wire).messages(["{}"], [0], Parcel, Source)
    wire.transport = None
    with pytest.raises(ConnectionResetError):
        SocketSink(wire, wire)


def test_notices_as_sockets_get_them():
    assert notice_document(GAP) == {
        "type": "gap", "partition": 1, "first_offset": 3, "next_offset": 9,
        "code": "damaged", "detail": "rot",
    }  # fmt: skip
    revoked = Revoked(Hold(2, generation=1), may_finish=False)
    assert notice_document(revoked) == {"type": "revoked", "partition": 2}
    assert notice_document(Paused(paused=True)) == {"type": "paused"}
    assert notice_document(Paused(paused=False)) == {"type": "resumed"}
    assert notice_document(Changed()) is None
