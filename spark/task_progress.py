"""How far Spark is with what it runs now: tasks done and to do, asked twice a second."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from pyspark.sql import SparkSession

POLL_S: Final = 0.5
"""Often enough for a person, and nothing next to the work."""

Shown = Callable[[int, int], None]


class TaskProgress:
    """While it is entered, calls `show(done, total)` from a thread of its own."""

    def __init__(self, session: SparkSession, show: Shown) -> None:
        self._tracker = session.sparkContext.statusTracker()
        self._show = show
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="progress", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(POLL_S):
            done = total = 0
            for number in self._tracker.getActiveStageIds():
                stage = self._tracker.getStageInfo(number)
                if stage is not None:
                    done += stage.numCompletedTasks
                    total += stage.numTasks
            if total:
                self._show(done, total)
