"""A frame survives a round trip, and not one changed or missing byte goes unnoticed."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_format.body import encode_body
from log_format.envelope import Codec, without_body
from log_format.errors import BadBody, BadField, FormatError, HashMismatch, Truncated
from log_format.frame import Frame, decode_frame, encode_frame, iter_frames
from log_format.parts import Producer

NULLABLE = st.one_of(st.none(), st.binary(max_size=40))
RECORDS = st.lists(
    st.tuples(
        st.integers(-(2**63), 2**63 - 1),
        st.binary(max_size=200),
        NULLABLE,
        NULLABLE,
        NULLABLE,
        NULLABLE,
    ),
    min_size=1,
    max_size=40,
)


def read_whole(data: bytes) -> Frame:
    """What every receiver does: envelope, length, padding, hash, columns."""
    frame = decode_frame(data)
    if frame.envelope.frame_len != len(data):
        raise Truncated("another length than the frame declares")
    if frame.envelope.has_body:
        frame.check_hash()
        frame.columns()
    return frame


@given(records=RECORDS, codec=st.sampled_from(Codec))
def test_records_come_back_as_they_were_sent(
    records: list[tuple[int, bytes, bytes | None, bytes | None, bytes | None, bytes | None]],
    codec: Codec,
) -> None:
    times, values, ids, keys, types, headers = (
        list(column) for column in zip(*records, strict=True)
    )
    body = encode_body(times, values, ids=ids, keys=keys, content_types=types, headers=headers)
    producer = Producer("t", 0, 1, 0, 0, len(records), times[0], max(times), bytes(32))
    frame = read_whole(encode_frame(producer, body, codec=codec))
    columns = frame.columns()
    assert columns.event_us.tolist() == times
    assert list(columns.value) == values
    assert list(columns.id) == ids
    assert list(columns.key) == keys
    assert list(columns.content_type) == types
    assert list(columns.headers) == headers
    assert replace(frame.envelope.producer, body_sha256=bytes(32)) == producer


@pytest.mark.parametrize("sample", ["sent_frame", "stored_frame"])
def test_every_single_bit_flip_is_refused(sample: str, request: pytest.FixtureRequest) -> None:
    whole: bytes = request.getfixturevalue(sample)
    read_whole(whole)
    for position in range(len(whole)):
        for bit in range(8):
            damaged = bytearray(whole)
            damaged[position] ^= 1 << bit
            with pytest.raises(FormatError):
                read_whole(bytes(damaged))


@pytest.mark.parametrize("sample", ["sent_frame", "stored_frame"])
def test_every_truncation_is_refused(sample: str, request: pytest.FixtureRequest) -> None:
    whole: bytes = request.getfixturevalue(sample)
    for length in range(len(whole)):
        with pytest.raises(Truncated):
            read_whole(whole[:length])


def test_a_run_of_frames_is_read_back_to_back(sent_frame: bytes, stored_frame: bytes) -> None:
    frames = list(iter_frames(sent_frame + stored_frame + sent_frame))
    assert [frame.envelope.frame_len for frame in frames] == [
        len(sent_frame),
        len(stored_frame),
        len(sent_frame),
    ]
    assert frames[0].envelope.stamp is None
    assert frames[1].envelope.stamp is not None


def test_a_frame_without_body_keeps_its_envelope_and_has_no_records(stored_frame: bytes) -> None:
    kept = decode_frame(stored_frame).envelope
    bodiless = decode_frame(without_body(kept.raw))
    assert bodiless.envelope.frame_len == len(kept.raw)
    assert bodiless.envelope.producer == kept.producer
    assert bodiless.envelope.body_len == kept.body_len
    with pytest.raises(BadBody):
        bodiless.columns()


def test_a_body_that_is_not_the_declared_one_is_refused(sent_frame: bytes) -> None:
    frame = decode_frame(sent_frame)
    with pytest.raises(HashMismatch):
        Frame(frame.envelope, bytes(len(frame.body))).check_hash()


def test_padding_after_the_body_must_be_zero(stored_frame: bytes) -> None:
    envelope = decode_frame(stored_frame).envelope
    assert envelope.body_len % 8, "the sample needs padding for this test to mean something"
    with pytest.raises(BadField, match="padding"):
        decode_frame(stored_frame[:-1] + b"\x01")


def test_a_count_that_differs_from_the_envelopes_is_refused(
    producer: Producer, body: bytes
) -> None:
    with pytest.raises(BadBody, match="3 records where the envelope says 4"):
        decode_frame(encode_frame(replace(producer, count=4), body)).columns()


@given(st.binary(max_size=400))
def test_garbage_is_refused_with_a_typed_error(data: bytes) -> None:
    with pytest.raises(FormatError):
        read_whole(data)


def test_columns_are_checked_without_being_read(stored_frame: bytes) -> None:
    frame = decode_frame(stored_frame)
    frame.check_columns()
    other = replace(frame.envelope, producer=replace(frame.envelope.producer, count=2))
    for check in (Frame(other, frame.body).check_columns, Frame(other, frame.body).columns):
        with pytest.raises(BadBody, match="3 records where the envelope says 2"):
            check()
