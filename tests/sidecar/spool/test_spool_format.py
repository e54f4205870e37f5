"""The spool's records: what is written is read, and damage is found and passed over."""

from hypothesis import given
from hypothesis import strategies as st

from sidecar.spool.spool_format import (
    HEAD_BYTES,
    SEGMENT_MAGIC,
    Damage,
    Kind,
    Record,
    decode_done,
    decode_record,
    encode_done,
    encode_record,
    make_position,
    payload_length,
    record_bytes,
    scan_segment,
    split_position,
)

PAYLOADS = st.lists(st.binary(max_size=100), min_size=1, max_size=8)


def segment(payloads):
    records = [encode_record(Kind.FRAME, at, at * 10, each) for at, each in enumerate(payloads)]
    return SEGMENT_MAGIC + b"".join(records)


@given(PAYLOADS)
def test_a_segment_gives_back_its_records_in_order(payloads):
    found = list(scan_segment(segment(payloads)))
    assert all(isinstance(each, Record) for each in found)
    assert [bytes(each.payload) for each in found] == payloads
    assert [(each.order, each.written_us) for each in found] == [
        (at, at * 10) for at in range(len(payloads))
    ]


@given(PAYLOADS, st.data())
def test_a_segment_cut_anywhere_keeps_every_whole_record_before_the_cut(payloads, data):
    whole = segment(payloads)
    cut = data.draw(st.integers(0, len(whole)))
    found = list(scan_segment(whole[:cut]))
    records = [each for each in found if isinstance(each, Record)]
    assert [bytes(each.payload) for each in records] == payloads[: len(records)]
    damage = [each for each in found if isinstance(each, Damage)]
    assert len(damage) <= 1
    assert all(each.at_end for each in damage)
    ends = [len(SEGMENT_MAGIC)] + [each.end for each in records]
    assert not damage or damage[0].offset in (0, ends[-1])


@given(PAYLOADS, st.data())
def test_a_flipped_bit_loses_at_most_the_record_it_is_in(payloads, data):
    whole = bytearray(segment(payloads))
    at = data.draw(st.integers(len(SEGMENT_MAGIC), len(whole) - 1))
    whole[at] ^= 1 << data.draw(st.integers(0, 7))
    found = [each for each in scan_segment(bytes(whole)) if isinstance(each, Record)]
    values = [bytes(each.payload) for each in found]
    assert len(values) >= len(payloads) - 1
    # What is left is what was there, in its order: nothing is made up.
    remaining = iter(payloads)
    assert all(value in remaining for value in values)


@given(st.lists(st.integers(0, 2**63 - 1), max_size=50))
def test_marks_come_back(positions):
    record = decode_record(encode_done(positions, 5), 0)
    assert record is not None
    assert record.kind is Kind.DONE
    assert decode_done(record) == positions


@given(st.integers(0, 2**23 - 1), st.integers(0, 2**40 - 1))
def test_a_position_is_a_segment_and_an_offset(number, offset):
    assert split_position(make_position(number, offset)) == (number, offset)


def test_a_record_says_how_long_it_is_before_it_is_read():
    record = encode_record(Kind.FRAME, 1, 2, b"x" * 13)
    assert payload_length(record[:HEAD_BYTES]) == 13
    assert record_bytes(13) == len(record)
    assert payload_length(b"") is None
    assert payload_length(bytes(HEAD_BYTES)) is None


def test_another_file_is_no_segment():
    assert list(scan_segment(b"")) == []
    assert list(scan_segment(b"something else entirely")) == [Damage(0, 23, at_end=True)]
