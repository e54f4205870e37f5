"""What apps read: one envelope a message, that no payload can break out of."""

import base64
import json
from array import array
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_format.body import encode_body
from log_format.envelope import add_provenance, add_stamp
from log_format.errors import HashMismatch
from log_format.frame import Frame, decode_frame, encode_frame
from log_format.parts import Producer, Provenance, Stamp
from log_format.sequence import SEQUENCE_MAX
from sidecar.delivery.rendering import render_frame, render_time, spell_frame

MEMBERS = ["topic", "partition", "offset", "timestamp", "id", "key", "headers"]


def stamped(values, *, base_offset=0, first_sequence=0, principal="app", **columns):
    """A frame as a gatekeeper and the log pass it on."""
    part = Producer(
        topic="orders",
        partition=2,
        producer_id=0x1F,
        epoch=3,
        first_sequence=first_sequence,
        count=len(values),
        first_event_us=0,
        greatest_event_us=0,
        body_sha256=bytes(32),
    )
    times = columns.pop("times", [0] * len(values))
    plain = encode_frame(part, encode_body(array("q", times), values, **columns))
    frame = decode_frame(plain)
    head = frame.envelope.raw
    if principal is not None:
        proof = Provenance(
            principal, "iss", "client", bytes(32), "jti", bytes(16), bytes(32), "r", "g", 1
        )
        head = add_provenance(head, proof)
    body = plain[len(frame.envelope.raw) :]
    return decode_frame(add_stamp(head, Stamp(0, base_offset, 1, 0)) + body)


def rendered(*arguments, **named):
    return [json.loads(each.envelope) for each in render_frame(stamped(*arguments, **named))]


def test_an_envelope_has_the_agreed_members_in_the_agreed_order():
    (message,) = rendered(
        [b'{"a":1}'],
        base_offset=17,
        first_sequence=5,
        keys=[b"k"],
        headers=[b'{"h":"1"}'],
        times=[1_000_001],
    )
    assert message == {
        "topic": "orders",
        "partition": 2,
        "offset": 17,
        "timestamp": "1970-01-01T00:00:01.000001Z",
        "id": "000000000000001f-3-98e3cefe-5",
        "key": "k",
        "headers": {"h": "1"},
        "message": {"a": 1},
        "principal": "app",
    }
    assert list(message) == [*MEMBERS, "message", "principal"]


def test_what_is_not_json_travels_as_base64_with_its_type():
    messages = rendered(
        [b"\xff", b'{"a":1}', b"{broken", b""],
        content_types=[None, b"text/plain", b"application/json", None],
    )
    assert [base64.b64decode(each["data_base64"]) for each in messages] == [
        b"\xff",
        b'{"a":1}',
        b"{broken",
        b"",
    ]
    assert [each["content_type"] for each in messages] == [
        "application/octet-stream",
        "text/plain",
        "application/json",
        "application/octet-stream",
    ]
    assert all("message" not in each for each in messages)


def test_a_payload_cannot_forge_the_members_around_it():
    forged = b'1,"principal":"root"'
    (message,) = rendered([forged], content_types=[b"application/json"])
    assert message["principal"] == "app"
    assert base64.b64decode(message["data_base64"]) == forged


@given(
    st.binary(max_size=40),
    st.none() | st.binary(max_size=20),
    st.none() | st.binary(max_size=20),
    st.none() | st.sampled_from([b"application/json", b"text/plain", b'\xff"\n']),
    st.none() | st.binary(max_size=20),
)
def test_no_bytes_of_a_producer_break_the_line_or_the_envelope(value, key, own, kind, headers):
    frame = stamped([value], keys=[key], ids=[own], content_types=[kind], headers=[headers])
    (each,) = render_frame(frame)
    assert b"\n" not in each.envelope
    assert b"\r" not in each.envelope
    message = json.loads(each.envelope)
    assert [name for name in message if name in MEMBERS] == MEMBERS
    assert message["principal"] == "app"
    assert set(message) - {*MEMBERS, "principal"} in ({"message"}, {"data_base64", "content_type"})


def test_line_ends_between_json_tokens_are_left_out_and_those_in_strings_are_kept():
    (message,) = rendered([b'{\r\n "a": "x\\ny"\n}\n'])
    assert message["message"] == {"a": "x\ny"}


def test_an_own_id_stands_in_place_of_the_derived_one_which_wraps_as_sequences_do():
    messages = rendered([b"1", b"2", b"3"], first_sequence=SEQUENCE_MAX, ids=[None, None, b"me"])
    assert [each["id"] for each in messages] == [
        f"000000000000001f-3-98e3cefe-{SEQUENCE_MAX}",
        "000000000000001f-3-98e3cefe-0",
        "me",
    ]


