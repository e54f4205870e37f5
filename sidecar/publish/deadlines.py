"""Who has waited too long: deadlines of many waiters without a timer for each.

Entries with the same patience expire in the order in which they came, so one queue for each
patience finds the expired ones at its head. Pure: `now` comes in from outside.
"""

from collections import deque

from sidecar.publish.batch import Entry


class Deadlines:
    """The entries that wait, by how long they may. Belongs to the event loop.

    An answered entry stays queued until those before it are gone; `sweep` drops it then.
    """

    __slots__ = ("_queues",)

    def __init__(self) -> None:
        self._queues: dict[float, deque[Entry]] = {}

    def add(self, entry: Entry, now: float, patience_s: float) -> None:
        """Let `entry` expire `patience_s` after `now`."""
        entry.deadline = now + patience_s
        queue = self._queues.get(patience_s)
        if queue is None:
            queue = self._queues[patience_s] = deque()
        queue.append(entry)

    def sweep(self, now: float) -> list[Entry]:
        """Forget the answered entries; return those whose time is up and who still wait."""
        expired = []
        for patience_s, queue in list(self._queues.items()):
            while queue and (queue[0].reply is None or queue[0].deadline <= now):
                entry = queue.popleft()
                if entry.reply is not None:
                    expired.append(entry)
            if not queue:
                del self._queues[patience_s]
        return expired

    def __bool__(self) -> bool:
        return bool(self._queues)
