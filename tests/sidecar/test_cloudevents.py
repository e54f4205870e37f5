"""CloudEvents 1.0: both modes of the HTTP binding give the same message."""

import json

import pytest

from sidecar.cloudevents import from_binary, from_structured, is_binary
from sidecar.errors import BadMessage

ATTRIBUTES = {"specversion": "1.0", "id": "a-1", "source": "/shop", "type": "order.placed"}


def binary(body=b'{"a":1}', content_type="application/json", **more):
    headers = {f"ce-{name}": value for name, value in {**ATTRIBUTES, **more}.items()}
    return from_binary("t", {**headers, "Content-Type": content_type}, body, 7)


def structured(**members):
    return from_structured("t", json.dumps({**ATTRIBUTES, **members}).encode(), 7)


def test_both_modes_make_the_same_message():
    more = {"time": "2026-01-01T00:00:00Z", "subject": "s", "partitionkey": "k"}
    left = binary(**more)
    right = structured(datacontenttype="application/json", data={"a": 1}, **more)
    assert json.loads(left.value) == json.loads(right.value) == {"a": 1}
    assert left[2:] == right[2:]
    assert (left.id, left.key, left.event_us) == (b"a-1", b"k", 1767225600000000)
    assert json.loads(left.headers) == {
        "ce-specversion": "1.0",
        "ce-source": "/shop",
        "ce-type": "order.placed",
        "ce-time": "2026-01-01T00:00:00Z",
        "ce-subject": "s",
        "ce-partitionkey": "k",
    }


def test_without_a_time_the_event_is_of_now():
    assert binary().event_us == 7


@pytest.mark.parametrize(
    ("members", "value", "content_type"),
    [
        (
            {"data": {"big": 12345678901234567890}},
            b'{"big": 12345678901234567890}',
            b"application/json",
        ),
        ({"data": "hi", "datacontenttype": "text/plain"}, b"hi", b"text/plain"),
        ({"data_base64": "AAH/", "datacontenttype": "image/png"}, b"\x00\x01\xff", b"image/png"),
        ({}, b"null", b"application/json"),
    ],
)
def test_structured_data_keeps_its_bytes_and_its_type(members, value, content_type):
    message = structured(**members)
    assert (message.value, message.content_type) == (value, content_type)


@pytest.mark.parametrize("missing", sorted(ATTRIBUTES))
def test_a_required_attribute_that_is_missing_is_named(missing):
    rest = {name: value for name, value in ATTRIBUTES.items() if name != missing}
    with pytest.raises(BadMessage, match=f"^{missing}:"):
        from_structured("t", json.dumps(rest).encode(), 7)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"[]", "body"),
        (b"{", "body"),
        (json.dumps({**ATTRIBUTES, "specversion": "0.3"}).encode(), "specversion"),
        (json.dumps({**ATTRIBUTES, "data": 1, "data_base64": ""}).encode(), "data_base64"),
        (json.dumps({**ATTRIBUTES, "data_base64": "?"}).encode(), "data_base64"),
        (json.dumps({**ATTRIBUTES, "time": "soon"}).encode(), "time"),
        (json.dumps({**ATTRIBUTES, "ext": {"a": 1}}).encode(), "ext"),
    ],
)
def test_what_is_no_event_is_refused_with_the_member_at_fault(body, field):
    with pytest.raises(BadMessage, match=f"^{field}:"):
        from_structured("t", body, 7)


def test_header_values_are_percent_decoded():
    assert json.loads(binary(subject="caf%C3%A9").headers)["ce-subject"] == "café"


def test_binary_mode_is_known_by_its_version_header():
    assert is_binary({"ce-specversion": "1.0"})
    assert not is_binary({"Content-Type": "application/json"})
