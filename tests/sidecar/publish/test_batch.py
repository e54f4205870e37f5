"""Batches: what the frame holds, what apps are told, and what another stamp changes."""

from hypothesis import given
from hypothesis import strategies as st

from log_format.envelope import Codec
from log_format.frame import decode_frame
from log_format.sequence import SEQUENCE_MAX
from sidecar.delivery.record_id import derived_id
from sidecar.errors import Denied
from sidecar.publish.batch import (
    LINE_OVERHEAD_BYTES,
    RECORD_OVERHEAD_BYTES,
    Ack,
    Committed,
    Entry,
    Kept,
    Lines,
    make_batch,
    stored_batch,
)
from sidecar.publish.compressor import Compressor
from sidecar.publish.message import Message
from sidecar.publish.producer import ProducerEpoch

OWNER = ProducerEpoch(0x1F, 3)
octets = st.binary(max_size=20)
messages = st.builds(
    Message,
    st.just("t"),
    octets,
    st.integers(-(2**63), 2**63 - 1),
    key=st.none() | octets,
    id=st.none() | octets,
    content_type=st.none() | octets,
    headers=st.none() | octets,
)


def entries_of(*payloads, ack=Ack.CORE, told=None):
    return [Entry(each, ack, None if told is None else told.append) for each in payloads]


@given(st.lists(messages, min_size=1, max_size=8))
def test_a_frame_holds_every_field_of_every_message(payloads):
    batch = make_batch("t", 2, OWNER, 7, entries_of(*payloads), 0)
    frame = decode_frame(batch.frame)
    frame.check_hash()
    columns = frame.columns()
    for index, payload in enumerate(payloads):
        assert columns.value[index] == payload.value
        assert columns.event_us[index] == payload.event_us
        assert columns.key[index] == payload.key
        assert columns.id[index] == payload.id
        assert columns.content_type[index] == payload.content_type
        assert columns.headers[index] == payload.headers
    part = frame.envelope.producer
    assert part == batch.producer
    assert (part.topic, part.partition, part.count) == ("t", 2, len(payloads))
    assert (part.producer_id, part.epoch, part.first_sequence) == (0x1F, 3, 7)
    assert part.first_event_us == payloads[0].event_us
    assert part.greatest_event_us == max(each.event_us for each in payloads)


def test_a_column_that_nobody_filled_is_left_out_and_an_empty_key_is_not_null():
    payloads = (Message("t", b"1", 0), Message("t", b"2", 0, key=b""))
    columns = decode_frame(make_batch("t", 0, OWNER, 0, entries_of(*payloads), 0).frame).columns()
    assert columns.id.all_null
    assert columns.headers.all_null
    assert list(columns.key) == [None, b""]


def test_lines_of_several_requests_are_one_run_of_records_with_each_request_its_time():
    blocks = (Lines("t", b"a\n", 2, 5), Lines("t", b"c", 1, 4))
    batch = make_batch("t", 0, OWNER, 0, entries_of(*blocks), 0)
    columns = decode_frame(batch.frame).columns()
    assert list(columns.value) == [b"a", b"", b"c"]
    assert list(columns.event_us) == [5, 5, 4]
    assert (batch.producer.first_event_us, batch.producer.greatest_event_us) == (5, 5)


def test_an_entry_knows_how_much_of_a_batch_it_takes():
    one = Entry(Message("t", b"12345", 0, key=b"12", id=b"1"), Ack.CORE, None)
    many = Entry(Lines("t", b"12\n3", 2, 0), Ack.CORE, None)
    assert (one.count, one.size) == (1, 8 + RECORD_OVERHEAD_BYTES)
    assert (many.count, many.size) == (2, 3 + 2 * LINE_OVERHEAD_BYTES)


def test_the_overhead_is_not_less_than_what_the_columns_really_add():
    payload = Message("t", b"v", 0, key=b"k", id=b"i", content_type=b"c", headers=b"h")
    few = make_batch("t", 0, OWNER, 0, entries_of(*[payload] * 100), 0)
    more = make_batch("t", 0, OWNER, 0, entries_of(*[payload] * 1100), 0)
    per_record = (len(more.frame) - len(few.frame)) / 1000
    assert per_record <= payload.size + RECORD_OVERHEAD_BYTES


def test_the_overhead_of_a_line_is_what_the_columns_really_add():
    few = make_batch("t", 0, OWNER, 0, entries_of(Lines("t", b"\n".join([b"v"] * 100), 100, 0)), 0)
    text = b"\n".join([b"v"] * 1100)
    more = make_batch("t", 0, OWNER, 0, entries_of(Lines("t", text, 1100, 0)), 0)
    assert (len(more.frame) - len(few.frame)) / 1000 == 1 + LINE_OVERHEAD_BYTES


