"""CloudEvents 1.0: both modes of the HTTP binding give the same message."""

import json
from base64 import b64decode
from datetime import UTC, datetime
from urllib.parse import quote

import pytest
from cloudevents.core.bindings.http import (
    HTTPMessage,
    from_http_event,
    to_binary_event,
    to_structured_event,
)
from cloudevents.core.v1.event import CloudEvent

from sidecar.errors import BadMessage
from sidecar.publish.cloudevents import from_binary, from_structured, is_binary

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


class Client:
    """The CloudEvents SDK as its users use it: it makes the request, aiohttp sends it."""

    def __init__(self, sidecar):
        self._sidecar = sidecar

    async def send(self, message):
        url = f"{self._sidecar.base}/publish/events"
        headers = dict(message.headers)
        async with self._sidecar.client.post(
            # Other HTTP clients add no type of their own.
            url,
            data=message.body,
            headers=headers,
            skip_auto_headers=["Content-Type"],
        ) as response:
            return response.status, await response.json()


def sdk_event(**more):
    attributes = {
        "id": "A-1",
        "source": '/shop/é "x" 100%',
        "type": "order.placed",
        "time": datetime(2026, 1, 31, 12, 0, tzinfo=UTC),
        "subject": "order 101",
        "partitionkey": "k",
        **more,
    }
    return CloudEvent(attributes=attributes, data={"order_id": 101})


@pytest.mark.parametrize("encode", [to_binary_event, to_structured_event])
async def test_the_sdk_is_understood_as_it_is(mesh, encode):
    sidecar = await mesh.sidecar()
    status, answer = await Client(sidecar).send(encode(sdk_event()))
    assert (status, answer["id"]) == (200, "A-1")
    (message,) = (await sidecar.get("/messages/events"))[1]["messages"]
    assert message["message"] == {"order_id": 101}
    assert (message["id"], message["key"]) == ("A-1", "k")
    assert message["timestamp"] == "2026-01-31T12:00:00.000000Z"
    # Whoever reads it can make the event again.
    headers = {**message["headers"], "ce-id": message["id"], "content-type": "application/json"}
    encoded = {
        name: quote(value, safe="/:+") if name.startswith("ce-") else value
        for name, value in headers.items()
    }
    again = from_http_event(HTTPMessage(encoded, json.dumps(message["message"]).encode()))
    assert again.get_attributes() == sdk_event(datacontenttype="application/json").get_attributes()
    assert again.get_data() == {"order_id": 101}


@pytest.mark.parametrize("encode", [to_binary_event, to_structured_event])
async def test_the_sdks_bytes_and_text_arrive(mesh, encode):
    sidecar = await mesh.sidecar()
    for number, (kind, data) in enumerate(
        [("application/octet-stream", b"\x00\xff"), ("text/plain", "héllo")]
    ):
        attributes = {"id": f"i{number}", "source": "/s", "type": "t", "datacontenttype": kind}
        event = CloudEvent(attributes=attributes, data=data)
        assert (await Client(sidecar).send(encode(event)))[0] == 200
    found = (await sidecar.get("/messages/events"))[1]["messages"]
    assert [b64decode(each["data_base64"]) for each in found] == [b"\x00\xff", "héllo".encode()]
    assert [each["content_type"] for each in found] == ["application/octet-stream", "text/plain"]


@pytest.mark.parametrize("restart", [False, True])
async def test_the_same_id_of_another_source_is_another_event(mesh, restart):
    sidecar = await mesh.sidecar()
    for source in ("/one", "/two"):
        message = to_binary_event(sdk_event(source=source))
        assert (await Client(sidecar).send(message))[0] == 200
    if restart:
        mesh.sidecars.remove(sidecar)
        await sidecar.stop()
        sidecar = await mesh.sidecar()
    for number, source in enumerate(("/one", "/two")):
        status, answer = await Client(sidecar).send(to_structured_event(sdk_event(source=source)))
        assert (status, answer["offset"], answer["id"]) == (200, number, "A-1")
    assert len(mesh.log.values("events")) == 2
