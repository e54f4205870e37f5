"""What a publish answers, as data: one cell for each situation and each `ack`.

`docs/sidecar.md` shows the same table; a test holds the two together and another one drives the
sidecar into every cell. Pure.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from sidecar.publish.batch import Ack


class Situation(Enum):
    """What has become of a message when its app is to be answered."""

    COMMITTED = "committed in time"
    UPLINK_DOWN = "uplink known to be down, room in the spool"
    NO_ANSWER = "sent, no answer within timeout_ms"
    BEHIND_SPOOL = "spool not yet drained"
    SPOOL_FULL = "spool full"
    DENIED = "policy denies"
    OVER_QUOTA = "over quota"


class Answer(Enum):
    """How an app is answered: a status, and a `durability` or a problem's `code`."""

    COMMITTED = (200, "committed")
    SPOOLED = (202, "spooled")
    TAKEN = (202, "none")
    NEVER_SENT = (503, "uplink_down")
    SPOOL_FULL = (503, "spool_full")
    IN_DOUBT = (504, "in_doubt")
    DENIED = (403, "denied")
    OVER_QUOTA = (429, "over_quota")
    WAIT = (0, "behind it: committed, or in_doubt at the timeout")
    UNCONCERNED = (0, "as without a spool: committed, uplink_down or in_doubt")


OUTCOMES: Final[Mapping[Situation, Mapping[Ack, Answer]]] = {
    Situation.COMMITTED: {
        Ack.AUTO: Answer.COMMITTED,
        Ack.CORE: Answer.COMMITTED,
        Ack.SIDECAR: Answer.SPOOLED,
        Ack.NONE: Answer.TAKEN,
    },
    Situation.UPLINK_DOWN: {
        Ack.AUTO: Answer.SPOOLED,
        Ack.CORE: Answer.NEVER_SENT,
        Ack.SIDECAR: Answer.SPOOLED,
        Ack.NONE: Answer.TAKEN,
    },
    Situation.NO_ANSWER: {
        Ack.AUTO: Answer.SPOOLED,
        Ack.CORE: Answer.IN_DOUBT,
        Ack.SIDECAR: Answer.SPOOLED,
        Ack.NONE: Answer.TAKEN,
    },
    Situation.BEHIND_SPOOL: {
        Ack.AUTO: Answer.SPOOLED,
        Ack.CORE: Answer.WAIT,
        Ack.SIDECAR: Answer.SPOOLED,
        Ack.NONE: Answer.TAKEN,
    },
    Situation.SPOOL_FULL: {
        Ack.AUTO: Answer.SPOOL_FULL,
        Ack.CORE: Answer.UNCONCERNED,
        Ack.SIDECAR: Answer.SPOOL_FULL,
        Ack.NONE: Answer.SPOOL_FULL,
    },
    # Where 202 was said before the refusal came, a denied batch goes to the reject file, and one
    # over quota is sent later.
    Situation.DENIED: {
        Ack.AUTO: Answer.DENIED,
        Ack.CORE: Answer.DENIED,
        Ack.SIDECAR: Answer.SPOOLED,
        Ack.NONE: Answer.TAKEN,
    },
    Situation.OVER_QUOTA: {
        Ack.AUTO: Answer.OVER_QUOTA,
        Ack.CORE: Answer.OVER_QUOTA,
        Ack.SIDECAR: Answer.SPOOLED,
        Ack.NONE: Answer.TAKEN,
    },
}
