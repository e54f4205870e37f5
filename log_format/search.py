"""Where the next frame begins behind damage. Pure; for readers that share no other code."""

from typing import Final

from log_format.envelope import MAGIC, MAGIC_BODILESS, Envelope, decode_envelope
from log_format.errors import FormatError

SEARCH_BYTES: Final = 1024 * 1024
"""Searched at a time: large enough for `find` to be fast, small enough to be copied."""


def next_frame(data: memoryview, position: int, end: int) -> int:
    """The next multiple of 8, from `position` on, at which a sound envelope begins; else `end`."""
    position = (position + 7) & ~7
    while position < end:
        chunk = bytes(data[position : min(position + SEARCH_BYTES, end)])
        starts = (chunk.find(MAGIC), chunk.find(MAGIC_BODILESS))
        found = min((at for at in starts if at >= 0), default=-1)
        if found < 0:
            position += max(8, (len(chunk) - len(MAGIC)) & ~7)
            continue
        candidate = position + found
        if candidate % 8 == 0 and envelope_at(data, candidate) is not None:
            return candidate
        position = (candidate + 8) & ~7
    return end


def envelope_at(data: memoryview, position: int) -> Envelope | None:
    """The envelope at a position, or None where there is no sound one."""
    try:
        return decode_envelope(data, position)
    except FormatError:
        return None
