"""What a push worker is to carry out, read from a subscription's definition, and what it counts."""

from dataclasses import dataclass
from typing import Any, Final

from sidecar.delivery.tries import Try
from sidecar.errors import BadRequest
from sidecar.push.push_settings import Push, Settings, read_settings


@dataclass(frozen=True, slots=True)
class Plan:
    """What to carry out: a subscription's definition, read."""

    name: str
    owner: str
    topic: str
    ordered: bool
    settings: Settings
    push: Push

    @property
    def on_behalf_of(self) -> str:
        """The subscription that the app knows."""
        rerun = self.settings.rerun
        return self.name if rerun is None else rerun.of


def plan_of(definition: dict[str, Any]) -> Plan:
    """What to carry out, or BadRequest where this version does not understand it."""
    settings = read_settings(definition.get("settings"))
    if settings.push is None:
        raise BadRequest("settings.push", "is missing; another version may have written this")
    return Plan(
        str(definition["name"]),
        str(definition["owner"]),
        str(definition["topic"]),
        definition.get("mode") == "ordered",
        settings,
        settings.push,
    )


@dataclass(slots=True)
class Tally:
    """What one worker counts."""

    delivered: int = 0
    failed: int = 0
    dead: int = 0
    dropped: int = 0
    filtered: int = 0
    redelivered: int = 0
    last_delivered_us: int | None = None
    last_error: Try | None = None
    bury_error: str | None = None

    def add(self, other: "Tally") -> None:
        """Add another's counts; what was last is not a count."""
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))


COUNTS: Final = ("delivered", "failed", "dead", "dropped", "filtered", "redelivered")
