"""What a member opens with, and what happens to it, as values."""

from collections.abc import Mapping
from dataclasses import dataclass

from sidecar.delivery.holdings import Delivery, Hold
from sidecar.delivery.topic_stream import Gap


@dataclass(frozen=True, slots=True)
class Membership:
    """What to open with. `create` makes the subscription where it is missing: its topic, and
    `from`, `mode`, `lease_ms`, `settings` as the wire has them."""

    subscription: str
    member: str
    owner: str | None = None
    create: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True)
class Revoked:
    """The hold goes to another member, or was lost: begin nothing more of it.

    Where `may_finish`, what is in hand may still be acknowledged, and when all of it is, the hold
    is released by itself; `release` it sooner where the rest will not be.
    """

    hold: Hold
    may_finish: bool


@dataclass(frozen=True, slots=True)
class Paused:
    """The subscription was paused (True), or goes on (False)."""

    paused: bool


@dataclass(frozen=True, slots=True)
class Changed:
    """The session's `definition` is another one now: `push` or `settings` were altered."""


Event = Delivery | Revoked | Gap | Paused | Changed | None
"""None stands for a heartbeat, or for a connection that is not back yet."""
