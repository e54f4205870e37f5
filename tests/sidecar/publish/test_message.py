"""What an app may publish, field by field, and the record that comes out."""

import base64
import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.errors import BadMessage, SidecarError, TooLarge
from sidecar.publish.message import (
    CONTENT_TYPE_BYTES_MAX,
    HEADERS_BYTES_MAX,
    ID_BYTES_MAX,
    KEY_BYTES_MAX,
    Message,
    encode_headers,
    event_time_us,
    is_json_type,
    parse_batch,
    parse_publish,
)

NOW_US = 1_700_000_000_000_000
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def parse(document, message_bytes_max=1000):
    return parse_publish(json.dumps(document).encode(), NOW_US, message_bytes_max)


def test_the_least_that_can_be_published_is_a_topic_and_a_message():
    assert parse({"topic": "orders", "message": None}) == Message("orders", b"null", NOW_US)


def test_a_message_is_kept_byte_for_byte():
    body = b'{"topic":"t","message": {"b" : 1.50,\n "a":[ ] , "n":12345678901234567890123} }'
    expected = b'{"b" : 1.50,\n "a":[ ] , "n":12345678901234567890123}'
    assert parse_publish(body, NOW_US, 1000).value.strip() == expected


def test_every_field_finds_its_place_in_the_record():
    message = parse(
        {
            "topic": "orders.created",
            "message": {"a": 1},
            "content_type": "application/cloudevents+json",
            "key": "käse",
            "headers": {"trace": "ä"},
            "id": "mine",
            "timestamp": "1970-01-01T00:00:01Z",
        }
    )
    assert message == Message(
        "orders.created",
        b'{"a": 1}',
        1_000_000,
        "käse".encode(),
        b"mine",
        b"application/cloudevents+json",
        '{"trace":"ä"}'.encode(),
    )


def test_an_empty_key_is_a_key_and_an_empty_id_is_none():
    message = parse({"topic": "t", "message": 1, "key": "", "id": "", "headers": {}})
    assert message.key == b""
    assert message.id is None
    assert message.headers is None


@pytest.mark.parametrize(
    ("content_type", "stored"), [(None, b"application/octet-stream"), ("text/plain", b"text/plain")]
)
def test_data_in_base64_is_stored_as_the_bytes_with_their_type(content_type, stored):
    data = base64.b64encode(b"\x00\xff").decode()
    document = {"topic": "t", "data_base64": data}
    if content_type is not None:
        document["content_type"] = content_type
    message = parse(document)
    assert message.value == b"\x00\xff"
    assert message.content_type == stored


@given(st.binary(max_size=200))
def test_any_bytes_can_be_published(value):
    document = {"topic": "t", "data_base64": base64.b64encode(value).decode()}
    assert parse(document).value == value


@given(json_values)
def test_any_json_value_can_be_published(value):
    assert json.loads(parse({"topic": "t", "message": value}, 10**6).value) == value


BAD = {
    "topic": {"topic": "_system", "message": 1},
    "data_base64": {"topic": "t", "data_base64": "a"},
    "message": {"topic": "t"},
    "content_type: must be a JSON": {"topic": "t", "message": 1, "content_type": "text/csv"},
    "content_type: must be a media": {"topic": "t", "data_base64": "", "content_type": ""},
    "content_type: must be a media type": {
        "topic": "t",
        "data_base64": "",
        "content_type": "text/plain\r\nX-Evil: 1",
    },
    "content_type: is longer": {
        "topic": "t",
        "data_base64": "",
        "content_type": "a" * (CONTENT_TYPE_BYTES_MAX + 1),
    },
    "key: has": {"topic": "t", "message": 1, "key": "ä" * (KEY_BYTES_MAX // 2 + 1)},
    "id: has": {"topic": "t", "message": 1, "id": "i" * (ID_BYTES_MAX + 1)},
    "headers: have": {"topic": "t", "message": 1, "headers": {"h": "x" * HEADERS_BYTES_MAX}},
    "timestamp: has no time zone": {"topic": "t", "message": 1, "timestamp": "2026-01-01T00:00"},
    "timestamp: 'soon'": {"topic": "t", "message": 1, "timestamp": "soon"},
    "unknown field `nope`; a message has topic, message, data_base64": {"topic": "t", "nope": 1},
    "$.key": {"topic": "t", "message": 1, "key": 5},
    "must be a JSON object": [],
}


@pytest.mark.parametrize("names", BAD, ids=str)
def test_what_breaks_a_rule_is_refused_with_the_name_of_the_field(names):
    with pytest.raises(BadMessage) as caught:
        parse(BAD[names])
    assert names in str(caught.value)


def test_limits_hold_to_the_byte():
    document = {
        "topic": "t",
        "message": 1,
        "key": "k" * KEY_BYTES_MAX,
        "id": "i" * ID_BYTES_MAX,
        "content_type": "application/" + "j" * (CONTENT_TYPE_BYTES_MAX - 17) + "+json",
        "headers": {"h": "x" * (HEADERS_BYTES_MAX - len('{"h":""}'))},
    }
    message = parse(document)
    assert len(message.headers or b"") == HEADERS_BYTES_MAX
    assert len(message.content_type or b"") == CONTENT_TYPE_BYTES_MAX
    assert message.size == 1 + KEY_BYTES_MAX + ID_BYTES_MAX + CONTENT_TYPE_BYTES_MAX + (
        HEADERS_BYTES_MAX
    )


def test_a_message_over_the_limit_is_too_large_and_names_limit_and_size():
    assert parse({"topic": "t", "message": "x" * 8}, 10).value == b'"xxxxxxxx"'
    with pytest.raises(TooLarge, match=r"11 bytes; limits\.message_bytes_max is 10"):
        parse({"topic": "t", "message": "x" * 9}, 10)
    with pytest.raises(TooLarge):
        parse({"topic": "t", "data_base64": base64.b64encode(b"x" * 11).decode()}, 10)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff",
        b'{"topic":"t","message":1} trailing',
        b'{"topic":"t","message":"\xff"}',
        b'{"topic":"t","message":' + b"[" * 100_000,
        b'{"topic":"t","message":NaN}',
    ],
    ids=["nothing", "no text", "more behind it", "not UTF-8", "too deep", "no JSON number"],
)
def test_what_is_not_json_is_refused(body):
    with pytest.raises(BadMessage, match="body: "):
        parse_publish(body, NOW_US, 10**6)


