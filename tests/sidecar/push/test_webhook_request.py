"""A delivery: raw, envelope, CloudEvent; trace context; the same id each time."""

import json

import pytest

from sidecar.delivery.record import Record
from sidecar.publish.cloudevents import from_structured
from sidecar.push.webhook_request import (
    CLOUDEVENT,
    Occasion,
    delivery_body,
    delivery_headers,
    signature_headers,
    webhook_id,
)

FIRST = Occasion("mailer", 1, {})


def record(**changes):
    fields = {
        "topic": "orders", "partition": 0, "offset": 17, "event_us": 1, "id": "i-1", "key": None,
        "headers": None, "content_type": None, "value": b'{"n": 1}', "principal": "app",
    }  # fmt: skip
    return Record(**{**fields, **changes})


def test_raw_is_the_payload_with_its_type_and_its_headers_beside_it():
    png = record(value=b"\x89", content_type=b"image/png", key=b"k", headers=b'{"x":"y","b d":"z"}')
    assert delivery_body(png, "raw") == (b"\x89", "image/png")
    headers = delivery_headers(png, "raw", FIRST)
    assert headers["Sidegate-Header-x"] == "y"
    assert (headers["Sidegate-Key"], headers["Sidegate-Id"]) == ("k", "i-1")
    assert not any("b d" in name for name in headers)


def test_no_header_can_carry_a_line_end():
    evil = record(
        headers=json.dumps({"traceparent": "a\r\nX: y", "x": "a\nb", "a\r\n": "c"}).encode(),
        key=b"\r\nX: y",
        id="\r\nX: y",
    )
    for form in ("raw", "envelope", "cloudevent"):
        for name, value in delivery_headers(evil, form, FIRST).items():
            assert "\n" not in name + value
            assert "\r" not in name + value


def test_trace_context_travels_on():
    traced = record(headers=b'{"Traceparent":"00-a-b-01","tracestate":"x=1"}')
    headers = delivery_headers(traced, "envelope", FIRST)
    assert (headers["traceparent"], headers["tracestate"]) == ("00-a-b-01", "x=1")


def test_a_rerun_is_marked():
    occasion = Occasion("mailer", 1, {"Sidegate-Replay": "true"})
    assert delivery_headers(record(), "envelope", occasion)["Sidegate-Replay"] == "true"


@pytest.mark.parametrize(
    ("value", "content_type"),
    [(b'{"n": 1}', None), (b"\xff\x00", b"image/png"), (b"text", b"text/plain")],
)
def test_a_cloudevent_can_be_read_back(value, content_type):
    body, media = delivery_body(
        record(value=value, content_type=content_type, key=b"k"), "cloudevent"
    )
    assert media == CLOUDEVENT
    again = from_structured("orders", body, 0)
    assert (again.value, again.key, again.id) == (value, b"k", b"i-1")


def test_attributes_of_an_event_are_given_back():
    event = record(headers=b'{"ce-source":"/shop","ce-type":"order.new","ce-x":"1","ce-Y z":"2"}')
    document = json.loads(delivery_body(event, "cloudevent")[0])
    assert (document["source"], document["type"], document["x"]) == ("/shop", "order.new", "1")
    assert "Y z" not in document
    plain = json.loads(delivery_body(record(), "cloudevent")[0])
    assert (plain["source"], plain["type"]) == ("/topics/orders", "sidegate.message")


def test_the_id_is_the_messages_own_whatever_the_try():
    assert webhook_id(record()) == webhook_id(record(id="other"))
    assert webhook_id(record()) != webhook_id(record(offset=18))
    headers = signature_headers(record(), [], 1000, b"")
    assert headers == {"webhook-id": webhook_id(record()), "webhook-timestamp": "1000"}
    assert "webhook-signature" in signature_headers(record(), [bytes(32)], 1000, b"")
