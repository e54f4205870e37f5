"""The sidecar's configuration: one frozen value, read by `hosting.config`.

Every limit has its unit in its type or name and says why it is what it is. May import `hosting`
and `log_format`'s limits; holds file names, never what is in the files.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from hosting.environment import (
    Environment,
    development_identity_problems,
    loopback_issuer_problems,
)
from hosting.tracing import TracingConfig
from hosting.units import Address, ByteSize, Seconds
from log_format.limits import BODY_BYTES_MAX
from sidecar.push.destination import parse_allowed

MESSAGE_BYTES_CEILING = 8 * 1024 * 1024
"""A message, its columns and as much again in base64 fit into one batch and one request."""


@dataclass(frozen=True)
class TlsFilesConfig:
    """The sidecar's certificate (with its app's SPIFFE id), its key, and the gatekeepers' CA."""

    certificate: Path
    key: Path
    ca: Path


@dataclass(frozen=True)
class OAuthConfig:
    """Where access tokens come from, and how the sidecar proves that it is the client."""

    issuer: str
    client_id: str
    method: Literal["tls_client_auth", "private_key_jwt"] = "tls_client_auth"
    ca: Path | None = None
    """Who vouches for the issuer's certificate; the system's own authorities where absent."""
    audience: str | None = None
    scope: str | None = None
    key: Path | None = None
    """The client's private key as PEM, for private_key_jwt."""

    def problems(self) -> Iterator[tuple[str, str]]:
        """A token must never travel in the clear."""
        if not _is_https(self.issuer):
            yield "issuer", f"must be https://host/path, not {self.issuer!r}"
        if self.method == "private_key_jwt" and self.key is None:
            yield "key", "must name the client's private key (PEM) where method is private_key_jwt"


@dataclass(frozen=True)
class BatchConfig:
    """How messages become batches."""

    bytes_max: ByteSize = 1024 * 1024
    """A batch is closed at this size; larger ones gain nothing and make readers wait."""
    linger: Seconds = 0.0
    """How long the first message of an idle partition waits for company."""
    compression: Literal["auto", "none", "zstd"] = "auto"
    """zstd for bodies of 64 KiB and more: where it gains a third, always where it gains anything,
    or never."""

    def problems(self) -> Iterator[tuple[str, str]]:
        """A batch has to fit the format."""
        if not 1024 <= self.bytes_max <= BODY_BYTES_MAX // 2:
            yield "bytes_max", f"must lie between 1KiB and {BODY_BYTES_MAX // 2 // 1024}KiB"
        if self.linger > 10:
            yield "linger", "must be at most 10s; apps wait for it"


@dataclass(frozen=True)
class SpoolConfig:
    """The outbox on disk for what cannot be sent at once."""

    bytes_max: ByteSize = 1024 * 1024 * 1024
    """An hour of 250 KiB/s. What does not fit is refused with 503, never dropped."""
    segment_bytes: ByteSize = 16 * 1024 * 1024
    """Room is given back in files of this size; one is read into memory at a start."""
    drain_bytes_per_s: ByteSize = 32 * 1024 * 1024
    """How fast a partition's backlog is sent after an outage: a gatekeeper has others to serve."""
    rejects_bytes_max: ByteSize = 64 * 1024 * 1024
    """Batches that were refused after a 202; kept until somebody retries or drops them."""

    def problems(self) -> Iterator[tuple[str, str]]:
        """The largest batch must fit."""
        if self.segment_bytes < 1024 * 1024:
            yield "segment_bytes", "must be at least 1MiB"
        if self.bytes_max < 2 * self.segment_bytes:
            yield "bytes_max", "must be at least twice segment_bytes"
        if self.drain_bytes_per_s < 1024:
            yield "drain_bytes_per_s", "must be at least 1KiB"


@dataclass(frozen=True)
class DedupeConfig:
    """The window in which an app's own id is recognised when it comes again."""

    ids_max: int = 100_000
    """Newest ids that are remembered, of all topics together: about 25 MiB when full."""
    age: Seconds = 3600.0
    """How long an id is remembered once its message is in the log."""
    late: Seconds = 30.0
    """How long a request whose connection was lost may still reach the log: as long as a gatekeeper
    waits for the core. Until then "not in the log" does not mean "not sent"."""

    def problems(self) -> Iterator[tuple[str, str]]:
        """A window must hold something."""
        if self.ids_max < 1:
            yield "ids_max", "must be at least 1"


@dataclass(frozen=True)
class PushConfig:
    """Webhooks: where they may go, and what they may cost."""

    enabled: bool = True
    """Carry out the app's push subscriptions. False leaves them to other sidecars of the app."""
    allow: tuple[str, ...] = ("loopback",)
    """Destinations: loopback, an address, a network (10.0.0.0/8), a name or *.name; each may end
    with :port. A name alone allows its public addresses only."""
    secrets: Path | None = None
    """The folder with the files that `secret_file` names; each is for the sidecar alone (0600)."""
    ca: Path | None = None
    """Who vouches for https destinations; the system's own authorities where absent."""
    connections_max: int = 256
    """Requests to webhooks under way at one time, of all subscriptions."""
    held_messages_max: int = 10_000
    """Messages of one subscription in hand: on their way, or waiting for their next try."""
    held_bytes_max: ByteSize = 8 * 1024 * 1024
    """Their bytes. What waits beyond that waits in the log."""

    def problems(self) -> Iterator[tuple[str, str]]:
        """The allow list must be understood, and limits let something through."""
        for entry in self.allow:
            try:
                parse_allowed(entry)
            except ValueError as error:
                yield "allow", str(error)
        for name in ("connections_max", "held_messages_max"):
            if getattr(self, name) < 1:
                yield name, "must be at least 1"
        if self.held_bytes_max < 64 * 1024:
            yield "held_bytes_max", "must be at least 64KiB"


