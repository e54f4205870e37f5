"""When to fetch the next access token: at 75 % of the current one's life, with jitter.

Pure: clock and chance come in from outside.
"""

from dataclasses import dataclass
from typing import Final

REFRESH_AT: Final = 0.75
"""The last quarter of a token's life is there for an issuer that is away for a while."""
JITTER: Final = 0.05
"""Sidecars that started together do not all come back to the issuer in the same second."""
LIFE_S_MIN: Final = 1.0
"""A token that lives shorter than this has expired before a request with it arrives."""


@dataclass(frozen=True, slots=True)
class TokenLife:
    """When a token was received and when it ends, on a clock that never steps."""

    received_at: float
    expires_at: float

    def refresh_at(self, chance: float) -> float:
        """When to fetch the next one; `chance` lies between 0 and 1."""
        life = self.expires_at - self.received_at
        return self.received_at + life * (REFRESH_AT + JITTER * (2 * chance - 1))

    def is_over(self, now: float) -> bool:
        """True once no gatekeeper would take it any more."""
        return now >= self.expires_at
