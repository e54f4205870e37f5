"""Small logs written by hand from the format alone, so that the engine's faults can't hide."""

from collections.abc import Callable
from pathlib import Path

import pytest

from log_format.body import encode_body
from log_format.envelope import add_provenance, add_stamp, decode_envelope
from log_format.frame import encode_frame
from log_format.layout import SegmentHead, encode_segment_head, segment_name
from log_format.parts import Producer, Provenance, Stamp

LOG_ID = b"0123456789abcdef"
PROVENANCE = Provenance(
    "billing", "corp", "billing", bytes(32), "t", bytes(16), bytes(32), "rule", "gk-1", 5
)


def stored_frame(leaf: int, topic: str, offset: int, values: list[bytes]) -> bytes:
    body = encode_body([leaf] * len(values), values)
    producer = Producer(topic, 0, 1, 0, offset, len(values), leaf, leaf, bytes(32))
    sent = encode_frame(producer, body)
    envelope = decode_envelope(sent).raw
    stamp = Stamp(leaf, offset, 1_767_225_600_000_000 + leaf, leaf)
    return add_stamp(add_provenance(envelope, PROVENANCE), stamp) + sent[len(envelope) :]


def segment(first_leaf: int, frames: list[bytes], log_id: bytes = LOG_ID) -> bytes:
    return encode_segment_head(SegmentHead(log_id, first_leaf, 0, 1)) + b"".join(frames)


@pytest.fixture
def write_log(tmp_path: Path) -> Callable[[], Path]:
    """Writes a sound log of two topics, two messages a batch, three segments of four batches."""

    def write() -> Path:
        folder = tmp_path / "data" / "core"
        folder.mkdir(parents=True)
        for first in (0, 4, 8):
            frames = [
                stored_frame(
                    leaf,
                    ("orders", "payments")[leaf % 2],
                    leaf // 2 * 2,
                    [b'{"n":%d}' % leaf, b"needle-%d" % leaf],
                )
                for leaf in range(first, first + 4)
            ]
            (folder / segment_name(first)).write_bytes(segment(first, frames))
        return tmp_path

    return write
