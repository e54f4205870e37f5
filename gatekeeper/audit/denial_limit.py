"""Denials in bounded number: the first ones of each principal one by one, the rest as counts.

A caller that is denied a thousand times a second must not be able to fill the disk with its own
failures, and must not become invisible either. Pure state that takes `now`; no clock, no I/O.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

PRINCIPALS_MAX: Final = 10_000
"""Callers told apart at one time, about 3 MiB. The one denied longest ago is forgotten first; what
was counted for it is kept until the next summary."""
SUMMARIES_MAX: Final = 1_000
"""Different (principal, action, reason) counted between two summaries; more share one line."""
SAMPLES_MAX: Final = 5
"""Topics that a summary names as examples."""
OTHERS: Final = "(others)"


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at_s: float


@dataclass(slots=True)
class Suppressed:
    """Denials that were counted instead of written."""

    principal: str
    action: str
    reason: str
    count: int
    first_us: int
    last_us: int
    topics: list[str] = field(default_factory=list)

    def record(self, gatekeeper_id: str) -> dict[str, object]:
        """As it stands in the decision log."""
        return {
            "kind": "denials",
            "allowed": False,
            "principal": self.principal,
            "action": self.action,
            "reason": self.reason,
            "count": self.count,
            "first_us": self.first_us,
            "last_us": self.last_us,
            "topics": self.topics,
            "gatekeeper": gatekeeper_id,
        }


class DenialLimit:
    """A token bucket per principal, and counts of what did not pass."""

    def __init__(self, per_s: float, burst: int) -> None:
        self._per_s = per_s
        self._burst = float(burst)
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()
        self._suppressed: dict[tuple[str, str, str], Suppressed] = {}

    def admit(self, principal: str, now_s: float) -> bool:
        """True when this denial of `principal` is to be written by itself."""
        bucket = self._buckets.get(principal)
        if bucket is None:
            bucket = self._buckets[principal] = _Bucket(self._burst, now_s)
            if len(self._buckets) > PRINCIPALS_MAX:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(principal)
            earned = max(0.0, now_s - bucket.at_s) * self._per_s
            bucket.tokens = min(self._burst, bucket.tokens + earned)
            bucket.at_s = now_s
        if bucket.tokens < 1.0:
            return False
        bucket.tokens -= 1.0
        return True

    def suppress(self, principal: str, action: str, reason: str, topic: str, now_us: int) -> None:
        """Count a denial that is not written."""
        key = (principal, action, reason)
        entry = self._suppressed.get(key)
        if entry is None and len(self._suppressed) >= SUMMARIES_MAX:
            key = (OTHERS, OTHERS, OTHERS)
            entry = self._suppressed.get(key)
        if entry is None:
            entry = self._suppressed[key] = Suppressed(*key, 0, now_us, now_us)
        entry.count += 1
        entry.last_us = now_us
        if len(entry.topics) < SAMPLES_MAX and topic not in entry.topics:
            entry.topics.append(topic)

    def take_summaries(self) -> list[Suppressed]:
        """What was counted since the last call."""
        taken = list(self._suppressed.values())
        self._suppressed = {}
        return taken

    def restore(self, entry: Suppressed) -> None:
        """Put a summary back that could not be written after all."""
        key = (entry.principal, entry.action, entry.reason)
        present = self._suppressed.get(key)
        if present is None:
            self._suppressed[key] = entry
            return
        present.count += entry.count
        present.first_us = min(present.first_us, entry.first_us)
