"""An incremental reader: feed it chunks as they arrive, take whole frames out."""

from collections.abc import Iterator

from log_format.envelope import HEAD_BYTES, peek_lengths
from log_format.errors import Truncated
from log_format.frame import Frame, decode_frame


class FrameReader:
    """Turns chunks of any size into frames.

    Holds at most one incomplete frame, whose size the format's limits bound. After an error the
    reader is unusable: the position of the next frame is unknown. Not thread-safe.
    """

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, chunk: bytes | memoryview) -> Iterator[Frame]:
        """Yield each frame that `chunk` completes. Exhaust the iterator before feeding again."""
        self._pending += chunk
        position = 0
        try:
            while len(self._pending) - position >= HEAD_BYTES:
                lengths = peek_lengths(self._pending, position)
                if len(self._pending) - position < lengths.frame:
                    break
                whole = bytes(self._pending[position : position + lengths.frame])
                frame = decode_frame(whole)
                position += lengths.frame
                yield frame
        finally:
            del self._pending[:position]

    def finish(self) -> None:
        """Raise Truncated if the input ended inside a frame."""
        if self._pending:
            raise Truncated(f"the input ends {len(self._pending)} bytes into a frame")
