"""The gatekeeper's configuration: one frozen value, read by `hosting.config`.

Every limit has its unit in its type or name and says why it is what it is. May import `hosting`
only; holds file names, never what is in the files.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Literal

from hosting.environment import Environment, development_identity_problems
from hosting.tracing import TracingConfig
from hosting.units import Address, ByteSize, Seconds
from log_format.errors import BadField
from log_format.limits import NAME_BYTES_MAX
from log_format.note import check_key_name

KEEPALIVE_S_MAX = 15.0
"""aiohttp's own default is an hour; a caller who drips headers would hold a socket that long."""


@dataclass(frozen=True)
class TlsFilesConfig:
    """The gatekeeper's own certificate (with its SPIFFE id) and key; `ca` verifies the core."""

    certificate: Path
    key: Path
    ca: Path


@dataclass(frozen=True)
class TrustDomainConfig:
    """Which CAs speak for one SPIFFE trust domain, and whether their revocations are checked."""

    bundle: Path
    crl: Literal["off", "required"] = "off"
    crl_file: Path | None = None

    def problems(self) -> Iterator[tuple[str, str]]:
        """A required revocation list needs a file, and a file needs to be asked for."""
        if self.crl == "required" and self.crl_file is None:
            yield (
                "crl_file",
                "must be set where crl is required: the PEM file with the domain's CRL",
            )
        if self.crl == "off" and self.crl_file is not None:
            yield "crl_file", "is set but crl is off; set crl: required, or leave it out"


@dataclass(frozen=True)
class CoreConfig:
    """Where the core is: an https URL and the SPIFFE id it must have, or a Unix socket."""

    url: str | None = None
    unix: Path | None = None
    spiffe_id: str | None = None
    public_key: Path | None = None
    """The core's vkey, which signs its checkpoints; two while it is renewed, a line each. Without
    it this gatekeeper is no witness."""
    connect_timeout: Seconds = 5.0
    answer_timeout: Seconds = 30.0
    """Longest wait for an answer: a core that syncs a slow disk needs seconds, never a minute."""
    connections_max: int = 64
    """Connections for appends, each of which takes milliseconds. Reads and streams have their own,
    one for each of a caller's."""

    def problems(self) -> Iterator[tuple[str, str]]:
        """Exactly one of the two ways, each with what it needs."""
        if (self.url is None) == (self.unix is None):
            yield "url", "give either url (https://…) with spiffe_id, or unix, a socket's path"
        if self.url is not None:
            if not self.url.startswith("https://"):
                yield "url", f"must begin with https://, not {self.url!r}"
            if self.spiffe_id is None:
                yield "spiffe_id", "must name the SPIFFE id that the core's certificate has"
        if self.connections_max < 1:
            yield "connections_max", "must be at least 1"


@dataclass(frozen=True)
class LimitsConfig:
    """What one gatekeeper spends on its callers at most."""

    handshake_timeout: Seconds = 5.0
    """A TLS handshake takes two round trips; five seconds reach around the world many times."""
    handshakes_max: int = 512
    """Handshakes in progress. When one more comes, the oldest of the busiest source goes: an honest
    one takes milliseconds, so a flood of half-open connections only pushes out itself."""
    header_timeout: Seconds = KEEPALIVE_S_MAX
    """From the connection's begin, or from the last answer, until the next request's headers are
    there; this is also how long an idle connection stays open."""
    body_timeout: Seconds = 30.0
    """For a whole body, a request's or a read's answer: 32 MiB at 1 MiB/s."""
    header_bytes_max: ByteSize = 16 * 1024
    """One header: a large token fits; see the authenticator for how large one may be."""
    headers_max: int = 64
    """Headers of one request: Sidegate's own clients send ten."""
    request_bytes_max: ByteSize = 32 * 1024 * 1024
    """One append request, as the wire says."""
    json_bytes_max: ByteSize = 64 * 1024
    """A topic's description and a stream's control message: a few hundred bytes in practice."""
    in_flight_bytes_max: ByteSize = 256 * 1024 * 1024
    """Request bodies in memory at one time, of all callers together."""
    read_bytes_max: ByteSize = 8 * 1024 * 1024
    """One read's answer; greater wishes are cut to this."""
    wait_max: Seconds = 30.0
    """A read's longest wait for new messages."""
    connections_max: int = 10_000
    """Open connections after their handshake; each costs about 50 KiB."""
    connections_per_principal_max: int = 200
    """One service with a hundred replicas and a spare connection each."""
    connection_age_max: Seconds = 3600.0
    """Certificates are renewed daily or hourly; no connection outlives that by much."""
    streams_max: int = 5_000
    """Open streams of all callers together; each also holds a connection to the core."""
    stream_open_timeout: Seconds = 10.0
    """From the upgrade to the open message, as the wire says."""
    recheck_interval: Seconds = 1.0
    """How often open streams are checked for expiry and revocation, besides at every change."""

    def problems(self) -> Iterator[tuple[str, str]]:
        """Limits that would switch a protection off, or serve nobody, are refused."""
        if not 0 < self.header_timeout <= KEEPALIVE_S_MAX:
            yield "header_timeout", f"must be above 0 and at most {KEEPALIVE_S_MAX:.0f}s"
        for name in ("handshake_timeout", "body_timeout", "connection_age_max", "recheck_interval"):
            if getattr(self, name) <= 0:
                yield name, "must be above 0"
        for name in (
            "handshakes_max",
            "headers_max",
            "connections_max",
            "connections_per_principal_max",
            "streams_max",
            "request_bytes_max",
            "json_bytes_max",
            "read_bytes_max",
        ):
            if getattr(self, name) < 1:
                yield name, "must be at least 1"
        if self.in_flight_bytes_max < self.request_bytes_max:
            yield "in_flight_bytes_max", "must be at least request_bytes_max, or none would fit"


