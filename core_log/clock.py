"""Time as the log sees it, so that a test can hold the hands.

May import the standard library only. Knows nothing of logs.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """Two clocks: one that people read and may step, one that only runs."""

    def now_us(self) -> int:
        """Microseconds since 1970, as the machine believes; may jump either way."""

    def monotonic(self) -> float:
        """Seconds since some moment; never goes back."""


class SystemClock:
    """The machine's own clocks."""

    def now_us(self) -> int:
        """Microseconds since 1970."""
        return time.time_ns() // 1000

    def monotonic(self) -> float:
        """Seconds of a clock that is never set."""
        return time.monotonic()