@given(st.binary(max_size=60) | st.binary(max_size=30).map(lambda body: b'{"topic":"t"' + body))
def test_no_bytes_at_all_make_it_fail_otherwise(body):
    try:
        message = parse_publish(body, NOW_US, 1000)
    except SidecarError:
        return
    assert message.topic == "t"


def test_a_bad_topic_is_named_as_the_field_for_programs_too():
    with pytest.raises(BadMessage) as caught:
        parse({"topic": "a b", "message": 1})
    assert caught.value.members == {"field": "topic"}


@given(
    st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)),  # noqa: DTZ001 - zones are added
    st.integers(-14 * 60, 14 * 60),
)
def test_event_times_keep_every_microsecond_in_every_time_zone(naive, offset_minutes):
    moment = naive.replace(tzinfo=timezone(timedelta(minutes=offset_minutes)))
    micros = event_time_us(moment.isoformat())
    assert datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros) == moment


@pytest.mark.parametrize(
    ("content_type", "answer"),
    [
        (b"application/json", True),
        (b"Application/JSON; charset=utf-8", True),
        (b"text/json", True),
        (b"application/problem+json", True),
        (b"application/jsonl", False),
        (b"text/plain; note=+json", False),
        (b"", False),
    ],
)
def test_json_types_are_told_by_name_or_suffix(content_type, answer):
    assert is_json_type(content_type) is answer


def test_headers_are_compact_json_and_none_of_them_is_null():
    assert encode_headers({"a": "1", "b": ""}) == b'{"a":"1","b":""}'
    assert encode_headers({}) is None
    assert encode_headers(None) is None


def batch(body, message_bytes_max=1000):
    return parse_batch("t", body, NOW_US, message_bytes_max)


def test_an_array_and_one_object_a_line_are_the_same_batch():
    items = [{"message": 1, "key": "a"}, {"data_base64": "AP8="}, {"topic": "t", "message": {}}]
    array = json.dumps(items).encode()
    lines = b"\n".join(json.dumps(item).encode() for item in items)
    assert batch(array) == batch(lines) == batch(lines + b"\r\n\n") == batch(b" \n" + array)
    assert [each.value for each in batch(array)] == [b"1", b"\x00\xff", b"{}"]
    assert {each.topic for each in batch(array)} == {"t"}


@pytest.mark.parametrize(
    ("items", "index", "names"),
    [
        ([{"message": 1}, {}], 1, "message"),
        ([{"nope": 1}], 0, "nope"),
        ([{"message": 1}, {"message": 1}, 5], 2, "object"),
        ([{"message": 1, "topic": "other"}], 0, "topic"),
        ([{"message": 1}, {"message": 1, "timestamp": "soon"}], 1, "timestamp"),
    ],
)
def test_one_bad_message_of_a_batch_is_named_by_its_index(items, index, names):
    lines = b"\n".join(json.dumps(item).encode() for item in items)
    for body in (json.dumps(items).encode(), lines):
        with pytest.raises(BadMessage, match=f"^message {index}: ") as caught:
            batch(body)
        assert names in str(caught.value)
        assert caught.value.members["index"] == index


def test_a_message_of_a_batch_that_is_too_large_is_named_by_its_index():
    with pytest.raises(TooLarge, match=r"^message 1: ") as caught:
        batch(b'[{"message":1},{"message":"xxxxxxxxxx"}]', 5)
    assert caught.value.members["index"] == 1


@pytest.mark.parametrize("body", [b"", b" \n\n", b"[]", b"[", b"[1,]", b'[{"message":"\xff"}]'])
def test_a_batch_that_is_none_is_refused(body):
    with pytest.raises(BadMessage):
        batch(body)
