"""How long to wait before the next try: exponential, with full jitter.

Pure: chance comes in as a number. Full jitter spreads the sidecars of a whole site over the wait,
so that a gatekeeper that comes back is not met by all of them at once.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """The wait doubles from `first_s` and is never above `max_s`."""

    first_s: float = 0.1
    """A gatekeeper that restarts is back within a second: the first tries may be quick."""
    max_s: float = 5.0
    """An app that sees its mesh return should not wait longer than this for its sidecar."""

    def delay_s(self, failures: int, chance: float) -> float:
        """Seconds to wait after `failures` failures in a row; `chance` lies between 0 and 1."""
        if failures < 1:
            return 0.0
        exponent = min(failures - 1, 32)
        return min(self.max_s, self.first_s * float(2**exponent)) * chance
