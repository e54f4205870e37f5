"""Heads of WebSocket frames, for many messages at once. Pure; RFC 6455, section 5.2."""

import struct
from collections.abc import Iterable
from itertools import chain
from typing import Final

TEXT: Final = 0x81
BINARY: Final = 0x82
"""Final fragments; servers never mask."""


def head(opcode: int, length: int) -> bytes:
    """The head of an unmasked message in one frame."""
    if length < 126:
        return struct.pack("!BB", opcode, length)
    if length < 65536:
        return struct.pack("!BBH", opcode, 126, length)
    return struct.pack("!BBQ", opcode, 127, length)


def text_frame(payload: bytes) -> bytes:
    """One text message."""
    return head(TEXT, len(payload)) + payload


def binary_frame(payload: bytes) -> bytes:
    """One binary message."""
    return head(BINARY, len(payload)) + payload


def spell_heads(lines: Iterable[str]) -> str:
    """Each line as a text message. Lines are spelled, one character a byte, and so is this."""
    given = list(lines)
    lengths = list(map(len, given))
    heads = {length: head(TEXT, length).decode("latin-1") for length in set(lengths)}
    return "".join(chain.from_iterable(zip(map(heads.__getitem__, lengths), given, strict=True)))
