"""Bodies as arrays: the same values and the same refusals as the format's own decoder."""

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from log_format.body import COLUMNS, decode_body, encode_body
from log_format.envelope import Codec, Envelope, decode_envelope
from log_format.errors import BadBody
from log_format.frame import decode_frame, encode_frame
from log_format.parts import Producer
from spark.body_arrays import body_arrays

ALL = ("event_time", "size", *COLUMNS)
cells = st.one_of(st.none(), st.binary(max_size=12))


def envelope_for(body: bytes, count: int) -> Envelope:
    part = Producer("t", 0, 0, 0, 0, count, 0, 0, bytes(32))
    return decode_envelope(encode_frame(part, body))


@given(
    st.lists(
        st.tuples(st.integers(-(2**62), 2**62), cells, cells, st.binary(max_size=12), cells, cells),
        min_size=1,
        max_size=20,
    )
)
@settings(max_examples=100, deadline=None)
def test_arrays_hold_what_the_decoder_reads(rows: list[tuple[object, ...]]) -> None:
    times, ids, keys, values, types, headers = (list(column) for column in zip(*rows, strict=True))
    body = encode_body(times, values, ids=ids, keys=keys, content_types=types, headers=headers)  # type: ignore[arg-type]
    arrays = body_arrays(envelope_for(body, len(rows)), body, ALL, check=True)
    expected = decode_body(body)
    assert arrays["event_time"].cast(pa.int64()).to_pylist() == expected.event_us.tolist()
    assert arrays["size"].to_pylist() == [len(value) for value in values]  # type: ignore[arg-type]
    assert arrays["key"].to_pylist() == list(expected.key)
    assert arrays["value"].to_pylist() == list(expected.value)
    for name in ("id", "content_type", "headers"):
        shown = [None if v is None else v.decode(errors="replace") for v in getattr(expected, name)]
        assert arrays[name].to_pylist() == shown


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_a_changed_body_is_refused_exactly_where_the_decoder_refuses_it(
    data: st.DataObject,
) -> None:
    body = bytearray(
        encode_body([1, 2, 3], [b"a", b"bc", b""], keys=[b"k", None, b""], ids=[b"x", b"y", None])
    )
    at = data.draw(st.integers(0, len(body) - 1))
    body[at] = data.draw(st.integers(0, 255))
    envelope = envelope_for(bytes(body), 3)
    try:
        decode_body(bytes(body))
        sound = int.from_bytes(body[:4], "little") == 3
    except BadBody:
        sound = False
    if sound:
        body_arrays(envelope, bytes(body), ALL, check=True)
    else:
        with pytest.raises(BadBody):
            body_arrays(envelope, bytes(body), ALL, check=True)


def test_nothing_is_copied() -> None:
    body = encode_body([1, 2], [b"value-one", b"value-two"])
    arrays = body_arrays(envelope_for(body, 2), body, ("value",), check=False)
    assert arrays["value"].buffers()[2].address == pa.py_buffer(body).address + body.index(b"value")


def test_a_compressed_body_is_expanded_within_its_declared_size() -> None:
    part = Producer("t", 0, 0, 0, 0, 2, 0, 0, bytes(32))
    frame = decode_frame(encode_frame(part, encode_body([1, 2], [b"a", b"b"]), codec=Codec.ZSTD))
    arrays = body_arrays(frame.envelope, frame.body, ("value",), check=True)
    assert arrays["value"].to_pylist() == [b"a", b"b"]
    with pytest.raises(BadBody):
        body_arrays(replace(frame.envelope, uncompressed_len=8), frame.body, (), check=True)


def test_columns_that_are_not_wanted_are_checked_only_when_verifying() -> None:
    body = bytearray(encode_body([1], [b"a"], keys=[b"k"]))
    key_entry = 8 + 16 * 2
    body[key_entry + 4 : key_entry + 8] = (9_999).to_bytes(4, "little")
    envelope = envelope_for(bytes(body), 1)
    assert body_arrays(envelope, bytes(body), ("value",), check=False)["value"].to_pylist() == [
        b"a"
    ]
    with pytest.raises(BadBody):
        body_arrays(envelope, bytes(body), ("value",), check=True)
