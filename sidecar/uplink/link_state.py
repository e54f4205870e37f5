"""Whether the way to the log is open, since when, and why not. A value and its clock; no I/O."""

from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True)
class LinkState:
    """`since_us` is wall-clock time: it is shown to people."""

    connected: bool
    since_us: int
    reason: str | None = None

    def document(self) -> dict[str, object]:
        """As `/status` shows it."""
        since = datetime.fromtimestamp(self.since_us / 1e6, UTC)
        return {
            "uplink": "connected" if self.connected else "down",
            "uplink_reason": self.reason,
            "uplink_since": since.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        }
