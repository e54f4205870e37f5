"""The watch lets sound frames pass in any pieces, and stops the others at their begin."""

import os
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.api.strict_websocket import FrameWatch, Violation

LIMIT = 70_000


def frame(opcode, payload=b"", *, masked=True, declared=None):
    size = len(payload) if declared is None else declared
    bit = 0x80 if masked else 0
    if size < 126:
        head = struct.pack("!BB", 0x80 | opcode, bit | size)
    elif size < 65536:
        head = struct.pack("!BBH", 0x80 | opcode, bit | 126, size)
    else:
        head = struct.pack("!BBQ", 0x80 | opcode, bit | 127, size)
    if not masked:
        return head + payload
    mask = os.urandom(4)
    return head + mask + bytes(each ^ mask[at & 3] for at, each in enumerate(payload))


def close(code):
    return frame(8, struct.pack("!H", code))


SOUND = [
    frame(1, b""), frame(1, b"x" * 125), frame(2, b"x" * 126), frame(2, b"y" * 65536), frame(9),
    close(1000), close(1014), close(3000), close(4999), frame(8),
]  # fmt: skip


@given(st.lists(st.sampled_from(SOUND), max_size=5), st.lists(st.integers(1, 70_000), max_size=30))
def test_sound_frames_pass_in_any_pieces(frames, cuts):
    watch, data = FrameWatch(LIMIT), b"".join(frames)
    for cut in cuts:
        watch.feed(data[:cut])
        data = data[cut:]
    watch.feed(data)


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (frame(1, b"x", masked=False), 1002),
        (close(1004), 1002),
        (close(1005), 1002),
        (close(1006), 1002),
        (close(1015), 1002),
        (close(5000), 1002),
        (close(65535), 1002),
        (frame(2, b"", declared=LIMIT + 1), 1009),
        (frame(2, b"", declared=1 << 62), 1009),
    ],
)
@pytest.mark.parametrize("before", [[], [frame(1, b"good")], [frame(2, b"z" * 300), frame(9)]])
def test_a_bad_frame_is_found_where_it_begins(bad, code, before):
    good = b"".join(before)
    with pytest.raises(Violation) as caught:
        FrameWatch(LIMIT).feed(good + bad)
    assert (caught.value.code, caught.value.at) == (code, len(good))


@pytest.mark.parametrize("bad", [frame(1, b"x", masked=False), close(1006)])
def test_a_bad_frame_in_pieces_is_found_with_its_last_one(bad):
    watch = FrameWatch(LIMIT)

    def feed_all():
        for at in range(len(bad)):
            watch.feed(bad[at : at + 1])

    with pytest.raises(Violation) as caught:
        feed_all()
    assert caught.value.at == 0