@dataclass(frozen=True)
class LimitsConfig:
    """What one sidecar spends on its app at most."""

    message_bytes_max: ByteSize = 1024 * 1024
    """One message's payload. Larger things belong into a store, with a reference in the log."""
    ring_entries_max: int = 65_536
    """Messages of one partition that wait for their batch: a burst of several seconds."""
    ring_bytes_max: ByteSize = 32 * 1024 * 1024
    """Their bytes: as much as one request to a gatekeeper may carry."""
    timeout: Seconds = 30.0
    """How long a publish waits for its outcome where it names no timeout_ms."""
    timeout_max: Seconds = 300.0
    """The longest timeout_ms that an app may ask for."""
    connections_max: int = 4_096
    """Open connections of apps; each costs a file descriptor."""
    streams_max: int = 2_000
    """Open subscriptions. Durable ones, and others while they catch up, hold a connection to a
    gatekeeper and up to stream_bytes_max each."""
    stream_bytes_max: ByteSize = 1024 * 1024
    """Bytes on their way to one subscriber before the gatekeeper has to wait."""
    request_bytes_max: ByteSize = 8 * 1024 * 1024
    """One append request to a gatekeeper; the wire allows 32 MiB."""
    requests_in_flight_max: int = 8
    """Append requests under way at one time, of which a busy partition has up to three: others
    need not wait for it."""

    def problems(self) -> Iterator[tuple[str, str]]:
        """Limits that would let nothing through are refused."""
        if not 1 <= self.message_bytes_max <= MESSAGE_BYTES_CEILING:
            yield (
                "message_bytes_max",
                f"must lie between 1 and {MESSAGE_BYTES_CEILING // 1024 // 1024}MiB",
            )
        for name in (
            "ring_entries_max",
            "connections_max",
            "streams_max",
            "requests_in_flight_max",
        ):
            if getattr(self, name) < 1:
                yield name, "must be at least 1"
        if self.ring_bytes_max < self.message_bytes_max:
            yield "ring_bytes_max", "must be at least message_bytes_max, or none would fit"
        if not 1024 <= self.request_bytes_max <= 24 * 1024 * 1024:
            yield "request_bytes_max", "must lie between 1KiB and 24MiB"
        if not 0 < self.timeout <= self.timeout_max:
            yield "timeout", "must be above 0 and at most timeout_max"


@dataclass(frozen=True)
class SidecarConfig:
    """`sidecar.yaml`."""

    tls: TlsFilesConfig
    gatekeepers: tuple[str, ...]
    gatekeeper_id: str
    """The SPIFFE id that a server must prove before it gets a single byte."""
    oauth: OAuthConfig
    data: Path
    environment: Environment = "production"
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    listen: Address = field(default_factory=lambda: Address.parse("127.0.0.1:9000"))
    tcp: Address | None = None
    """Where Go-Broker's line protocol is served, such as 127.0.0.1:9001; nowhere unless set."""
    health: Address | None = None
    """Health and metrics, and nothing else, for those who watch from outside: 0.0.0.0:9002."""
    allow_remote: bool = False
    """Listen beyond this machine. Whoever reaches the port then publishes as this app."""
    allowed_hosts: tuple[str, ...] = ()
    """Further names by which the app reaches the sidecar, as in the Host header."""
    require_registration: bool = False
    """Take messages only of publishers that have registered and say so."""
    app_token: Path | None = None
    """A file with a secret that the app must send as Authorization: Bearer. For machines that
    several apps share; without it, whoever reaches the port publishes as this app."""
    batch: BatchConfig = field(default_factory=BatchConfig)
    limits: LimitsConfig = field(default_factory=LimitsConfig)
    spool: SpoolConfig = field(default_factory=SpoolConfig)
    dedupe: DedupeConfig = field(default_factory=DedupeConfig)
    push: PushConfig = field(default_factory=PushConfig)
    tracing: TracingConfig | None = None
    overflow: Literal["wait", "reject", "drop_oldest"] = "wait"
    """When a partition's ring is full: wait until the timeout, reject at once, or (for ack=none
    only; others wait) drop the oldest that was published with ack=none."""

    def problems(self) -> Iterator[tuple[str, str]]:
        """What no single field can tell."""
        if not self.gatekeepers:
            yield "gatekeepers", "name at least one, such as https://gatekeeper.example:8443"
        for url in self.gatekeepers:
            if not _is_https(url) or urlsplit(url)[2:] not in (("", "", ""), ("/", "", "")):
                yield "gatekeepers", f"must be https://host:port, not {url!r}"
        if not self.gatekeeper_id.startswith("spiffe://"):
            yield "gatekeeper_id", "must be the gatekeepers' SPIFFE id, spiffe://…"
        for key, address in (("listen", self.listen), ("tcp", self.tcp)):
            if address is not None and not self.allow_remote and not _is_local(address):
                yield (
                    key,
                    f"{address} is open to other machines; use 127.0.0.1 or set allow_remote: true",
                )
        if self.tcp is not None and (self.app_token is not None or self.require_registration):
            yield "tcp", "cannot carry an app_token or a registration; leave one of them out"
        yield from development_identity_problems(
            self.environment, "gatekeeper_id", self.gatekeeper_id
        )
        yield from loopback_issuer_problems(self.environment, "oauth.issuer", self.oauth.issuer)


def _is_https(url: str) -> bool:
    """Whether `url` names a server to be reached over TLS, and nothing that is no URL."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    return (
        url.isascii()
        and parts.scheme == "https"
        and bool(parts.hostname)
        and port != 0
        and "@" not in parts.netloc
    )


def _is_local(address: Address) -> bool:
    return address.is_unix or _is_loopback(address.host)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
