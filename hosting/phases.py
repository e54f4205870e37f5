"""The phases of a service's life, and what moves it from one to the next. Pure.

Two rules: a service goes forward only, and it drains only what it may have accepted.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final


class Phase(Enum):
    """Where a service is in its life."""

    NEW = "new"
    STARTING = "starting"
    RUNNING = "running"
    DRAINING = "draining"
    STOPPING = "stopping"
    STOPPED = "stopped"


class Event(Enum):
    """What happens to a service."""

    BEGIN = "begin"
    STARTED = "started"
    STOP_ASKED = "stop_asked"
    DRAINED = "drained"
    ENDED = "ended"


TRANSITIONS: Final[Mapping[tuple[Phase, Event], Phase]] = {
    (Phase.NEW, Event.BEGIN): Phase.STARTING,
    (Phase.STARTING, Event.STARTED): Phase.RUNNING,
    # Not ready yet, so nobody was promised anything: there is nothing to drain.
    (Phase.STARTING, Event.STOP_ASKED): Phase.STOPPING,
    (Phase.RUNNING, Event.STOP_ASKED): Phase.DRAINING,
    (Phase.DRAINING, Event.DRAINED): Phase.STOPPING,
    (Phase.STOPPING, Event.ENDED): Phase.STOPPED,
}
"""Every other pair leaves the phase as it is."""


def next_phase(phase: Phase, event: Event) -> Phase:
    """The phase after `event`."""
    return TRANSITIONS.get((phase, event), phase)