def test_a_compressed_batch_keeps_its_records_under_another_stamp_and_out_of_the_spool():
    lines = Lines("t", b"\n".join([b'{"order_id":101}'] * 5000), 5000, 7)
    batch = make_batch("t", 0, OWNER, 0, entries_of(lines), 3, Compressor("auto"))
    assert len(batch.frame) < len(lines.text) / 4
    assert batch.size > len(lines.text)
    found = stored_batch(decode_frame(batch.frame), batch.frame, 11, 3)
    assert (found.size, found.body_len) == (batch.size, batch.body_len)
    for each in (batch, found):
        assert each.restamp(ProducerEpoch(0x1F, 4), 9) == 5009
        frame = decode_frame(each.frame)
        frame.check_hash()
        assert frame.envelope.codec is Codec.ZSTD
        assert frame.envelope.producer.first_sequence == 9
        assert list(frame.columns().value) == [b'{"order_id":101}'] * 5000


def test_committed_messages_are_told_their_own_offsets_and_ids():
    told = []
    payloads = (
        Message("t", b"0", 0),
        Message("t", b"1", 0, id="käse".encode()),
        Lines("t", b"2\n3", 2, 0),
        Message("t", b"4", 0),
    )
    batch = make_batch("t", 1, OWNER, 10, entries_of(*payloads[:2], told=told), 0)
    assert batch.waits
    batch.answer_committed(100, "committed")
    assert told == [
        Committed("t", 1, 100, derived_id(batch.producer, 0), "committed"),
        Committed("t", 1, 101, "käse", "committed"),
    ]
    assert not batch.waits
    batch.answer_committed(100, "committed")
    assert len(told) == 2


def test_the_entry_behind_lines_is_told_the_offset_behind_them():
    told = []
    blocks = (Lines("t", b"a\nb\nc", 3, 0), Lines("t", b"d", 1, 0))
    make_batch("t", 0, OWNER, 0, entries_of(*blocks, told=told), 0).answer_committed(50, "os")
    assert [each.offset for each in told] == [50, 53]
    assert {each.durability for each in told} == {"os"}


def test_whoever_asked_for_the_sidecar_alone_hears_nothing_of_the_log():
    told = []
    payload = Message("t", b"0", 0, id=b"mine")
    batch = make_batch("t", 0, OWNER, 0, entries_of(payload, ack=Ack.SIDECAR, told=told), 0)
    batch.answer_committed(9, "committed")
    assert told == [Kept("t", "mine", "spooled")]


def test_being_stored_answers_those_alone_who_wait_for_no_more():
    told = []
    (kept,) = entries_of(Message("t", b"0", 0), ack=Ack.SIDECAR, told=told)
    (waiting,) = entries_of(Message("t", b"0", 0), ack=Ack.AUTO, told=told)
    kept.answer_stored()
    waiting.answer_stored()
    assert told == [Kept("t", None, "spooled")]
    assert kept.stored
    assert waiting.stored
    waiting.keep = True
    waiting.answer_stored()
    assert len(told) == 2


def test_a_refusal_is_told_to_all_who_wait_and_once():
    told = []
    error = Denied("no")
    batch = make_batch("t", 0, OWNER, 0, entries_of(*[Message("t", b"", 0)] * 2, told=told), 0)
    batch.answer_all(error)
    batch.answer_all(error)
    assert told == [error, error]


def test_only_sidecar_and_none_do_not_want_to_hear_what_the_log_says():
    assert {ack for ack in Ack if ack.detached} == {Ack.SIDECAR, Ack.NONE}


@given(
    st.lists(messages, min_size=1, max_size=4),
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**15 - 1),
    st.integers(0, SEQUENCE_MAX),
)
def test_another_stamp_changes_the_place_in_the_sequence_and_nothing_else(
    payloads, producer_id, epoch, first_sequence
):
    batch = make_batch("t", 0, OWNER, 0, entries_of(*payloads), 0)
    before = decode_frame(batch.frame)
    after_it = batch.restamp(ProducerEpoch(producer_id, epoch), first_sequence)
    after = decode_frame(batch.frame)
    after.check_hash()
    part = after.envelope.producer
    assert bytes(after.body) == bytes(before.body)
    assert (part.producer_id, part.epoch, part.first_sequence) == (
        producer_id,
        epoch,
        first_sequence,
    )
    assert part.body_sha256 == before.envelope.producer.body_sha256
    assert batch.owner == ProducerEpoch(producer_id, epoch)
    assert after_it == (first_sequence + len(payloads)) % 2**31


def test_a_stored_batch_that_gets_another_stamp_has_to_be_stored_again():
    made = make_batch("t", 0, OWNER, 0, entries_of(Message("t", b"0", 0)), 4)
    batch = stored_batch(decode_frame(made.frame), made.frame, 77, 4)
    assert batch.position == 77
    assert batch.doubtful
    assert not batch.waits
    batch.restamp(ProducerEpoch(1, 0), 0)
    assert batch.position is None
    assert batch.replaces == [77]
    assert batch.order == 4
