"""A partition's batches that are on disk only: where they are, oldest first, at 16 bytes each.

Pure. A long outage leaves millions of batches; a Python object for each would fill the memory
that the spool is there to spare.
"""

from array import array
from collections.abc import Iterable

_COMPACT_AT = 1024
"""The taken part at the front is given back when it is this long and half of all."""


class Shelf:
    """Positions in the spool and the times at which they were written. Belongs to the event loop.

    Invariant: positions stand in the order in which their batches must be sent.
    """

    __slots__ = ("_positions", "_taken", "_times")

    def __init__(self) -> None:
        self._positions: array[int] = array("Q")
        self._times: array[float] = array("d")
        self._taken = 0

    def __len__(self) -> int:
        return len(self._positions) - self._taken

    @property
    def oldest_s(self) -> float | None:
        """When the oldest was written, in seconds since 1970."""
        return self._times[self._taken] if len(self) else None

    def extend(self, places: Iterable[tuple[int, float]]) -> None:
        """Add newer batches at the end."""
        for position, written_s in places:
            self._positions.append(position)
            self._times.append(written_s)

    def put_back(self, positions: Iterable[int], written_s: float) -> None:
        """Return what was taken to the front."""
        returned = array("Q", positions)
        self._positions = returned + self._positions[self._taken :]
        self._times = array("d", [written_s]) * len(returned) + self._times[self._taken :]
        self._taken = 0

    def take(self, count: int) -> list[int]:
        """Remove up to `count` of the oldest and return their positions."""
        end = min(self._taken + count, len(self._positions))
        taken = self._positions[self._taken : end].tolist()
        self._taken = end
        if self._taken >= _COMPACT_AT and self._taken * 2 >= len(self._positions):
            del self._positions[: self._taken]
            del self._times[: self._taken]
            self._taken = 0
        return taken
