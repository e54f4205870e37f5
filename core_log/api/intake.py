"""What may enter the log: the checks of an append request's frames, before anything is stored.

Pure. The core trusts a gatekeeper for who sent a batch; it trusts nobody for what a batch holds.
Whatever passes here is a sound frame with a sound body, so that no reader ever meets junk.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from core_log.control.topics import AUDIT_TOPIC
from core_log.log.engine import Announced, Outcome
from core_log.log.results import Appended, Refused
from log_format.errors import FormatError
from log_format.frame import Frame, decode_frame
from log_format.topic import is_system_topic

REQUEST_BYTES_MAX: Final = 32 * 1024 * 1024
"""The body of one append: two of the greatest frames."""
FRAMES_MAX: Final = 1024
"""Frames of one append: one per topic of a very busy sidecar; bounds what one answer costs."""

CODES: Final = frozenset(
    {
        "bad_frame",
        "condition_failed",
        "denied",
        "disk_full",
        "duplicate_too_old",
        "fenced",
        "overloaded",
        "sequence_conflict",
        "sequence_gap",
        "storage_failed",
        "too_large",
        "unavailable",
        "unknown_partition",
        "unknown_topic",
    }
)
"""Every code that a frame's refusal may carry; metrics count any other as `other`."""

SYSTEM_TOPICS: Final = frozenset({AUDIT_TOPIC})
"""The system's topics that a gatekeeper may write. The core's own records are none of them."""


class BadFrames(Exception):
    """The body is not a sound run of frames; nothing of it was appended."""

    def __init__(self, number: int, reason: str, detail: str) -> None:
        super().__init__(f"frame {number} of the request: {detail}")
        self.members: Mapping[str, object] = {"frame": number, "reason": reason}


def split(body: bytes | memoryview) -> list[Frame]:
    """The frames of a request's body, as views into it. Numbers in errors begin at 0."""
    frames: list[Frame] = []
    position = 0
    while position < len(body):
        if len(frames) == FRAMES_MAX:
            raise BadFrames(
                FRAMES_MAX, "too_many", f"a request may hold {FRAMES_MAX} frames; send it in parts"
            )
        try:
            frame = decode_frame(body, position)
        except FormatError as error:
            raise BadFrames(len(frames), error.code, str(error)) from error
        frames.append(frame)
        position += frame.envelope.frame_len
    if not frames:
        raise BadFrames(0, "empty", "the body is empty; send at least one frame")
    return frames


def check(frame: Frame) -> Refused | None:
    """Why this frame may not be stored, or None. Reads the whole body: SHA-256 and columns."""
    envelope = frame.envelope
    if envelope.stamp is not None or not envelope.has_body:
        return refuse(frame, "bad_frame", "a batch on its way into the log has no stamp yet")
    if envelope.provenance is None:
        return refuse(frame, "bad_frame", "a batch needs the provenance of a gatekeeper")
    if is_system_topic(envelope.producer.topic) and not may_write_system_topic(frame):
        return refuse(
            frame, "denied", "topics that begin with '_' are the system's; choose another topic"
        )
    try:
        frame.check_hash()
        if not envelope.encrypted:
            frame.check_columns()
    except FormatError as error:
        return refuse(frame, "bad_frame", str(error))
    return None


def may_write_system_topic(frame: Frame) -> bool:
    """True for a gatekeeper's own records: it is named both as the sender and as the gatekeeper.

    A gatekeeper refuses its clients' writes to these topics by itself. This is the second lock:
    provenance says in the gatekeeper's signed words that the batch is its own, so that a client's
    batch let through by mistake is still refused, and no batch in `_audit` can be a client's.
    """
    envelope = frame.envelope
    provenance = envelope.provenance
    return (
        envelope.producer.topic in SYSTEM_TOPICS
        and provenance is not None
        and provenance.gatekeeper_id != ""
        and provenance.principal == provenance.gatekeeper_id
    )


def work_bytes(frames: Iterable[Frame]) -> int:
    """How many bytes `check` will go through, decompression included."""
    return sum(len(frame.body) + frame.envelope.uncompressed_len for frame in frames)


def refuse(
    frame: Frame,
    code: str,
    detail: str,
    *,
    retryable: bool = False,
    members: Mapping[str, object] | None = None,
) -> Refused:
    """A refusal of this frame."""
    producer = frame.envelope.producer
    return Refused(producer.topic, producer.partition, code, detail, retryable, members or {})


def answer_json(outcomes: Iterable[Outcome]) -> dict[str, object]:
    """An append's answer."""
    return {"results": [outcome_json(outcome) for outcome in outcomes]}


def outcome_json(outcome: Outcome) -> dict[str, object]:
    """One entry of an append's answer."""
    match outcome:
        case Refused():
            return {
                "topic": outcome.topic,
                "partition": outcome.partition,
                "error": outcome.code,
                "detail": outcome.detail,
                "retryable": outcome.retryable,
                **outcome.members,
            }
        case Appended():
            return {
                "topic": outcome.topic,
                "partition": outcome.partition,
                "base_offset": outcome.base_offset,
                "count": outcome.count,
                "leaf": outcome.leaf,
                "append_us": outcome.append_us,
                "durability": outcome.durability,
                "duplicate": outcome.duplicate,
            }
        case Announced():
            return {
                "topic": outcome.topic,
                "partition": outcome.partition,
                "base_offset": outcome.base_offset,
                "count": outcome.count,
                "leaf": None,
                "append_us": outcome.append_us,
                "durability": "memory",
                "duplicate": outcome.duplicate,
            }
