"""The fast path takes plain heads only; whatever is odd is left to aiohttp."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.api.fast_head import Plan, parse_head
from sidecar.api.guard import Guard
from sidecar.api.http_publish import make_patience
from sidecar.publish.batch import Ack

GOOD = b"POST /publish HTTP/1.1\r\nHost: localhost:9000\r\nContent-Length: 17"


def plan(head):
    return parse_head(head, Guard(), 1000, make_patience(30.0, 300.0))


def test_a_plain_head_is_taken():
    assert plan(GOOD) == Plan(17, Ack.AUTO, 30.0)


@pytest.mark.parametrize(
    "more",
    [
        b"User-Agent: curl/8\r\nAccept: */*",
        b"Content-Type: application/x-www-form-urlencoded",
        b"content-type:application/json",
        b"Connection: keep-alive",
        b"X-Anything: goes",
        b"Cookie: a=b",
    ],
)
def test_headers_that_change_nothing_are_ignored(more):
    assert plan(GOOD + b"\r\n" + more) == Plan(17, Ack.AUTO, 30.0)


def test_ack_and_timeout_are_read():
    head = GOOD.replace(b"/publish", b"/publish?ack=core&timeout_ms=2000")
    assert plan(head) == Plan(17, Ack.CORE, 2.0)


ODD = [
    GOOD.replace(b"POST", b"PUT"),
    GOOD.replace(b"POST", b"post"),
    GOOD.replace(b"/publish", b"/publish/t"),
    GOOD.replace(b"/publish", b"//publish"),
    GOOD.replace(b"/publish", b"http://localhost/publish"),
    GOOD.replace(b"HTTP/1.1", b"HTTP/1.0"),
    GOOD.replace(b"/publish", b"/publish?ack=maybe"),
    GOOD.replace(b"/publish", b"/publish?nope=1"),
    GOOD.replace(b"/publish", b"/publish?ack=core&ack=none"),
    GOOD.replace(b"/publish", b"/publish?ack=%63ore"),
    GOOD.replace(b"/publish", b"/publish?timeout_ms=999999999"),
    GOOD.replace(b"localhost:9000", b"evil.example"),
    GOOD.replace(b"Host: localhost:9000\r\n", b""),
    GOOD + b"\r\nHost: localhost",
    GOOD + b"\r\nContent-Length: 17",
    GOOD.replace(b"17", b"+17"),
    GOOD.replace(b"17", b"0x11"),
    GOOD.replace(b"17", b"17, 17"),
    GOOD.replace(b"17", b"1001"),
    GOOD.replace(b"17", b""),
    GOOD.replace(b"\r\nContent-Length: 17", b""),
    GOOD + b"\r\nTransfer-Encoding: chunked",
    GOOD + b"\r\nExpect: 100-continue",
    GOOD + b"\r\nContent-Encoding: gzip",
    GOOD + b"\r\nUpgrade: websocket",
    GOOD + b"\r\nConnection: close",
    GOOD + b"\r\nOrigin: https://evil.example",
    GOOD + b"\r\nOrigin: http://localhost:9000",
    GOOD + b"\r\nSec-Fetch-Site: cross-site",
    GOOD + b"\r\nAuthorization: Bearer x",
    GOOD + b"\r\nSidegate-Publisher: x",
    GOOD + b"\r\nce-id: 1",
    GOOD + b"\r\n folded",
    GOOD + b"\r\nBad Name: x",
    GOOD + b"\r\nName : x",
    GOOD + b"\r\n: x",
    GOOD + b"\r\nnocolon",
    GOOD + b"\r\nX: a\x00b",
    GOOD + b"\r\nX: a\nTransfer-Encoding: chunked",
    b"\r\n" + GOOD,
    b"",
]


@pytest.mark.parametrize("head", ODD)
def test_an_odd_head_is_left_to_aiohttp(head):
    assert plan(head) is None


@given(st.binary(max_size=200))
def test_any_bytes_are_judged_without_an_error(head):
    plan(head)
    plan(GOOD + b"\r\n" + head)


async def test_every_odd_head_gets_aiohttps_answer_and_publishes_nothing_smuggled(mesh):
    """The same bytes through a real socket: refused or served by aiohttp, never half of each."""
    import asyncio

    sidecar = await mesh.sidecar()
    body = b'{"topic":"smuggled","message":1}'
    for head in ODD:
        reader, writer = await asyncio.open_connection("127.0.0.1", sidecar.assembly.site.port)
        writer.write(head + b"\r\n\r\n" + body)
        writer.write_eof()
        async with asyncio.timeout(60):
            answer = await reader.read()
        assert b"\r\nHTTP/1.1 200" not in answer[1:]
        assert not answer.startswith(b"HTTP/1.1 200") or b'"offset"' not in answer, head
        writer.close()
    assert ("smuggled", 0) not in mesh.log.frames
