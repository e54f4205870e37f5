"""What to do about damage: a table, and nothing else.

Each batch carries the durable position at its writing: every leaf below it was synced by then.
So damage can be told apart. If anything proves that the damaged leaf had been synced, the disk
has lost what it had promised to keep: that is rot. It is quarantined and reported, and never cut.
If nothing does, it is the tail of a write that a crash has torn: nobody was told that it was
committed, and it is cut. Proof is any of: a later sound batch whose durable position lies above
the damaged leaf; the index checkpoint, which is only ever taken of synced leaves; a later segment,
because a segment is synced before the next one is begun.

**What cannot be told apart.** Damage to the very last synced group, after a crash and before the
next group or checkpoint, looks like a torn write: its own batches carry the durable position from
before it. Such a group is cut even if it had been acknowledged. A log that falls silent takes a
checkpoint within `checkpoint_idle_s`, and closing takes one, so this needs a crash and rot of the
same few kilobytes within about a second. The bytes are kept in a `.torn` file, and the report
counts the whole frames among them. In the modes `interval` and `os` the same holds for everything
since the last sync: that is what these modes promise.

Imports nothing; knows no file.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import product
from types import MappingProxyType
from typing import Final


class Place(Enum):
    """Where a segment is not as it was written."""

    HEAD = "head"
    """Its first bytes, which say which log and leaf it begins."""

    FRAMES = "frames"
    """Bytes among its frames, or at their end, that are not a sound frame."""

    END = "end"
    """Nowhere: all its bytes are sound, and they end where they end."""


class Action(Enum):
    """What is done about it."""

    NOTHING = "nothing"
    """This is the end of the log."""

    CUT = "cut"
    """Cut the file here: torn. What is cut off is kept aside."""

    DISCARD = "discard"
    """Remove the file: its creation was torn, no frame was ever in it."""

    QUARANTINE = "quarantine"
    """Leave the bytes, report them, and go on behind them."""

    QUARANTINE_AND_LEAVE = "quarantine and leave"
    """Leave the bytes, report them, and append to a new segment: this one ends in damage, and
    the leaves that are missing keep their numbers."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One place, as the scan has found it.

    `synced`: something proves that the leaf that belongs here was synced.
    `followed`: sound frames stand behind it in the same segment.
    """

    place: Place
    synced: bool
    followed: bool


TABLE: Final[Mapping[Finding, Action]] = MappingProxyType(
    {
        # A head is synced before the first frame is written: a frame behind it is proof enough.
        Finding(Place.HEAD, synced=True, followed=True): Action.QUARANTINE,
        Finding(Place.HEAD, synced=False, followed=True): Action.QUARANTINE,
        Finding(Place.HEAD, synced=True, followed=False): Action.QUARANTINE_AND_LEAVE,
        Finding(Place.HEAD, synced=False, followed=False): Action.DISCARD,
        Finding(Place.FRAMES, synced=True, followed=True): Action.QUARANTINE,
        Finding(Place.FRAMES, synced=True, followed=False): Action.QUARANTINE_AND_LEAVE,
        # Frames behind a torn one are of the same writes: unsynced, and not in order without it.
        Finding(Place.FRAMES, synced=False, followed=True): Action.CUT,
        Finding(Place.FRAMES, synced=False, followed=False): Action.CUT,
        # The file is sound as far as it goes, but leaves that were synced are not in it.
        Finding(Place.END, synced=True, followed=False): Action.QUARANTINE_AND_LEAVE,
        Finding(Place.END, synced=False, followed=False): Action.NOTHING,
    }
)
"""Every finding that can be made. Nothing follows the end, so those two do not exist."""


def findings() -> list[Finding]:
    """All inputs of the table."""
    return [
        Finding(place, synced, followed)
        for place, synced, followed in product(Place, (True, False), (True, False))
        if not (place is Place.END and followed)
    ]


def decide(place: Place, *, leaf: int, proven: int, followed: bool) -> Action:
    """What to do at `place`, where `leaf` is due and all leaves below `proven` were synced."""
    return TABLE[Finding(place, leaf < proven, followed)]
