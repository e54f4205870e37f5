"""One answer from bytes in pieces of any size; two meanings are never one answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.uplink.answer_parser import (
    ANSWER_BYTES_MAX,
    HEAD_BYTES_MAX,
    Answer,
    AnswerParser,
    BadHttp,
)

bodies = st.binary(max_size=200)


def with_length(body, head=b""):
    return b"HTTP/1.1 200 OK\r\n%sContent-Length: %d\r\n\r\n%s" % (head, len(body), body)


def in_chunks(pieces, trailers=b""):
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(each), each) for each in pieces if each)
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%s0\r\n%s\r\n" % (
        chunks,
        trailers,
    )


def feed(data, cuts=()):
    """The answer, and how many bytes were needed for it."""
    parser, at = AnswerParser(), 0
    for end in [*sorted(cut % (len(data) + 1) for cut in cuts), len(data)]:
        answer = parser.feed(data[at:end]) if end > at else None
        if answer is not None:
            assert end == len(data)
            return answer
        at = max(at, end)
    return None


@given(bodies, st.lists(st.integers(0, 400), max_size=6))
def test_an_answer_with_a_length_is_whole_at_its_last_byte_and_not_before(body, cuts):
    answer = feed(with_length(body), cuts)
    assert answer is not None
    assert (answer.status, answer.body, answer.reusable) == (200, body, True)


@given(st.lists(bodies, max_size=5), st.lists(st.integers(0, 900), max_size=6))
def test_an_answer_in_chunks_is_put_together_and_whole_behind_the_last(pieces, cuts):
    answer = feed(in_chunks(pieces), cuts)
    assert answer is not None
    assert (answer.body, answer.reusable) == (b"".join(pieces), True)


def test_trailers_are_read_and_left_out():
    answer = feed(in_chunks([b"ab"], b"X-Check: 1\r\n"))
    assert answer is not None
    assert answer.body == b"ab"
    assert "x-check" not in answer.headers


def test_header_names_are_in_lower_case_and_values_without_white_space():
    answer = feed(with_length(b"", b"Retry-After: \t7 \r\nX-A:b\r\n"))
    assert answer is not None
    assert (answer.headers["retry-after"], answer.headers["x-a"]) == ("7", "b")


def test_interim_answers_are_passed_over():
    answer = feed(
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nA: b\r\n\r\n" + with_length(b"x")
    )
    assert answer is not None
    assert (answer.status, answer.body) == (200, b"x")


def test_204_has_no_body_whatever_its_headers_say():
    answer = feed(b"HTTP/1.1 204 No Content\r\n\r\n")
    assert answer is not None
    assert (answer.status, answer.body, answer.reusable) == (204, b"", True)


def test_an_answer_without_a_length_is_whole_when_the_connection_ends_and_never_reused():
    parser = AnswerParser()
    assert parser.feed(b"HTTP/1.1 200 OK\r\n\r\nab") is None
    assert parser.feed(b"cd") is None
    assert parser.end() == Answer(200, {}, b"abcd", reusable=False)


def test_a_connection_that_is_to_be_closed_is_not_reused():
    answer = feed(with_length(b"x", b"Connection: Close\r\n"))
    assert answer is not None
    assert not answer.reusable


@pytest.mark.parametrize(
    "data", [b"", b"HTTP/1.1 200 OK\r\n", with_length(b"abc")[:-1], in_chunks([b"abc"])[:-1]]
)
def test_a_connection_that_ends_too_early_gives_no_answer(data):
    parser = AnswerParser()
    assert parser.feed(data) is None
    assert parser.end() is None


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.0 200 OK\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"HTTP/1.1 999 No\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nNo Colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nSpace : x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: b\r\n folded\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: \x00\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (ANSWER_BYTES_MAX + 1),
        with_length(b"x") + b"y",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n",
        b"A" * (HEAD_BYTES_MAX + 1),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * (HEAD_BYTES_MAX + 1),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"a" * (HEAD_BYTES_MAX + 1),
    ],
)
def test_what_is_malformed_ambiguous_or_endless_is_refused(data):
    with pytest.raises(BadHttp):
        AnswerParser().feed(data)


def test_an_endless_body_without_a_length_is_cut_off():
    parser = AnswerParser()
    parser.feed(b"HTTP/1.1 200 OK\r\n\r\n")
    piece = bytes(ANSWER_BYTES_MAX // 2)
    parser.feed(piece)
    parser.feed(piece)
    with pytest.raises(BadHttp, match="over"):
        parser.feed(b"x")


@given(st.binary(max_size=80) | st.binary(max_size=40).map(lambda b: b"HTTP/1.1 200 OK\r\n" + b))
def test_no_bytes_make_it_fail_otherwise(data):
    try:
        answer = AnswerParser().feed(data)
    except BadHttp:
        return
    assert answer is None or 200 <= answer.status <= 599


@pytest.mark.parametrize(("body", "document"), [(b'{"a":1}', {"a": 1}), (b"<html>", None)])
def test_a_body_is_a_document_where_it_is_json(body, document):
    assert Answer(200, {}, body).document() == document
