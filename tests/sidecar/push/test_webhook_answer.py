"""An app's answer: status and end are found however it is cut into pieces."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.push.webhook_answer import BODY_BYTES_MAX, NotHttp, WebhookAnswer

LENGTH = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
CHUNKS = (
    b"HTTP/1.1 503 Busy\r\nTransfer-Encoding: chunked\r\nRetry-After: 7\r\n\r\n"
    b"5;x=y\r\nhello\r\n1\r\n!\r\n0\r\nTrailer: x\r\n\r\n"
)
CLOSE = b"HTTP/1.0 500 Oh\nServer: x\n\nno length"


def fed(*pieces):
    answer = WebhookAnswer()
    for piece in pieces:
        answer.feed(piece)
    return answer


def test_a_length_ends_it_and_the_connection_stays():
    answer = fed(LENGTH)
    assert (answer.status, answer.whole, answer.reusable) == (200, True, True)
    assert answer.excerpt == b"hello"


def test_the_last_chunk_ends_it():
    answer = fed(CHUNKS)
    assert (answer.status, answer.whole, answer.reusable) == (503, True, True)
    assert (answer.excerpt, answer.retry_after) == (b"hello!", "7")


def test_without_a_length_only_the_close_ends_it():
    answer = fed(CLOSE)
    assert (answer.status, answer.whole, answer.reusable) == (500, False, False)
    assert answer.excerpt == b"no length"


@pytest.mark.parametrize(
    ("head", "reusable"),
    [
        (b"HTTP/1.1 204 No Content\r\n\r\n", True),
        (b"HTTP/1.1 304 Same\r\nContent-Length: 7\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: Keep-Alive\r\n\r\n", True),
        (b"HTTP/1.1 100 Go on\r\n\r\nHTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", True),
    ],
)
def test_answers_without_a_body_are_whole(head, reusable):
    answer = fed(head)
    assert (answer.whole, answer.reusable) == (True, reusable)


@pytest.mark.parametrize(
    "data",
    [
        b"nonsense",
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 999 X\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000,
    ],
)
def test_what_is_no_answer_is_refused(data):
    with pytest.raises(NotHttp):
        fed(data)


def test_what_is_too_long_is_known_by_its_length_or_by_its_bytes():
    assert fed(b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n").too_long
    assert fed(b"HTTP/1.1 200 OK\r\n\r\n", bytes(BODY_BYTES_MAX + 1)).too_long
    many = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert fed(many + b"ffffff\r\n" + bytes(BODY_BYTES_MAX + 1)).too_long
    assert not fed(LENGTH).too_long


@given(st.sampled_from([LENGTH, CHUNKS, CLOSE]), st.lists(st.integers(0, 120), max_size=8))
def test_it_is_the_same_however_it_is_cut(data, cuts):
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    whole, pieces = fed(data), fed(*(data[a:b] for a, b in itertools.pairwise(places)))
    for name in ("status", "whole", "reusable", "excerpt", "retry_after"):
        assert getattr(whole, name) == getattr(pieces, name)


@given(st.binary(max_size=200))
def test_any_bytes_are_an_answer_or_refused(data):
    for prefix in (b"", b"HTTP/1.1 200 OK\r\n", LENGTH[:-5], CHUNKS[:80]):
        try:
            fed(prefix, data)
        except NotHttp:
            continue
