"""What `/status` and `/metrics` count. Plain numbers; no I/O, no registry."""

from dataclasses import dataclass
from datetime import UTC, datetime

from sidecar.publish.results import AppendResult


@dataclass(slots=True)
class Counters:
    """Since the start of the process. Belongs to the event loop."""

    committed_messages: int = 0
    committed_batches: int = 0
    committed_bytes: int = 0
    denied_messages: int = 0
    rejected_messages: int = 0
    dropped_messages: int = 0
    in_doubt: int = 0
    spool_refusals: int = 0
    delivered_messages: int = 0
    filtered_messages: int = 0
    filter_errors: int = 0
    redelivered_messages: int = 0
    last_denial: dict[str, object] | None = None

    def committed(self, messages: int, frame_bytes: int) -> None:
        """A batch is in the log."""
        self.committed_messages += messages
        self.committed_batches += 1
        self.committed_bytes += frame_bytes

    def denied(self, topic: str, messages: int, result: AppendResult) -> None:
        """The policy has refused a batch."""
        self.denied_messages += messages
        self.last_denial = {
            "topic": topic,
            "at": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "decision_id": result.decision_id,
            "reason": result.reason,
            "detail": result.detail,
        }
