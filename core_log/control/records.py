"""Records of the core's own logs: JSON values in frames that nobody but the core has written.

Turns records into frames and reads frames back through an engine. What a record means is known to
those who write it (`control`, `cursor_log`).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from core_log.log.engine import Engine
from core_log.log.log_errors import DiskFull, LogFailed
from core_log.log.options import MIB
from core_log.log.results import Refused
from log_format.body import encode_body
from log_format.frame import Frame, decode_frame, encode_frame
from log_format.parts import Producer

READ_BYTES: Final = 4 * MIB
"""Read at a time while a log is loaded."""


class RecordsFailed(LogFailed):
    """Records could not be made durable; what they say did not happen."""


def record_frame(
    topic: str,
    records: Sequence[bytes],
    now_us: int,
    *,
    key: bytes | None = None,
    identity: bytes | None = None,
) -> Frame:
    """Records as a frame: nobody's but the core's own, without provenance."""
    count = len(records)
    body = encode_body([now_us] * count, records, keys=[key] * count, ids=[identity] * count)
    producer = Producer(topic, 0, 0, 0, 0, count, now_us, now_us, bytes(32))
    return decode_frame(encode_frame(producer, body))


async def append_records(engine: Engine, *frames: Frame) -> None:
    """Append all frames; return once they are durable. Raises DiskFull and RecordsFailed."""
    for outcome in await engine.append(frames):
        if isinstance(outcome, Refused):
            kind = DiskFull if outcome.code == DiskFull.code else RecordsFailed
            raise kind(outcome.detail, outcome.members)


async def read_frames(engine: Engine, topic: str, first: int, end: int) -> list[Frame]:
    """All frames with offsets from `first` up to `end`, which is where a frame begins."""
    frames: list[Frame] = []
    while first < end:
        result = await engine.read(topic, 0, first, READ_BYTES)
        frames += [decode_frame(frame) for frame in result.frames]
        first = result.next_offset
    # A read gives whatever fits, also beyond the end that was asked for.
    return [frame for frame in frames if _base_offset(frame) < end]


def _base_offset(frame: Frame) -> int:
    stamp = frame.envelope.stamp
    return 0 if stamp is None else stamp.base_offset


def chunks(records: Iterable[bytes], bytes_max: int) -> Iterator[list[bytes]]:
    """Records in runs of about `bytes_max` bytes."""
    chunk: list[bytes] = []
    size = 0
    for record in records:
        if chunk and size + len(record) > bytes_max:
            yield chunk
            chunk, size = [], 0
        chunk.append(record)
        size += len(record)
    if chunk:
        yield chunk
