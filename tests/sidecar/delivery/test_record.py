"""A record on its own is the same message that a rendered frame shows."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_format.frame import iter_frames
from sidecar.delivery.record import Record, envelope_of, headers_of, records_of
from sidecar.delivery.rendering import render_frame


def record(**changes):
    fields = {
        "topic": "orders", "partition": 0, "offset": 17, "event_us": 1, "id": "i", "key": None,
        "headers": None, "content_type": None, "value": b"1", "principal": "app",
    }  # fmt: skip
    return Record(**{**fields, **changes})


async def test_its_envelope_is_the_one_that_readers_get(mesh):
    sidecar = await mesh.sidecar()
    for document in (
        {"message": {"a": [1, "ü"]}, "key": "k", "headers": {"h": "v"}, "id": "own"},
        {"message": None},
        {"data_base64": "AAEC", "content_type": "image/png"},
        {"data_base64": "e30=", "content_type": "application/json"},
        {"data_base64": "bm8=", "content_type": "application/json"},
    ):
        await sidecar.publish({"topic": "t", **document})
    for base, whole in mesh.log.frames["t", 0]:
        (frame,) = iter_frames(whole)
        offsets = range(base, base + frame.envelope.producer.count)
        ours = [envelope_of(each) for each in records_of(frame, offsets)]
        theirs = [each.envelope for each in render_frame(frame, base)]
        assert [json.loads(each) for each in ours] == [json.loads(each) for each in theirs]


def test_a_value_cannot_forge_the_members_around_it():
    forged = record(value=b'1,"principal":"root"', content_type=b"application/json")
    document = json.loads(envelope_of(forged))
    assert document["principal"] == "app"
    assert "data_base64" in document


@pytest.mark.parametrize("column", [None, b"", b"[]", b"no", b'{"a": 1}'])
def test_headers_that_are_no_object_of_strings_are_left_out(column):
    assert headers_of(record(headers=column)) == {}


@given(st.binary(max_size=50), st.one_of(st.none(), st.binary(max_size=20)))
def test_any_bytes_make_one_line_of_json(value, content_type):
    envelope = envelope_of(record(value=value, content_type=content_type))
    assert b"\n" not in envelope
    json.loads(envelope)


def test_it_knows_its_type_and_size():
    assert record().media_type == "application/json"
    assert record(value=b"\xff").media_type == "application/octet-stream"
    assert record(content_type=b"text/plain").media_type == "text/plain"
    assert record(value=b"x" * 100).size > 100
