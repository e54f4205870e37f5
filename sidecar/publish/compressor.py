"""Whether a batch's body is compressed on its way out, by what that has gained lately.

Compressing costs the sidecar about 2 ns a byte. Every byte that stays is encrypted, copied and
hashed on the way through gatekeeper and core, and written to disk: about 7 ns in all. So a body
that shrinks by a third is worth it, and one that does not is best left alone. Pure but for zstd.
"""

from typing import Final, Literal

from log_format.compression import compress
from log_format.envelope import Codec

Mode = Literal["auto", "none", "zstd"]

BODY_BYTES_MIN: Final = 64 * 1024
"""Smaller bodies go as they are: what a byte costs on its way is little beside the request, and a
log of small batches stays one that `grep` can look into."""
WORTH: Final = 2 / 3
"""`auto` keeps a compressed body of at most this part of the original."""
PAUSE_BATCHES_MAX: Final = 64
"""After each try in vain `auto` leaves twice as many batches alone, at most so many: data that
never shrinks costs next to nothing, and data that begins to is noticed within 64 MiB."""


class Compressor:
    """Decides for the batches of one lane. Belongs to the event loop."""

    __slots__ = ("_left_alone", "_mode", "_pause")

    def __init__(self, mode: Mode) -> None:
        self._mode = mode
        self._pause = 0
        self._left_alone = 0

    def pack(self, body: bytes) -> tuple[Codec, bytes]:
        """The body as it is sent and stored, and its codec."""
        if self._mode == "none" or len(body) < BODY_BYTES_MIN:
            return Codec.NONE, body
        if self._left_alone:
            self._left_alone -= 1
            return Codec.NONE, body
        packed = compress(body)
        if self._mode == "zstd":
            return (Codec.ZSTD, packed) if len(packed) < len(body) else (Codec.NONE, body)
        if len(packed) <= len(body) * WORTH:
            self._pause = 0
            return Codec.ZSTD, packed
        self._pause = min(self._pause * 2 or 1, PAUSE_BATCHES_MAX)
        self._left_alone = self._pause
        return Codec.NONE, body
