"""The life of one message on its way to a webhook, as a table.

Two rules: a parcel moves only along `STEPS`, and whoever moves it does what `EFFECTS` says. Pure;
`push_queue.py` decides which parcel moves when. The docs' table is drawn from this one.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Any, Final

from sidecar.delivery.tries import Try


class State(Enum):
    """Where a parcel is."""

    WAITING = "waits for those of its key that were published before it, and for a free place"
    SENDING = "is on its way to the app"
    RESTING = "has failed and waits for its next try"
    BURYING = "has failed for good and is being written to the dead letters"
    UNBURIED = "could not be written there and waits for the next try of that"
    SETTLED = "is done with: acknowledged"
    GONE = "is another member's now"


class Event(Enum):
    """What happens to a parcel."""

    SENT = "a place is free, or its time has come"
    DELIVERED = "the app has taken it"
    FAILED = "the app has not, and there is another try"
    NOT_REACHED = "nothing was sent: the destination cannot be reached, and waiting is no try"
    EXHAUSTED = "the app has not, and that was the last try"
    BURIED = "it is in the dead letters"
    REFUSED = "the dead letters could not be written"
    LOST = "the right to deliver it went to another member"


class Effect(Enum):
    """What the one that moves a parcel does besides."""

    NONE = "nothing"
    POST = "send it to the app"
    ACK = "acknowledge it"
    COUNT = "report the failed try, and wake it later"
    PUT_BACK = "put it in front again, and let the destination rest"
    BURY = "report the failed try, and write the dead letter"
    BURY_LATER = "write the dead letter again later"
    FORGET = "drop it without a word"


STEPS: Final[dict[tuple[State, Event], tuple[State, Effect]]] = {
    (State.WAITING, Event.SENT): (State.SENDING, Effect.POST),
    (State.SENDING, Event.DELIVERED): (State.SETTLED, Effect.ACK),
    (State.SENDING, Event.FAILED): (State.RESTING, Effect.COUNT),
    (State.SENDING, Event.NOT_REACHED): (State.WAITING, Effect.PUT_BACK),
    (State.SENDING, Event.EXHAUSTED): (State.BURYING, Effect.BURY),
    (State.RESTING, Event.SENT): (State.SENDING, Effect.POST),
    (State.BURYING, Event.BURIED): (State.SETTLED, Effect.ACK),
    (State.BURYING, Event.REFUSED): (State.UNBURIED, Effect.BURY_LATER),
    (State.UNBURIED, Event.SENT): (State.BURYING, Effect.BURY),
    # A parcel that is under way when it is lost ends unseen: whatever comes of it, no hold is
    # left under which it could be acknowledged.
    (State.WAITING, Event.LOST): (State.GONE, Effect.FORGET),
    (State.SENDING, Event.LOST): (State.GONE, Effect.FORGET),
    (State.RESTING, Event.LOST): (State.GONE, Effect.FORGET),
    (State.BURYING, Event.LOST): (State.GONE, Effect.FORGET),
    (State.UNBURIED, Event.LOST): (State.GONE, Effect.FORGET),
    (State.GONE, Event.DELIVERED): (State.GONE, Effect.NONE),
    (State.GONE, Event.FAILED): (State.GONE, Effect.NONE),
    (State.GONE, Event.NOT_REACHED): (State.GONE, Effect.NONE),
    (State.GONE, Event.EXHAUSTED): (State.GONE, Effect.NONE),
    (State.GONE, Event.BURIED): (State.GONE, Effect.NONE),
    (State.GONE, Event.REFUSED): (State.GONE, Effect.NONE),
    (State.GONE, Event.LOST): (State.GONE, Effect.NONE),
    (State.SETTLED, Event.LOST): (State.SETTLED, Effect.NONE),
}
ENDS: Final = frozenset({State.SETTLED, State.GONE})
UNDER_WAY: Final = frozenset({State.SENDING, State.BURYING})
"""States whose outcome is awaited."""


class IllegalStep(RuntimeError):
    """A parcel was told something that cannot happen to it: a defect of ours."""


class Parcel:
    """One message that a member holds. `hold` is the right under which it is acknowledged; None
    for one that was acknowledged before it is sent."""

    __slots__ = (
        "awaited", "due_s", "history", "hold", "key", "offset", "partition", "record", "size",
        "state", "tries", "unburied", "untold",
    )  # fmt: skip

    def __init__(
        self,
        hold: Any,
        partition: int,
        offset: int,
        *,
        key: bytes | None,
        size: int,
        tries: int,
        record: Any,
    ) -> None:
        self.hold = hold
        self.partition = partition
        self.offset = offset
        self.key = key
        self.size = size
        self.tries = tries
        """Failed ones, of other members too."""
        self.record = record
        self.state = State.WAITING
        self.awaited = False
        """Its outcome is awaited: it takes one of the places, even when it is lost meanwhile."""
        self.due_s = 0.0
        self.unburied = 0
        """How often its dead letter could not be written."""
        self.history: Sequence[Try] = ()
        """What is known of the tries, those of a letter that it was before included."""
        self.untold: Sequence[Try] = ()
        """Those of them that the log does not know yet."""

    def move(self, event: Event) -> Effect:
        """Go where the table says."""
        step = STEPS.get((self.state, event))
        if step is None:
            raise IllegalStep(f"{event.name} happened to a parcel that is {self.state.name}")
        self.state, effect = step
        return effect
