"""The core's configuration: what `core.yaml` and `SIDEGATE_CORE_…` may say.

A frozen value with its own checks. May import hosting's units and the log's options; must never
open a file, so that `--check-config` touches nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from core_log.log.options import MIB, Durability, LogOptions
from hosting.environment import Environment, development_identity_problems
from hosting.spiffe import NotSpiffe, parse_spiffe_id
from hosting.tls_contexts import TlsFiles
from hosting.tracing import TracingConfig
from hosting.units import Address, ByteSize, Seconds

LogLevel = Literal["debug", "info", "warning", "error"]


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The log on disk. Each limit's reason stands with it in `LogOptions`."""

    durability: Durability = "fsync"
    interval_ms: int = 200
    """Only for `durability: interval`: how long an acknowledged batch may wait for its sync."""
    segment_bytes: ByteSize = 256 * MIB
    in_flight_bytes_max: ByteSize = 64 * MIB
    disk_reserve_bytes: ByteSize = 256 * MIB
    hot_tail_bytes: ByteSize = 32 * MIB
    producers_max: int = 50_000
    accept_lost_leaves: int = 0
    """How many signed batches may be lost; what is refused at the start names the number."""
    clean_interval: Seconds = 60.0
    """How often retention is applied: ages are given in days, so a minute is soon."""

    def options(self) -> LogOptions:
        """The same, as the log takes it."""
        return LogOptions(
            durability=self.durability,
            sync_interval_s=self.interval_ms / 1000,
            segment_bytes=self.segment_bytes,
            in_flight_bytes_max=self.in_flight_bytes_max,
            disk_reserve_bytes=self.disk_reserve_bytes,
            hot_tail_bytes=self.hot_tail_bytes,
            producers_max=self.producers_max,
            accept_lost_leaves=self.accept_lost_leaves,
        )

    def problems(self) -> Iterator[tuple[str, str]]:
        """What the log itself would refuse, and what would make no sense."""
        if not 1 <= self.interval_ms <= 60_000:
            yield "interval_ms", "must be between 1 and 60000 milliseconds"
        if self.clean_interval < 1:
            yield "clean_interval", "must be at least 1s"
        try:
            self.options()
        except ValueError as error:
            yield "", str(error)


@dataclass(frozen=True, slots=True)
class LimitsConfig:
    """Limits on what callers may use."""

    request_bytes_max: ByteSize = 128 * MIB
    """Bodies of append requests in memory, all together: four of the greatest at a time."""
    streams_max: int = 10_000
    """Open streams: each costs a file descriptor and up to half a megabyte of buffers."""
    memory_topic_bytes: ByteSize = 64 * MIB
    """Newest frames of all topics with `storage: memory`, for readers that are a moment late."""

    def problems(self) -> Iterator[tuple[str, str]]:
        """Limits below which nothing works."""
        if self.request_bytes_max < MIB:
            yield "request_bytes_max", "must be at least 1MiB"
        if self.streams_max < 1:
            yield "streams_max", "must be at least 1"
        if self.memory_topic_bytes < MIB:
            yield "memory_topic_bytes", "must be at least 1MiB"


@dataclass(frozen=True, slots=True)
class CoreConfig:
    """One core. It listens at a TLS port, or at a Unix socket; never at a bare port."""

    listen: Address
    health: Address
    data: Path
    tls: TlsFiles | None = None
    admit: tuple[str, ...] = ()
    """SPIFFE ids of the gatekeepers that may connect over TLS."""
    admit_uids: tuple[int, ...] = ()
    """User ids that gatekeepers run as, where they connect over a Unix socket."""
    auto_create_topics: bool = False
    """Make a topic on its first publish or subscribe: for development."""
    signing_key: Path | None = None
    """Ed25519 in PEM, mode 0600: it signs the log's checkpoints."""
    signer: Address | None = None
    """In place of a key of its own: the socket of a signer process, `unix:PATH`."""
    witness_keys: Path | None = None
    """Public keys of the witnesses, a vkey a line: cosignatures of others are then refused."""
    log: LogConfig = field(default_factory=LogConfig)
    limits: LimitsConfig = field(default_factory=LimitsConfig)
    tracing: TracingConfig | None = None
    environment: Environment = "production"
    log_level: LogLevel = "info"

    def problems(self) -> Iterator[tuple[str, str]]:
        """Whatever would leave the core open, or closed to everybody."""
        if self.listen.is_unix:
            if not self.admit_uids:
                yield "admit_uids", "must name the user ids of gatekeepers for a Unix socket"
            for uid in self.admit_uids:
                if uid < 0:
                    yield "admit_uids", f"{uid} is not a user id"
        else:
            if self.tls is None:
                yield "tls", "must be given unless `listen` is a Unix socket (unix:PATH)"
            elif self.tls.ca is None:
                yield "tls.ca", "must name the CA of the gatekeepers' certificates"
            if not self.admit:
                yield "admit", "must name the SPIFFE ids of gatekeepers"
        for identity in self.admit:
            try:
                parse_spiffe_id(identity)
            except NotSpiffe as error:
                yield "admit", str(error)
        yield from development_identity_problems(self.environment, "admit", *self.admit)
        yield from self._signing_problems()

    def _signing_problems(self) -> Iterator[tuple[str, str]]:
        if self.signer is not None:
            if not self.signer.is_unix:
                yield "signer", "must be a Unix socket (unix:PATH), where the kernel names us"
            if self.signing_key is not None:
                yield "signer", "is given together with signing_key; one of them signs"
