"""From what the log says of a batch to what its apps are told. Pure."""

from typing import Final

from sidecar.errors import (
    Denied,
    InDoubt,
    LogBusy,
    LogDiskFull,
    OverQuota,
    Rejected,
    RingFull,
    SidecarError,
    SpoolIsFull,
    TooLarge,
    UnknownTopic,
    UplinkDown,
    retry_after,
)
from sidecar.publish.batch import Batch
from sidecar.publish.results import AppendResult, Verdict

RETRY_AFTER_S: Final = 1.0
"""Where nobody says when to come back: about as long as a gatekeeper takes to restart."""


def refusal_error(batch: Batch, result: AppendResult) -> SidecarError:
    """What an app is told of a refused batch."""
    wait = retry_after(result.retry_after_s or RETRY_AFTER_S)
    if result.verdict is Verdict.COMMITTED_UNPLACED:
        return InDoubt(f"the message is in the log, its offset is not remembered: {result.detail}")
    if batch.doubtful:
        return InDoubt(
            f"an earlier try had no answer, and now the log refuses: {result.detail}. "
            "The message may be in the log"
        )
    if result.verdict is Verdict.OVER_QUOTA:
        return OverQuota(result.detail, headers=wait)
    if result.verdict is Verdict.NOT_NOW:
        full = result.code == "disk_full"
        return (LogDiskFull if full else LogBusy)(result.detail, headers=wait)
    if result.code == "denied":
        members = {"decision_id": result.decision_id, "reason": result.reason}
        return Denied(result.detail, members={k: v for k, v in members.items() if v is not None})
    if result.code in ("unknown_topic", "unknown_partition"):
        return UnknownTopic(result.detail)
    if result.code == "too_large":
        return TooLarge(result.detail)
    return Rejected(f"{result.code}: {result.detail}")


def in_doubt(more: str = "") -> InDoubt:
    """What an app is told when its time is up and nobody knows."""
    return InDoubt(
        "no answer from the log in time; the sidecar goes on trying. "
        "Ask again with the same id to learn the outcome" + (f" ({more})" if more else "")
    )


def never_sent(reason: str | None) -> UplinkDown:
    """What an app is told while no gatekeeper answers."""
    return UplinkDown(
        f"no gatekeeper can take messages now ({reason or 'the link was lost'}); the message was "
        "never sent",
        headers=retry_after(RETRY_AFTER_S),
    )


def spool_full(why: str | None, bytes_max: int) -> SpoolIsFull:
    """What an app is told when the spool does not take its message."""
    return SpoolIsFull(
        f"the spool has no room ({why or f'spool.bytes_max is {bytes_max}'}); the message was not "
        "taken. Ask again later",
        headers=retry_after(RETRY_AFTER_S),
    )


def ring_full() -> RingFull:
    """What an app is told when its message never found a place."""
    return RingFull(
        "limits.ring_entries_max or limits.ring_bytes_max: the partition's ring stayed full; the "
        "message was never sent. Slow down, or ask again",
        headers=retry_after(RETRY_AFTER_S),
    )
