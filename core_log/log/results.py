"""What the log hands out: values only, made per batch and shared by all who read them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from core_log.log.log_errors import NO_MEMBERS
from core_log.log.options import Durability, Reached


@dataclass(frozen=True, slots=True)
class Appended:
    """A frame that the log holds. `duplicate` says that it was there before this append."""

    topic: str
    partition: int
    base_offset: int
    count: int
    leaf: int
    append_us: int
    durability: Reached
    duplicate: bool


@dataclass(frozen=True, slots=True)
class Refused:
    """A frame that was not appended, or (`storage_failed`) whose fate a restart will tell."""

    topic: str
    partition: int
    code: str
    detail: str
    retryable: bool
    members: Mapping[str, object] = field(default_factory=lambda: NO_MEMBERS)


@dataclass(frozen=True, slots=True)
class Committed:
    """A new frame, as written. `frame` is one bytes object that every reader shares."""

    topic: str
    partition: int
    base_offset: int
    count: int
    append_us: int
    leaf: int
    frame: bytes


@dataclass(frozen=True, slots=True)
class ReadResult:
    """Whole frames as they lie on disk, and where to go on."""

    frames: tuple[bytes, ...]
    next_offset: int
    start_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class LostRange:
    """What damage has cost: leaves, and a partition's offsets where these could be told."""

    first_leaf: int
    end_leaf: int
    topic: str | None = None
    partition: int | None = None
    first_offset: int | None = None
    end_offset: int | None = None


@dataclass(frozen=True, slots=True)
class Quarantined:
    """Bytes that are damaged although they were once synced. They stay where they are.

    `leaf` is the one that was due there.
    """

    segment: str
    position: int
    length: int
    leaf: int
    why: str


@dataclass(frozen=True, slots=True)
class Cut:
    """A torn tail that was cut off. `kept` names the file that holds the bytes, if any."""

    segment: str
    position: int
    length: int
    leaf: int
    whole_frames: int
    kept: str | None


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """What opening the log found and did."""

    clean: bool
    scanned_bytes: int
    scanned_frames: int
    rebuilt_indexes: int
    cuts: tuple[Cut, ...]
    quarantined: tuple[Quarantined, ...]
    lost: tuple[LostRange, ...]
    notes: tuple[str, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class CleanReport:
    """What one pass of the cleaner did."""

    starts_moved: int
    segments_rewritten: int
    bodies_removed: int
    bytes_freed: int
    waiting_bytes: int
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LogStatus:
    """The log at a glance."""

    leaves: int
    durable_leaves: int
    segments: int
    partitions: int
    bytes: int
    free_bytes: int
    disk_full: bool
    failed: bool
    durability: Durability
    in_flight_bytes: int
    hot_bytes: int
    producers: int
    lost_leaves: int
    groups: int
    last_sync_s: float
    checkpoint_leaf: int
