"""Requests at the edge of a limit or of an encoding: both HTTP paths judge them alike."""

import asyncio
import contextlib

import pytest
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_parser import HttpRequestParser
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sidecar.api.fast_head import parse_head
from sidecar.api.guard import Guard
from sidecar.api.http_publish import make_patience
from sidecar.config import LimitsConfig
from sidecar.publish.batch import Ack

PLAIN = b"POST /publish HTTP/1.1\r\nHost: localhost:9000\r\nContent-Length: 27"
BODY = b'{"topic":"t","message":123}'
INSERTED = [
    b"", b"\r", b"\n", b"\r\n", b" ", b"\t", b":", b"\0", b",", b"0", b"\x80", b"?", b"&", b"#",
    b";", b"//", b"[", b"\x7f", b"%20", b"HTTP/1.1", b"\r\nX: y", b"\r\nContent-Length: 3",
    b"\r\nTransfer-Encoding: chunked", b"\r\nConnection: close", b"?ack=core", b"timeout_ms=5",
]  # fmt: skip
EDITS = st.lists(
    st.tuples(st.integers(0, len(PLAIN)), st.sampled_from(INSERTED), st.integers(0, 3)), max_size=3
)


@settings(max_examples=400, deadline=None)
@given(EDITS)
@example([])
@example([(13, b"?ack=core", 0)])
def test_what_the_fast_path_accepts_aiohttp_reads_in_the_same_way(edits) -> None:
    head = PLAIN
    for at, text, removed in edits:
        head = head[:at] + text + head[at + removed :]
    plan = parse_head(head, Guard(), 1000, make_patience(30.0, 300.0))
    if plan is None or b"\r\n\r\n" in head:
        return
    loop = asyncio.new_event_loop()
    try:
        parser = HttpRequestParser(BaseProtocol(loop), loop, 2**16)
        whole = head + b"\r\n\r\n" + b"x" * plan.content_length
        ((message, payload),), upgraded, rest = parser.feed_data(whole)
    finally:
        loop.close()
    assert (message.method, message.url.path, upgraded, rest) == ("POST", "/publish", False, b"")
    assert (message.chunked, message.should_close, message.compression) == (False, False, None)
    assert plan.content_length == 0 or payload.is_eof(), "the same bytes are the body"
    asked = message.url.query
    assert Ack(asked.get("ack", "auto")) is plan.ack
    assert float(asked.get("timeout_ms", 30_000)) / 1000 == plan.timeout_s


def with_field(field: bytes) -> bytes:
    return PLAIN + b"\r\n" + field + b"\r\n\r\n" + BODY


CHUNKED = b"POST /publish HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
REQUESTS = {
    "plain": PLAIN + b"\r\n\r\n" + BODY,
    "a chunked body": CHUNKED + b"1b\r\n" + BODY + b"\r\n0\r\n\r\n",
    "a length and chunks": with_field(b"Transfer-Encoding: chunked"),
    "two lengths": with_field(b"Content-Length: 5"),
    "a foreign host": (PLAIN + b"\r\n\r\n" + BODY).replace(b"localhost:9000", b"evil.example"),
    "a host with a port of many digits": with_field(b"X: 1").replace(b":9000", b":" + b"9" * 5000),
    "a foreign page": with_field(b"Origin: https://evil.example"),
    "two origins": with_field(b"Origin: http://localhost\r\nOrigin: https://evil.example"),
    "a target with a host": (PLAIN + b"\r\n\r\n" + BODY).replace(b"/pub", b"http://localhost/pub"),
    "a bad parameter": (PLAIN + b"\r\n\r\n" + BODY).replace(b"/publish", b"/publish?ack=x"),
    "a head that is too long": with_field(b"X-Pad: " + b"x" * 40_000),
    "a folded header": with_field(b"X-A: 1\r\n b"),
    "a space before the colon": with_field(b"X-A : b"),
    "a zero byte": with_field(b"X-A: \0"),
    "an expectation": with_field(b"Expect: 100-continue"),
    "a wish to close": with_field(b"Connection: close"),
    "HTTP/1.0": (PLAIN + b"\r\n\r\n" + BODY).replace(b"HTTP/1.1", b"HTTP/1.0"),
    "a TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
}


async def test_the_fast_path_and_aiohttp_answer_every_odd_request_alike(mesh) -> None:
    sidecar = await mesh.sidecar()
    port = sidecar.assembly.site.port
    # A connection whose first request is another one belongs to aiohttp from there on.
    first = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    for name, request in REQUESTS.items():
        before = len(mesh.log.values("t"))
        fast = await statuses(port, request)
        between = len(mesh.log.values("t"))
        ordinary = await statuses(port, first, request)
        assert fast == ordinary[1:], name
        assert between - before == len(mesh.log.values("t")) - between, name
        assert fast, name


async def statuses(port: int, *requests: bytes) -> list[bytes]:
    """The statuses of the answers, each request sent after the answer to the one before."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    found: list[bytes] = []
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        for request in requests:
            writer.write(request)
            status = b"100"
            while status == b"100":
                head = await reader.readuntil(b"\r\n\r\n")
                status = head.split(b" ")[1]
                found.append(status)
                _, there, rest = head.lower().partition(b"content-length: ")
                await reader.readexactly(int(rest.partition(b"\r\n")[0]) if there else 0)
    writer.close()
    return found


EVENT = (
    b"ce-specversion: 1.0\r\nce-id: %s\r\nce-source: %s\r\nce-type: t\r\nce-partitionkey: %s\r\n"
)


async def test_header_bytes_that_are_not_utf8_are_400_and_the_next_message_goes_through(
    mesh,
) -> None:
    sidecar = await mesh.sidecar()
    begin = b"POST /publish/t HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n"
    for values in ((b"\xff", b"s", b"k"), (b"i", b"\xff", b"k"), (b"i", b"s", b"\xff")):
        request = begin + EVENT % values + b"\r\n{}"
        assert await statuses(sidecar.assembly.site.port, request) == [b"400"], values
    assert mesh.log.values("t") == []
    assert (await sidecar.publish({"topic": "t", "message": 1}, timeout_ms=5000))[0] == 200


SMALL = LimitsConfig(message_bytes_max=1000, ring_bytes_max=100_000)


@pytest.mark.parametrize(("size", "status"), [(1000, 200), (1001, 413)])
async def test_the_limit_on_a_message_is_the_same_on_every_way_in(mesh, size, status) -> None:
    sidecar = await mesh.sidecar(limits=SMALL)
    value = '"' + "x" * (size - 2) + '"'
    event = '{"specversion":"1.0","id":"1","source":"s","type":"t","data":' + value + "}"
    ways = {
        "/publish": ('{"topic":"t","message":' + value + "}", "application/json"),
        "/publish/t": (value, "application/json"),
        "/publish/t?key=event": (event, "application/cloudevents+json"),
        "/publish/t/batch": ('[{"message":' + value + "}]", "application/json"),
        "/publish/t/lines": (value, "text/plain"),
    }
    for path, (body, kind) in ways.items():
        async with sidecar.client.post(
            sidecar.base + path, data=body, headers={"Content-Type": kind}
        ) as response:
            assert response.status == status, path
    async with sidecar.client.ws_connect(f"{sidecar.base}/publish/t/stream") as socket:
        await socket.send_str(value)
        answer = await socket.receive()
        if status == 200:
            assert answer.json()["durability"] == "committed"
        else:
            assert answer.data == 1009, "the close code for a message that is too big"
    assert len(mesh.log.values("t")) == (6 if status == 200 else 0)
