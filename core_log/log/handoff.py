"""Moves values from a writer's thread to the event loop: one wake-up for all that wait.

Waking a loop costs a system call and a turn of the loop; a group commit answers many requests
at once and must not pay that for each of them.
"""

import asyncio
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")


class Handoff(Generic[T]):
    """A queue from any thread to one loop, in order. `take` runs on the loop with all that waits.

    Unbounded by itself: who puts has to bound what is in flight.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, take: Callable[[Sequence[T]], None]
    ) -> None:
        self._loop = loop
        self._take = take
        self._lock = Lock()
        self._waiting: list[T] = []

    def put(self, item: T) -> None:
        """Hand one item over. May be called from any thread; never blocks on the loop."""
        with self._lock:
            self._waiting.append(item)
            wake = len(self._waiting) == 1
        if wake:
            self._loop.call_soon_threadsafe(self._run)

    def _run(self) -> None:
        with self._lock:
            items, self._waiting = self._waiting, []
        self._take(items)
