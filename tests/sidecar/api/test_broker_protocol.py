"""Go-Broker's protocol, byte by byte."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.api.broker_protocol import BadLine, BrokerParser, Fetch, Pub, err, msg, ok

TOPICS = st.from_regex(r"[a-z][a-z0-9.]{0,20}", fullmatch=True)
COMMANDS = st.one_of(
    st.builds(Pub, TOPICS, st.binary(max_size=64)),
    st.builds(Fetch, TOPICS, st.integers(0, 2**60)),
)


def encode(command, end=b"\r\n", tail=b""):
    if isinstance(command, Fetch):
        return b"FETCH %s %d%s" % (command.topic.encode(), command.offset, end)
    head = b"PUB %s %d%s" % (command.topic.encode(), len(command.payload), end)
    return head + command.payload + tail


def drain(parser):
    found = []
    while (command := parser.next()) is not None:
        found.append(command)
    return found


@given(st.lists(COMMANDS, max_size=8), st.sampled_from([b"\r\n", b"\n"]), st.integers(1, 7))
def test_commands_come_out_as_they_went_in_however_the_bytes_are_cut(commands, end, step):
    # A payload's own line end is ambiguous with one that is skipped, so each gets one.
    data = b"".join(encode(command, end, b"\r\n") for command in commands)
    parser, found = BrokerParser(1024), []
    for at in range(0, len(data), step):
        parser.feed(data[at : at + step])
        found += drain(parser)
    assert found == commands


def test_commands_may_follow_a_payload_with_no_line_end_between():
    parser = BrokerParser(1024)
    parser.feed(b"PUB t 3\r\nabcPUB t 2\r\nxyFETCH t 0\r\n")
    assert drain(parser) == [Pub("t", b"abc"), Pub("t", b"xy"), Fetch("t", 0)]


@pytest.mark.parametrize("tail", [b"\r\n", b"\n"])
def test_one_line_end_behind_a_payload_is_skipped_and_a_second_one_is_a_bad_line(tail):
    parser = BrokerParser(1024)
    parser.feed(b"PUB t 3\nabc" + tail + b"FETCH t 1\n")
    assert drain(parser) == [Pub("t", b"abc"), Fetch("t", 1)]
    parser = BrokerParser(1024)
    parser.feed(b"PUB t 3\nabc" + tail + tail)
    assert parser.next() == Pub("t", b"abc")
    with pytest.raises(BadLine):
        parser.next()


def test_a_payload_is_answered_without_waiting_for_what_may_follow_it():
    parser = BrokerParser(1024)
    parser.feed(b"PUB t 0\r\n")
    assert parser.next() == Pub("t", b"")
    assert parser.next() is None


@pytest.mark.parametrize(
    "line",
    [
        b"GET / HTTP/1.1\r\n",
        b"POST /publish HTTP/1.1\r\n",
        b"pub t 1\r\n",
        b"PUB t -1\r\n",
        b"PUB t 1 2\r\n",
        b"PUB  t 1\r\n",
        b"PUB t\r\n",
        b"FETCH t x\r\n",
        b"\r\n",
        b"PUB t 99999999999\r\n",
    ],
)
def test_anything_else_is_a_bad_line(line):
    parser = BrokerParser(1024)
    parser.feed(line)
    with pytest.raises(BadLine):
        parser.next()


def test_a_payload_over_the_limit_is_refused_before_it_is_sent():
    parser = BrokerParser(1024)
    parser.feed(b"PUB t 1025\r\n")
    with pytest.raises(BadLine, match="1024"):
        parser.next()


def test_a_line_that_does_not_end_is_refused_at_its_limit():
    parser = BrokerParser(1024)
    parser.feed(b"PUB " + b"a" * 600)
    with pytest.raises(BadLine):
        parser.next()


def test_answers_are_exactly_these_bytes():
    assert ok(7) == b"OK 7\r\n"
    assert msg(7, b"a\r\n") == b"MSG 7 3\r\na\r\n"
    assert err("code", "two\r\nlines") == b"ERR code two lines\r\n"
    assert len(err("code", "x" * 5000)) <= 512
