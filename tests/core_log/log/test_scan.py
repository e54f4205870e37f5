"""Walking over a segment without an index, and past damage to the next believable frame."""

import errno
from random import Random
from typing import Any

import pytest

from core_log.log.scan import AHEAD_BYTES, Bad, BadBody, Sound, Window, scan
from log_format.envelope import Codec, add_stamp, without_body
from log_format.parts import Stamp


@pytest.fixture
def stamped(frames: Any) -> Any:
    """Makes frames as they lie in the log."""

    def make(
        leaf: int, values: Any = (b"value",), *, bodiless: bool = False, **kwargs: Any
    ) -> bytes:
        frame = frames.frame("orders", values, **kwargs)
        envelope = add_stamp(frame.envelope.raw, Stamp(leaf, leaf, 1, 0))
        if bodiless:
            return without_body(envelope)
        padding = -len(frame.body) % 8
        return envelope + bytes(frame.body) + bytes(padding)

    return make


def window_of(data: bytes) -> Window:
    return Window(lambda position, length: data[position : position + length], len(data))


def scan_all(data: bytes, begin: int = 0, leaf: int = 0) -> Any:
    return list(scan(window_of(data), begin, leaf))


def test_sound_frames_come_one_by_one(stamped: Any) -> None:
    data = [stamped(0), stamped(1, bodiless=True), stamped(2, [b"x" * 1000])]
    items = scan_all(b"".join(data))
    assert [type(item) for item in items] == [Sound] * 3
    assert [item.position for item in items] == [0, len(data[0]), len(data[0]) + len(data[1])]
    assert [item.envelope.stamp.leaf for item in items] == [0, 1, 2]
    assert items[-1].end == sum(map(len, data))


@pytest.mark.parametrize("begin", [0, 64, 4096])
def test_a_scan_may_begin_anywhere(stamped: Any, begin: Any) -> None:
    assert isinstance(scan_all(bytes(begin) + stamped(5), begin, 5)[0], Sound)


def test_damage_in_an_envelope_costs_that_frame_alone(stamped: Any) -> None:
    first, second, third = stamped(0), stamped(1), stamped(2)
    for position in range(0, len(second) - 200, 8):
        damaged = bytearray(second)
        damaged[position] ^= 0x10
        items = scan_all(first + damaged + third)
        assert [type(item) for item in items] in (
            [Sound, Bad, Sound],
            [Sound, BadBody, Sound],
        )
        assert items[1].position == len(first)
        assert items[1].end == len(first) + len(second) == items[2].position


def test_a_damaged_body_leaves_the_envelope_readable(stamped: Any) -> None:
    damaged = bytearray(stamped(1, [b"value" * 20]))
    damaged[-20] ^= 1
    items = scan_all(stamped(0) + damaged + stamped(2))
    assert [type(item) for item in items] == [Sound, BadBody, Sound]
    assert items[1].envelope.stamp.leaf == 1
    assert "SHA-256" in items[1].why


def test_damaged_padding_is_damage(stamped: Any) -> None:
    values = [b"1"]
    while (data := bytearray(stamped(0, values, codec=Codec.ZSTD)))[-1]:
        values.append(b"another")  # Until the compressed length is no multiple of 8.
    data[-1] = 1
    (item,) = scan_all(bytes(data))
    assert isinstance(item, BadBody)
    assert "padding" in item.why


@pytest.mark.parametrize("missing", [1, 8, 100, 250])
def test_a_frame_that_the_file_cuts_off_is_damage_to_the_end(stamped: Any, missing: Any) -> None:
    whole, torn = stamped(0), stamped(1, [b"y" * 300])
    items = scan_all(whole + torn[:-missing])
    assert [type(item) for item in items] == [Sound, Bad]
    assert items[1].end == len(whole) + len(torn) - missing


def test_zeros_are_damage_and_are_skipped(stamped: Any) -> None:
    items = scan_all(stamped(0) + bytes(4096) + stamped(1))
    assert [type(item) for item in items] == [Sound, Bad, Sound]
    assert items[1].length == 4096


def test_leaves_only_rise(stamped: Any) -> None:
    """Old bytes that come up again look sound, and are not of this place."""
    items = scan_all(stamped(5) + stamped(4) + stamped(6), leaf=5)
    assert [type(item) for item in items] == [Sound, Bad, Sound]
    assert [item.envelope.stamp.leaf for item in (items[0], items[2])] == [5, 6]


def test_a_frame_without_a_stamp_is_not_of_the_log(stamped: Any, frames: Any) -> None:
    (bad, sound) = scan_all(frames.encoded() + stamped(0))
    assert isinstance(bad, Bad)
    assert "stamp" in bad.why
    assert isinstance(sound, Sound)


def test_a_frame_in_a_message_is_not_taken_for_one_of_the_log(stamped: Any) -> None:
    """A message may hold the bytes of a frame; its leaf betrays it if it claims too much."""
    planted = stamped(1000)
    outer = bytearray(stamped(1, [bytes(-8 % 8) + planted]))
    outer[30] ^= 1
    items = scan_all(stamped(0) + bytes(outer) + stamped(2))
    assert [type(item) for item in items] == [Sound, Bad, Sound]
    assert items[2].envelope.stamp.leaf == 2


def test_a_frame_behind_much_damage_is_found(stamped: Any) -> None:
    noise = Random(3).randbytes(AHEAD_BYTES + 4096)
    items = scan_all(stamped(0) + noise + stamped(1))
    assert [type(item) for item in items] == [Sound, Bad, Sound]
    assert items[1].length == len(noise)


class BadSector:
    """A disk with some pages that cannot be read."""

    def __init__(self, data: bytes, pages: set[int]) -> None:
        self.data = data
        self.pages = pages

    def read(self, position: int, length: int) -> bytes:
        if any(
            page * 4096 < position + length and position < page * 4096 + 4096 for page in self.pages
        ):
            raise OSError(errno.EIO, "bad sector")
        return self.data[position : position + length]


def test_a_page_that_the_disk_cannot_read_is_damage_of_that_page(stamped: Any) -> None:
    data = b"".join(stamped(leaf, [b"z" * 700]) for leaf in range(20))
    window = Window(BadSector(data, {1}).read, len(data))
    items = list(scan(window, 0, 0))
    assert window.unreadable >= 1
    kinds = [type(item) for item in items]
    assert kinds.count(Bad) + kinds.count(BadBody) <= 6
    leaves = [item.envelope.stamp.leaf for item in items if isinstance(item, Sound)]
    assert leaves[0] == 0
    assert leaves[-1] == 19
    assert len(leaves) >= 14


def test_other_errors_of_the_disk_are_not_taken_for_damage() -> None:
    def gone(position: int, length: int) -> bytes:
        raise OSError(errno.ENODEV, "gone")

    with pytest.raises(OSError, match="gone"):
        list(scan(Window(gone, 100), 0, 0))


def test_the_window_reads_ahead_and_not_again(stamped: Any) -> None:
    data = b"".join(stamped(leaf) for leaf in range(50))
    reads = []

    def read(position: int, length: int) -> bytes:
        reads.append((position, length))
        return data[position : position + length]

    assert len(list(scan(Window(read, len(data)), 0, 0))) == 50
    assert reads == [(0, len(data))]
