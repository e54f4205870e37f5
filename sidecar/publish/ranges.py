"""What became of many messages of one request: ranges of offsets, the first failure. Pure."""

from dataclasses import dataclass, field
from typing import Any

from sidecar.errors import SidecarError
from sidecar.publish.batch import Committed, Kept, Outcome

_RANK = {"none": 0, "memory": 1, "spooled": 2, "os": 3, "interval": 4, "committed": 5}
"""The answer names the weakest durability that any of the messages has reached."""


@dataclass(slots=True)
class Ranges:
    """Adds outcomes up in the order in which the messages were sent."""

    runs: list[list[int]] = field(default_factory=list)
    """Partition, first offset, count; one for each unbroken run."""
    kept: int = 0
    durability: str | None = None
    failure: SidecarError | None = None
    failed_at: int | None = None

    def add(self, outcome: Outcome, index: int, count: int) -> None:
        """`count` messages from the `index`-th on have this outcome."""
        if isinstance(outcome, SidecarError):
            if self.failed_at is None or index < self.failed_at:
                self.failure, self.failed_at = outcome, index
            return
        if self.durability is None or _rank(outcome.durability) < _rank(self.durability):
            self.durability = outcome.durability
        if isinstance(outcome, Kept):
            self.kept += count
            return
        self._add_run(outcome, count)

    def _add_run(self, committed: Committed, count: int) -> None:
        for run in reversed(self.runs):
            if run[0] == committed.partition:
                if run[1] + run[2] == committed.offset:
                    run[2] += count
                    return
                break
        self.runs.append([committed.partition, committed.offset, count])

    @property
    def count(self) -> int:
        """Messages that were taken."""
        return self.kept + sum(run[2] for run in self.runs)

    @property
    def status(self) -> int:
        """202 where some are only kept so far."""
        return 202 if self.kept else 200

    def document(self) -> dict[str, Any]:
        """As an answer shows it."""
        return {
            "count": self.count,
            "durability": self.durability or "committed",
            "partitions": [
                {"partition": partition, "first_offset": offset, "count": count}
                for partition, offset, count in self.runs
            ],
        }


def _rank(durability: str) -> int:
    return _RANK.get(durability, 0)
