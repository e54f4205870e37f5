"""What a gatekeeper answers to an append, and what that means for the batch.

The meaning of every code is one table. Pure; may import `log_format`, and nothing of the network.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final

from log_format.sequence import SEQUENCE_MAX


class Verdict(Enum):
    """What becomes of a batch."""

    COMMITTED = auto()
    """It is in the log, now or since an earlier try."""
    COMMITTED_UNPLACED = auto()
    """It is in the log since so long that its offset is no longer remembered."""
    REFUSED = auto()
    """It will never be in the log: its apps are told, and the sequence goes on without it."""
    OVER_QUOTA = auto()
    """It is not in the log, and may be tried again after a while."""
    NOT_NOW = auto()
    """It is not in the log; the core cannot take anything at the moment."""
    UNSENT = auto()
    """Surely nothing of it has left the sidecar. No answer says so; the uplink may."""
    DOUBT = auto()
    """Nobody knows: it is sent again as it is, before anything newer of its partition."""
    GAP = auto()
    """It is not in the log, since something before it is missing there."""
    FENCED = auto()
    """The log knows a newer epoch of this producer, or another batch under this number."""


IN_THE_LOG: Final = frozenset({Verdict.COMMITTED, Verdict.COMMITTED_UNPLACED})

VERDICTS: Final[Mapping[str, Verdict]] = {
    "denied": Verdict.REFUSED,
    "bad_frame": Verdict.REFUSED,
    "too_large": Verdict.REFUSED,
    "unknown_topic": Verdict.REFUSED,
    "unknown_partition": Verdict.REFUSED,
    "over_quota": Verdict.OVER_QUOTA,
    "overloaded": Verdict.NOT_NOW,
    "disk_full": Verdict.NOT_NOW,
    "storage_failed": Verdict.DOUBT,
    "unavailable": Verdict.DOUBT,
    "sequence_gap": Verdict.GAP,
    "fenced": Verdict.FENCED,
    "sequence_conflict": Verdict.FENCED,
    "duplicate_too_old": Verdict.COMMITTED_UNPLACED,
}
"""`storage_failed` is a failed sync: whether the bytes reached the disk, only recovery can tell."""


@dataclass(frozen=True, slots=True)
class AppendResult:
    """One batch's result. `base_offset` and `durability` only where it is committed."""

    verdict: Verdict
    base_offset: int = 0
    durability: str = ""
    code: str = ""
    detail: str = ""
    decision_id: str | None = None
    reason: str | None = None
    retry_after_s: float | None = None
    expected_sequence: int | None = None

    def for_sequence(self, first_sequence: int) -> "AppendResult":
        """This result for a batch that begins at `first_sequence`.

        A "gap" whose next number lies behind the batch's is none: the number was used, so the
        batch is in the log since long. Taking it for a gap would publish it a second time.
        """
        if self.verdict is not Verdict.GAP or self.expected_sequence is None:
            return self
        ahead = (first_sequence - self.expected_sequence) & SEQUENCE_MAX
        if ahead <= SEQUENCE_MAX // 2:
            return self
        return replace(self, verdict=Verdict.COMMITTED_UNPLACED)


class BadAnswer(Exception):
    """A gatekeeper's answer that does not keep to the wire's contract."""


def parse_results(document: object, expected: int) -> list[AppendResult]:
    """The results in the order of the frames, or BadAnswer."""
    results = document.get("results") if isinstance(document, dict) else None
    if not isinstance(results, list) or len(results) != expected:
        raise BadAnswer(f"the answer to an append has not {expected} results")
    return [_parse(result) for result in results]


def _parse(result: object) -> AppendResult:
    if not isinstance(result, dict):
        raise BadAnswer("a result of an append is not an object")
    code = result.get("error")
    if code is None:
        base_offset, durability = result.get("base_offset"), result.get("durability")
        if not isinstance(base_offset, int) or not isinstance(durability, str):
            raise BadAnswer("a committed batch has no base_offset or durability")
        return AppendResult(Verdict.COMMITTED, base_offset, durability)
    return refusal(str(code), result)


def refusal(code: str, members: Mapping[str, object]) -> AppendResult:
    """The result for an error code, with what its members say."""
    verdict = VERDICTS.get(code)
    if verdict is None:
        verdict = Verdict.DOUBT if members.get("retryable") else Verdict.REFUSED
    wait_ms, expected = members.get("retry_after_ms"), members.get("expected_sequence")
    return AppendResult(
        verdict,
        code=code,
        detail=_text(members.get("detail")) or code,
        decision_id=_text(members.get("decision_id")),
        reason=_text(members.get("reason")),
        retry_after_s=wait_ms / 1000 if isinstance(wait_ms, int | float) else None,
        expected_sequence=expected if isinstance(expected, int) else None,
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
