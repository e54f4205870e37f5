"""A polite rate: how long to wait before so many more bytes. Pure; `now` comes in from outside."""


class Pace:
    """Lets `bytes_per_s` through on average, and one second's worth at once after a rest."""

    __slots__ = ("_at", "_bytes_per_s", "_left")

    def __init__(self, bytes_per_s: int) -> None:
        self._bytes_per_s = bytes_per_s
        self._left = float(bytes_per_s)
        self._at: float | None = None

    def delay_s(self, size: int, now: float) -> float:
        """Take `size` bytes from the budget; seconds to wait until it is even again."""
        if self._at is not None:
            gained = max(0.0, now - self._at) * self._bytes_per_s
            self._left = min(float(self._bytes_per_s), self._left + gained)
        self._at = now
        self._left -= size
        return max(0.0, -self._left / self._bytes_per_s)