@dataclass(frozen=True)
class AuditConfig:
    """How the decision log is kept; see `gatekeeper/audit/decision_log.py`."""

    queue_max: int = 10_000
    """Records that wait for the core: about 5 MiB."""
    denials_per_s: float = 5.0
    """Denials of one principal that are written one by one; more are counted and summarised."""
    denials_burst: int = 20
    summary_interval: Seconds = 10.0
    """How often the counts of what was not written one by one are written."""
    wait_max: Seconds = 3.0
    """With audit_failure: closed, how long a decision waits until its record is committed."""
    stands_for: Seconds = 60.0
    """How long one allowed decision stands for the same caller, action and topic: a reader that
    polls makes one record a minute, and each of its reads quotes that record's id."""

    def problems(self) -> Iterator[tuple[str, str]]:
        """The queue and the rates must let something through."""
        if self.queue_max < 1 or self.denials_burst < 1 or self.denials_per_s <= 0:
            yield "queue_max", "queue_max, denials_burst and denials_per_s must be above 0"


@dataclass(frozen=True)
class WitnessConfig:
    """How the gatekeeper watches the core's tree; see `gatekeeper/witness/witness.py`."""

    on_fork: Literal["refuse", "alarm"] = "refuse"
    """Where the core's tree does not extend the last one: refuse appends, or raise the alarm only.
    Whoever goes on writes into a log whose past somebody may have changed."""
    interval: Seconds = 0.25
    """How often the core is asked: it signs at most five times a second, and receipts wait."""
    silence_max: Seconds = 60.0
    """How long a core that answers may show no acceptable checkpoint before that is an alarm."""

    def problems(self) -> Iterator[tuple[str, str]]:
        """A watch that never looks is none."""
        if not 0.05 <= self.interval <= 60:
            yield "interval", "must be from 50ms to 60s"
        if self.silence_max < self.interval:
            yield "silence_max", "must be at least the interval"


@dataclass(frozen=True)
class GatekeeperConfig:
    """`gatekeeper.yaml`."""

    id: str
    """This gatekeeper's name in provenance and in the decision log: its SPIFFE id."""
    tls: TlsFilesConfig
    trust_domains: dict[str, TrustDomainConfig]
    core: CoreConfig
    signing_key: Path
    policy: Path
    data: Path
    environment: Environment = "production"
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    listen: Address = field(default_factory=lambda: Address.parse(":8443"))
    admin: Address = field(default_factory=lambda: Address.parse("127.0.0.1:8444"))
    health: Address = field(default_factory=lambda: Address.parse(":8445"))
    audit_failure: Literal["closed", "count"] = "closed"
    limits: LimitsConfig = field(default_factory=LimitsConfig)
    audit: AuditConfig = field(default_factory=AuditConfig)
    witness: WitnessConfig = field(default_factory=WitnessConfig)
    tracing: TracingConfig | None = None

    def problems(self) -> Iterator[tuple[str, str]]:
        """What no single field can tell."""
        if not self.trust_domains:
            yield "trust_domains", "name at least one trust domain and its bundle"
        if not 1 <= len(self.id.encode()) <= NAME_BYTES_MAX:
            yield "id", f"must have 1 to {NAME_BYTES_MAX} bytes"
        elif self.core.public_key is not None:
            try:
                check_key_name(self.id)
            except BadField as error:
                yield "id", f"is also the witness's name: {error}"
        if self.listen.is_unix:
            yield "listen", "must be host:port; the gatekeeper serves mTLS over TCP"
        if not self.admin.is_unix and not _is_loopback(self.admin.host):
            yield "admin", f"must be on a loopback address, not {str(self.admin)!r}"
        yield from development_identity_problems(
            self.environment, "trust_domains", *self.trust_domains
        )
        yield from development_identity_problems(
            self.environment, "core.spiffe_id", *filter(None, [self.core.spiffe_id])
        )
        yield from development_identity_problems(self.environment, "id", self.id)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
