"""The window of app ids: a message whose id was seen is not published again. Pure.

Scope: one sidecar and one topic; the newest `ids_max` ids, for `age_s` at most. Content is not
compared: the id alone says that it is the same message. `dedupe_journal.py` keeps it over restarts.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from enum import Enum
from hashlib import blake2b
from typing import Final

from sidecar.publish.batch import Committed, Entry

KEY_BYTES: Final = 16
"""Of a hash over topic and id: two ids that collide are not found in a lifetime."""


class Stage(Enum):
    """What is known of an id."""

    PENDING = "pending"
    """Accepted in this run; its outcome will come."""
    SPOOLED = "spooled"
    """In the spool since an earlier run; its outcome will come."""
    UNKNOWN = "unknown"
    """Accepted by an earlier run that ended before the outcome: only the log can tell."""
    DONE = "done"
    """In the log."""


@dataclass(slots=True)
class Seen:
    """One id. `followers` are repeats that wait for the same outcome."""

    stage: Stage
    at_s: float
    partition: int = 0
    offset: int = 0
    durability: str = ""
    leader: Entry | None = None
    followers: list[Entry] = field(default_factory=list)

    @property
    def is_stored(self) -> bool:
        """Whether the message is on the sidecar's disk."""
        return self.stage is Stage.SPOOLED or (self.leader is not None and self.leader.stored)


def dedupe_key(topic: str, identity: bytes) -> bytes:
    """What an id is remembered by. The topic's name cannot hold the byte between the two."""
    return blake2b(topic.encode("ascii") + b"\0" + identity, digest_size=KEY_BYTES).digest()


class DedupeWindow:
    """Ids in the order in which they came. Belongs to the event loop.

    An id whose outcome is still open is never forgotten to make room: there are no more of those
    than messages under way.
    """

    def __init__(self, ids_max: int, age_s: float) -> None:
        self._ids_max = ids_max
        self._age_s = age_s
        self._seen: OrderedDict[bytes, Seen] = OrderedDict()

    def __len__(self) -> int:
        return len(self._seen)

    def find(self, key: bytes, now_s: float) -> Seen | None:
        """What is known of an id, if it is still within the window."""
        seen = self._seen.get(key)
        if seen is None or (seen.stage is Stage.DONE and now_s - seen.at_s > self._age_s):
            return None
        return seen

    def put(self, key: bytes, seen: Seen) -> None:
        """Remember an id as the newest."""
        self._seen[key] = seen
        self._seen.move_to_end(key)
        while len(self._seen) > self._ids_max:
            oldest = next(iter(self._seen))
            if self._seen[oldest].stage in (Stage.PENDING, Stage.SPOOLED):
                break
            del self._seen[oldest]

    def done(self, key: bytes, committed: Committed, now_s: float) -> list[Entry]:
        """The message is in the log; the entries that are to be told."""
        seen = self._seen.get(key) or Seen(Stage.DONE, now_s)
        followers, seen.followers = seen.followers, []
        seen.stage, seen.at_s, seen.leader = Stage.DONE, now_s, None
        seen.partition, seen.offset = committed.partition, committed.offset
        seen.durability = committed.durability
        self.put(key, seen)
        return followers

    def unsettle(self, key: bytes, now_s: float) -> list[Entry]:
        """Nothing more will be learnt of the message here; the entries that are to be told."""
        seen = self._seen.get(key)
        self.put(key, Seen(Stage.UNKNOWN, now_s if seen is None else min(now_s, seen.at_s)))
        return [] if seen is None else seen.followers

    def forget(self, key: bytes) -> list[Entry]:
        """The message is surely not in the log, and may be sent again; who is to be told."""
        seen = self._seen.pop(key, None)
        return [] if seen is None else seen.followers
