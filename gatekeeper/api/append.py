"""One append request, decided by its envelopes alone.

The bodies are never opened: a frame is cut out, judged by topic, count and size, given provenance
and passed on as the same bytes. Pure functions over bytes; the HTTP shell is `publishing.py`.
May import `log_format`; must never know of connections, tokens or the core's address.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, Final

from gatekeeper.api.quotas import OverQuota
from gatekeeper.audit.decisions import Ruling
from gatekeeper.provenance import Sealer
from log_format.errors import FormatError
from log_format.frame import Frame, body_padding, decode_frame
from log_format.parts import Provenance

APPEND_BYTES_MAX: Final = 32 * 1024 * 1024
"""One request: two batches of the greatest size, or a thousand of a sidecar's usual size."""
FRAMES_MAX: Final = 1024
"""Frames of one request: each costs a signature, so this bounds one request's work to about 60 ms,
done in slices."""

Buffer = bytes | memoryview
Result = dict[str, Any]


class BadAppend(Exception):
    """The body is not a sound run of frames; nothing of it is forwarded."""

    def __init__(self, detail: str, frame: int) -> None:
        super().__init__(detail)
        self.members = {"frame": frame}


@dataclass(frozen=True, slots=True)
class Judged:
    """A frame and what was decided: a ruling that allows it, or the result that refuses it."""

    frame: Frame
    ruling: Ruling | None
    refusal: Result | None


def split_frames(body: Buffer) -> list[Frame]:
    """All frames of a request's body, with envelopes checked, or BadAppend with the frame's number.

    The body's hash is not checked: the core does that, and nothing here depends on it.
    """
    frames: list[Frame] = []
    position = 0
    while position < len(body):
        if len(frames) == FRAMES_MAX:
            raise BadAppend(f"more than {FRAMES_MAX} frames in one request; send fewer", FRAMES_MAX)
        try:
            frame = decode_frame(body, position)
        except FormatError as error:
            number = len(frames)
            raise BadAppend(f"frame {number}: {error}", number) from error
        frames.append(frame)
        position += frame.envelope.frame_len
    if not frames:
        raise BadAppend("the body is empty; send at least one frame", 0)
    return frames


def judge(
    frames: Sequence[Frame],
    rule: Callable[[str], Ruling],
    spend: Callable[[str, int, int], OverQuota | None],
) -> list[Judged]:
    """Decide each frame. `rule` answers for a topic; `spend(principal, messages, bytes)` takes from
    the quota, or takes nothing and says which limit was met.

    Once a producer's batch for a partition is over quota, so are the ones behind it in the same
    request: the core would refuse them as a gap, and they would spend quota for nothing.
    """
    rulings: dict[str, Ruling] = {}
    waiting: dict[tuple[str, int, int], OverQuota] = {}
    judged: list[Judged] = []
    for frame in frames:
        producer = frame.envelope.producer
        if problem := _unfit(frame):
            judged.append(Judged(frame, None, _refused(frame, "bad_frame", problem)))
            continue
        ruling = rulings.get(producer.topic)
        if ruling is None:
            ruling = rulings[producer.topic] = rule(producer.topic)
        if not ruling.allowed:
            judged.append(Judged(frame, ruling, _denied(frame, ruling)))
            continue
        lane = (producer.topic, producer.partition, producer.producer_id)
        over = waiting.get(lane)
        if over is None:
            over = spend(ruling.principal, producer.count, frame.envelope.frame_len)
        if over is not None:
            waiting[lane] = over
            judged.append(Judged(frame, ruling, _over_quota(frame, ruling, over)))
            continue
        judged.append(Judged(frame, ruling, None))
    return judged


def seal_allowed(
    judged: Sequence[Judged], sealer: Sealer, received_us: int
) -> Iterator[tuple[Buffer, ...]]:
    """The buffers to forward, one tuple per allowed frame, in order. An iterator, because each step
    costs a signature and the caller gives the event loop its turn between them."""
    parts: dict[bytes, Provenance] = {}
    for item in judged:
        if item.refusal is not None or item.ruling is None:
            continue
        part = parts.get(item.ruling.decision_id)
        if part is None:
            part = sealer.provenance(item.ruling, received_us)
            parts[item.ruling.decision_id] = part
        envelope = item.frame.envelope
        sealed = sealer.seal(envelope.raw, part)
        if padding := body_padding(envelope.body_len):
            yield sealed, item.frame.body, padding
        else:
            yield sealed, item.frame.body


def merge(judged: Sequence[Judged], answered: Sequence[Result]) -> list[Result]:
    """One result per frame, in the request's order: refusals from here, the rest from the core."""
    if len(answered) != sum(1 for item in judged if item.refusal is None):
        raise ValueError("the core's answer has a wrong number of results")
    answers = iter(answered)
    return [next(answers) if item.refusal is None else item.refusal for item in judged]


def unavailable(item: Judged, detail: str, retry_after_ms: int) -> Result:
    """The result of a frame that could not be handed to the core, or whose answer was lost. A retry
    is safe: the core recognises repeats by their sequence."""
    return _refused(
        item.frame, "unavailable", detail, retryable=True, retry_after_ms=retry_after_ms
    )


def _unfit(frame: Frame) -> str | None:
    envelope = frame.envelope
    if envelope.provenance is not None:
        return "arrived with provenance, which only a gatekeeper may add; send the producer part"
    if envelope.stamp is not None:
        return "arrived with a stamp, which only the core may add; send the producer part"
    return None


def _refused(
    frame: Frame, code: str, detail: str, *, retryable: bool = False, **members: object
) -> Result:
    producer = frame.envelope.producer
    return {
        "topic": producer.topic,
        "partition": producer.partition,
        "error": code,
        "detail": detail,
        "retryable": retryable,
        **members,
    }


def _denied(frame: Frame, ruling: Ruling) -> Result:
    return _refused(frame, "denied", ruling.text, decision_id=ruling.id_text, reason=ruling.reason)


def _over_quota(frame: Frame, ruling: Ruling, over: OverQuota) -> Result:
    return _refused(
        frame,
        "over_quota",
        f"{ruling.principal} is {over.text}",
        retryable=True,
        retry_after_ms=max(1, ceil(over.retry_after_s * 1000)),
    )
