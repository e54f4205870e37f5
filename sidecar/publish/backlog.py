"""What an earlier run has left in the spool for one partition, in compact arrays. Pure."""

from array import array
from typing import NamedTuple


class Place(NamedTuple):
    """A stored batch: where it is, and when it was written, in seconds since 1970."""

    position: int
    written_s: float


class Backlog:
    """Rows as they are found in the files; `resolve` says what they mean.

    A batch may be there twice, when the run ended between storing it with a new stamp and marking
    the old record. Both have the same order, and the newer record is the one that counts: the log
    had surely refused the older one.
    """

    __slots__ = ("_counts", "_orders", "_positions", "_written_us", "ids")

    def __init__(self) -> None:
        self._orders: array[int] = array("Q")
        self._positions: array[int] = array("Q")
        self._written_us: array[int] = array("q")
        self._counts: array[int] = array("q")
        self.ids: list[bytes] = []

    def add(self, order: int, position: int, written_us: int, count: int) -> None:
        """One record that is not marked."""
        self._orders.append(order)
        self._positions.append(position)
        self._written_us.append(written_us)
        self._counts.append(count)

    def resolve(self) -> tuple[list[Place], list[int]]:
        """Batches in the order in which they must be sent, and positions of no use any more."""
        rows = sorted(
            range(len(self._orders)), key=lambda row: (self._orders[row], self._positions[row])
        )
        places: list[Place] = []
        superseded: list[int] = []
        last_order = -1
        for row in rows:
            if self._orders[row] == last_order:
                superseded.append(places.pop().position)
            last_order = self._orders[row]
            places.append(Place(self._positions[row], self._written_us[row] / 1e6))
        return places, superseded

    def messages(self, places: list[Place]) -> int:
        """How many messages those batches hold."""
        counts = dict(zip(self._positions, self._counts, strict=True))
        return sum(counts[place.position] for place in places)