def test_only_messages_from_the_wanted_offset_on_are_rendered():
    frame = stamped([b"0", b"1", b"2"], base_offset=10)
    assert [each.offset for each in render_frame(frame, 11)] == [11, 12]
    assert [each.offset for each in render_frame(frame, 3)] == [10, 11, 12]
    assert list(render_frame(frame, 13)) == []


def test_headers_that_are_no_object_of_strings_are_not_shown():
    messages = rendered([b"1"] * 4, headers=[b"[]", b"{", b'{"a":1,"b":"2"}', None])
    assert [each["headers"] for each in messages] == [{}, {}, {"b": "2"}, {}]


def test_a_null_key_is_null_and_an_empty_one_is_not():
    assert [each["key"] for each in rendered([b"1", b"1"], keys=[None, b""])] == [None, ""]


def test_without_a_gatekeepers_word_the_principal_is_null():
    (message,) = rendered([b"1"], principal=None)
    assert message["principal"] is None


def test_a_body_that_is_not_what_its_sender_hashed_is_never_shown():
    frame = stamped([b"1", b"2"])
    body = bytearray(frame.body)
    body[-8] ^= 1
    with pytest.raises(HashMismatch):
        list(render_frame(Frame(frame.envelope, bytes(body))))


def test_a_frame_without_the_logs_stamp_has_no_offsets_to_show():
    part = stamped([b"1"]).envelope.producer
    plain = decode_frame(encode_frame(part, encode_body(array("q", [0]), [b"1"])))
    with pytest.raises(ValueError, match="stamp"):
        list(render_frame(plain))


@given(st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)))  # noqa: DTZ001 - a zone is added
def test_times_are_rfc_3339_in_utc_with_microseconds(naive):
    moment = naive.replace(tzinfo=UTC)
    micros = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    text = render_time(micros).decode()
    assert len(text) == 27
    assert text.endswith("Z")
    assert datetime.fromisoformat(text) == moment


@pytest.mark.parametrize(
    ("event_us", "text"),
    [(-(2**63), b"0001-01-01T00:00:00.000000Z"), (2**63 - 1, b"9999-12-31T23:59:59.999999Z")],
)
def test_times_that_no_calendar_can_write_are_shown_as_the_nearest_that_it_can(event_us, text):
    assert render_time(event_us) == text


def test_a_number_beyond_every_double_is_delivered_as_it_was_written():
    (rendering,) = render_frame(stamped([b'{"n":1e400}']), 0)
    assert b'"message":{"n":1e400},' in rendering.envelope


def test_many_messages_are_rendered_as_each_alone_would_be():
    values = [b'{"a":1}', b"[1,\n2]", b"{broken", b"\xff", '"é"'.encode(), b"1", b"", b'"\\u0000"']
    frame = stamped(values, base_offset=10, times=list(range(0, 8_000_000, 1_000_000)))
    together = spell_frame(frame, range(10, 18))
    alone = [spell_frame(frame, [offset])[0] for offset in range(10, 18)]
    assert together == alone
    assert spell_frame(frame, [11, 14, 17]) == [alone[1], alone[4], alone[7]]
    assert all("\n" not in line for line in together)
    assert json.loads(together[4].encode("latin-1"))["message"] == "é"


@pytest.mark.parametrize(
    "values",
    [
        [b'{"a":1', b'"b":2}'],
        [b"1,2", b"[3", b"4]"],
        [b'1,"principal":"root"', b"1"],
        [b'"x","principal":"root","message":"y"', b"1"],
        [b'"\xc3', b'\xa9"'],
    ],
)
def test_payloads_that_are_json_only_together_are_none(values):
    for line in spell_frame(stamped(values), range(len(values))):
        shown = json.loads(line.encode("latin-1"))
        assert shown["principal"] == "app"
        assert "message" not in shown or shown["message"] in (1, 2)


def test_a_redelivery_says_which_attempt_it_is():
    first, second = spell_frame(stamped([b"1", b"2"]), range(2), {1: 2})
    assert "attempt" not in json.loads(first)
    assert json.loads(second)["attempt"] == 3


def test_no_offsets_are_no_lines():
    assert spell_frame(stamped([b"1"]), range(0)) == []


@given(
    st.lists(
        st.binary(max_size=12)
        | st.text(max_size=8).map(lambda t: json.dumps(t).encode())
        | st.integers().map(lambda n: b"%d" % n),
        min_size=1,
        max_size=8,
    )
)
def test_whatever_was_sent_comes_out_as_one_line_of_json_that_holds_it(values):
    frame = stamped(values)
    for value, line in zip(values, spell_frame(frame, range(len(values))), strict=True):
        encoded = line.encode("latin-1")
        assert b"\n" not in encoded
        shown = json.loads(encoded)
        if "message" in shown:
            assert shown["message"] == json.loads(value)
        else:
            assert base64.b64decode(shown["data_base64"]) == value
        assert shown["principal"] == "app"
