"""The log's limits and choices, each with its unit and its reason.

Plain values; where they come from (a file, a test) is not known here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal

Durability = Literal["fsync", "interval", "os"]
"""When an append is acknowledged: after its sync, before a sync that follows soon, or at once."""

Reached = Literal["committed", "interval", "os"]
REACHED: Final[Mapping[Durability, Reached]] = MappingProxyType(
    {"fsync": "committed", "interval": "interval", "os": "os"}
)
"""How an answer names what an append had reached when it was acknowledged."""

MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class LogOptions:
    """How one log behaves. The defaults are those of the main log."""

    durability: Durability = "fsync"

    sync_interval_s: float = 0.2
    """How long an `interval` log may hold what it has acknowledged before it syncs."""

    segment_bytes: int = 256 * MIB
    """A segment's greatest length: small enough to rewrite in seconds, and 40 make up 10 GB."""

    group_bytes_max: int = 16 * MIB
    """What one sync may cover: bounds how long the first of a group waits for the last."""

    in_flight_bytes_max: int = 64 * MIB
    """Bytes accepted and not yet answered: two of the greatest requests, and it bounds memory."""

    hot_tail_bytes: int = 32 * MIB
    """Newest frames kept in memory: seconds of a busy log, so that live readers touch no disk."""

    disk_reserve_bytes: int = 256 * MIB
    """Room that appends leave free: one segment, so that the cleaner can rewrite one to gain. The
    system's own topics may use a quarter of it."""

    checkpoint_bytes: int = 64 * MIB
    """Appended bytes after which the index is saved: at most this and a group is scanned."""

    checkpoint_interval_s: float = 30.0
    """A slow log's index is saved this often, so that a restart after days scans little."""

    checkpoint_idle_s: float = 1.0
    """A log that falls silent saves its index after this: then damage to the last group of
    appends can be told from a torn write."""

    open_segments_max: int = 128
    """Sealed segments kept open, two descriptors each: far below the usual limit of 1024."""

    producers_max: int = 50_000
    """Producers remembered for exactly-once, one per (principal, producer, topic, partition),
    about 1 KB each. Beyond it the greatest principal's longest idle ones are forgotten."""

    erase_delay_s: float = 6 * 3600.0
    """How long a body that has expired may stay on disk while its segment is not worth rewriting,
    or still grows: short enough for a promise by the day, and few segments a day."""

    require_provenance: bool = True
    """Refuse a batch that no gatekeeper has signed for. Off for the core's own records."""

    check_sequences: bool = True
    """Keep producers' sequences. Off where one process alone writes and needs no numbering."""

    tree: bool = True
    """Keep the Merkle tree over all leaves. Off for the core's own logs, which nobody proves by."""

    accept_lost_leaves: int = 0
    """Leaves that were signed and then lost to damage, which the operator has looked into: with
    more than these the tree is refused, so that a log that was cut is never signed in silence."""

    def __post_init__(self) -> None:
        if not MIB // 256 <= self.segment_bytes <= 2048 * MIB:
            raise ValueError("segment_bytes must be from 4 KiB to 2 GiB; positions have 32 bits")
        for name in (
            "group_bytes_max",
            "in_flight_bytes_max",
            "checkpoint_bytes",
            "open_segments_max",
            "producers_max",
        ):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        if min(self.hot_tail_bytes, self.disk_reserve_bytes) < 0:
            raise ValueError("hot_tail_bytes and disk_reserve_bytes must not be negative")


@dataclass(frozen=True, slots=True)
class Retention:
    """How long a topic's bodies are kept. None means for ever. Envelopes always stay."""

    age_us: int | None = None
    """Since the append, by the log's clock."""

    bytes: int | None = None
    """Of the whole topic; the oldest go first."""

    drop_below: Mapping[int, int] = field(default_factory=dict)
    """Per partition, the offset below which everything goes: a deleted topic's old end."""
