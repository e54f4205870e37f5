"""Frames come out of a byte stream whole, however it is cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_format.body import encode_body
from log_format.errors import BadMagic, ChecksumMismatch, Truncated
from log_format.frame import encode_frame
from log_format.parts import Producer
from log_format.stream import FrameReader


def frame(number: int, size: int) -> bytes:
    producer = Producer("t", 0, 1, 0, number, 1, number, number, bytes(32))
    return encode_frame(producer, encode_body([number], [b"v" * size]))


@given(st.lists(st.integers(0, 500), min_size=1, max_size=8), st.data())
def test_frames_are_the_same_however_the_input_is_cut(
    sizes: list[int], data: st.DataObject
) -> None:
    whole = b"".join(frame(number, size) for number, size in enumerate(sizes))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=12)))
    reader = FrameReader()
    got = []
    for begin, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        got += list(reader.feed(whole[begin:end]))
    reader.finish()
    assert [part.envelope.producer.first_sequence for part in got] == list(range(len(sizes)))
    assert [len(part.columns().value[0] or b"") for part in got] == sizes


def test_an_end_inside_a_frame_is_an_error() -> None:
    reader = FrameReader()
    assert list(reader.feed(frame(0, 10)[:-1])) == []
    with pytest.raises(Truncated):
        reader.finish()


def test_frames_before_the_damage_are_delivered() -> None:
    delivered = FrameReader().feed(frame(0, 10) + b"GET / HTTP/1.1\r\n\r\n" + bytes(64))
    assert next(delivered).envelope.producer.first_sequence == 0
    with pytest.raises(BadMagic):
        next(delivered)


def test_a_damaged_envelope_stops_the_reader() -> None:
    damaged = bytearray(frame(0, 10))
    damaged[40] ^= 1
    with pytest.raises(ChecksumMismatch):
        list(FrameReader().feed(bytes(damaged)))
