"""Heads are as RFC 6455 has them, at every length at which they change."""

import pytest

from sidecar.delivery.websocket_frames import (
    BINARY,
    TEXT,
    binary_frame,
    head,
    spell_heads,
    text_frame,
)


@pytest.mark.parametrize(
    ("length", "expected"),
    [
        (0, "8100"),
        (125, "817d"),
        (126, "817e007e"),
        (65535, "817effff"),
        (65536, "817f0000000000010000"),
    ],
)
def test_lengths(length, expected):
    assert head(TEXT, length).hex() == expected
    assert head(BINARY, length)[1:] == head(TEXT, length)[1:]


def test_whole_messages():
    assert text_frame(b"ab") == b"\x81\x02ab"
    assert binary_frame(b"") == b"\x82\x00"


def test_many_messages_are_each_of_them_after_the_other():
    lines = ["a", "b" * 200, "é".encode().decode("latin-1"), "c" * 200]
    expected = b"".join(text_frame(line.encode("latin-1")) for line in lines)
    assert spell_heads(lines).encode("latin-1") == expected
    assert spell_heads([]) == ""
