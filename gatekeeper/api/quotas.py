"""How much a principal may send and hold open: token buckets, pure over `now`.

Each gatekeeper counts for itself: a principal that talks to three gatekeepers has three times its
quota. That is a fence against floods, not a bill; sharing one count would put a round trip before
every batch.

**Burst rule.** A bucket holds one second's worth, and begins full. A batch passes when the bucket
holds the batch's cost, or is full where the cost is more than a bucket holds; the cost is taken
then, and may leave a debt that the rate pays off. So no batch is too large to ever pass, a second
of silence allows a second's burst, and over any time the rate holds.

Standard library only; must never know of HTTP, topics or who a principal is.
"""

from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from typing import Final

BURST_S: Final = 1.0
"""How much of its rate a bucket holds. Senders batch many times a second; one second evens that
out, and keeps what a principal may dump at once close to what it may send anyway."""
BUCKETS_MAX: Final = 10_000
"""Principals that are counted at once. The one that sent least recently is forgotten first, and
with it at most a debt; its next batch finds a full bucket. About 3 MB."""
ROUNDING: Final = 1e-9
"""Added to every wait, in seconds and as a part of it, for what floating point loses: whoever comes
back exactly when told must not be told again."""
TOLERANCE: Final = 1e-6
"""The part of a batch's cost that may be missing: a debt of years leaves that much rounding."""
STREAM_RETRY_S: Final = 5.0
"""When to ask again for a stream: nobody knows when another one ends."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a principal may do on one gatekeeper; None is unlimited."""

    messages_per_s: float | None = None
    bytes_per_s: float | None = None
    streams: int | None = None


UNLIMITED: Final = Limits()


@dataclass(frozen=True, slots=True)
class OverQuota:
    """Which limit was met, and when to try again. Nothing was taken."""

    limit: str
    value: float
    retry_after_s: float

    @property
    def text(self) -> str:
        """For the answer: the limit, its value and the next step."""
        return (
            f"over the quota {self.limit} = {self.value:g} on this gatekeeper; "
            f"try again in {self.retry_after_s:.3g} s"
        )


@dataclass(slots=True)
class _Bucket:
    """Invariant: at most `BURST_S` of the rate; below zero it is a debt."""

    level: float
    at_s: float

    def wait_s(self, cost: float, rate: float, now: float) -> float:
        """Refill to `now`, and say how long until `cost` may be taken; 0.0 is now."""
        most = rate * BURST_S
        # A clock that steps back adds nothing; `now` should be monotonic.
        self.level = min(most, self.level + max(0.0, now - self.at_s) * rate)
        self.at_s = max(self.at_s, now)
        needed = min(cost, most)
        if self.level >= needed * (1.0 - TOLERANCE):
            return 0.0
        return (needed - self.level) / rate * (1.0 + ROUNDING) + ROUNDING


@dataclass(slots=True)
class _Account:
    messages: _Bucket | None = None
    bytes: _Bucket | None = None


@dataclass(slots=True)
class Quotas:
    """The buckets of all principals on this gatekeeper. Used from the event loop only."""

    accounts_max: int = BUCKETS_MAX
    _accounts: OrderedDict[str, _Account] = field(default_factory=OrderedDict)
    _streams: Counter[str] = field(default_factory=Counter)

    def __len__(self) -> int:
        return len(self._accounts)

    def take(
        self, principal: str, limits: Limits, *, messages: int, size: int, now: float
    ) -> OverQuota | None:
        """Take a batch of so many messages and bytes, all of it or nothing."""
        per_s, bytes_per_s = limits.messages_per_s, limits.bytes_per_s
        if per_s is None and bytes_per_s is None:
            return None
        account = self._account(principal)
        counted = weighed = None
        over: OverQuota | None = None
        if per_s is not None:
            counted = account.messages = account.messages or _Bucket(per_s * BURST_S, now)
            wait_s = counted.wait_s(messages, per_s, now)
            if wait_s > 0.0:
                over = OverQuota("messages_per_s", per_s, wait_s)
        if bytes_per_s is not None:
            weighed = account.bytes = account.bytes or _Bucket(bytes_per_s * BURST_S, now)
            wait_s = weighed.wait_s(size, bytes_per_s, now)
            if wait_s > 0.0 and (over is None or wait_s > over.retry_after_s):
                over = OverQuota("bytes_per_s", bytes_per_s, wait_s)
        if over is not None:
            return over
        if counted is not None:
            counted.level -= messages
        if weighed is not None:
            weighed.level -= size
        return None

    def open_stream(self, principal: str, limits: Limits) -> OverQuota | None:
        """Count one more open stream. Each one that was counted must be closed once."""
        if limits.streams is not None and self._streams[principal] >= limits.streams:
            return OverQuota("streams", limits.streams, STREAM_RETRY_S)
        self._streams[principal] += 1
        return None

    def close_stream(self, principal: str) -> None:
        """Count one open stream less. Principals without streams take no room."""
        if principal not in self._streams:
            raise ValueError(f"{principal} has no open stream; close each stream once")
        self._streams[principal] -= 1
        if not self._streams[principal]:
            del self._streams[principal]

    def streams_of(self, principal: str) -> int:
        """How many streams the principal has open here."""
        return self._streams.get(principal, 0)

    def _account(self, principal: str) -> _Account:
        account = self._accounts.get(principal)
        if account is None:
            while len(self._accounts) >= self.accounts_max:
                self._accounts.popitem(last=False)
            account = self._accounts[principal] = _Account()
        else:
            self._accounts.move_to_end(principal)
        return account
