"""`issuer.yaml`: the development issuer's configuration. It refuses to be anything else.

May import `hosting` only, so that `--check-config` answers at once.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from hosting.environment import Environment
from hosting.units import Address, Seconds

TOKEN_TTL_S_MAX = 3600.0
"""A bound token that lives longer than an hour tests nothing that production would do."""


@dataclass(frozen=True)
class TlsConfig:
    """The issuer's own certificate and key; `ca` verifies the clients' certificates."""

    certificate: Path
    key: Path
    ca: Path


@dataclass(frozen=True)
class ClientConfig:
    """One OAuth client: proven by its certificate's SPIFFE id, or by keys of its own."""

    spiffe: str
    scopes: tuple[str, ...] = ()
    claims: dict[str, str] = field(default_factory=dict)
    keys: Path | None = None
    """A JWK Set with the public keys of a client that signs its requests (private_key_jwt)."""

    def problems(self) -> Iterator[tuple[str, str]]:
        """An identity is a SPIFFE id, and a claim of the protocol's own can't be chosen."""
        if not self.spiffe.startswith("spiffe://"):
            yield "spiffe", f"must begin with spiffe://, not {self.spiffe!r}"
        for name in sorted(RESERVED_CLAIMS & self.claims.keys()):
            yield f"claims.{name}", "is set by the issuer itself; choose another name"
        for scope in self.scopes:
            if not scope or any(not "!" <= letter <= "~" or letter in '"\\' for letter in scope):
                yield "scopes", f"{scope!r} is no scope: visible ASCII without quotes or spaces"


RESERVED_CLAIMS = frozenset(
    {"iss", "sub", "aud", "exp", "iat", "nbf", "jti", "client_id", "scope", "cnf"}
)


@dataclass(frozen=True)
class ClientsConfig:
    """The file that `clients_file` names."""

    clients: dict[str, ClientConfig]


@dataclass(frozen=True)
class IssuerConfig:
    """The whole file."""

    tls: TlsConfig
    issuer: str
    keys: Path
    """The private JWK Set that tokens are signed with; its first key signs."""
    clients: dict[str, ClientConfig] = field(default_factory=dict)
    clients_file: Path | None = None
    """Further clients, in a file of their own: a change of it takes effect without a restart."""
    audience: str = "urn:sidegate"
    token_ttl: Seconds = 600.0
    """Short enough that a refresh is seen while one works, long enough not to be noticed."""
    environment: Environment = "production"
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    listen: Address = field(default_factory=lambda: Address.parse("127.0.0.1:8446"))

    def problems(self) -> Iterator[tuple[str, str]]:
        """This issuer's keys lie readable in a project folder: it is for development alone."""
        if self.environment != "development":
            yield (
                "environment",
                (
                    "must be development: this issuer is no authorization server for production; "
                    "let the gatekeeper's policy name your own"
                ),
            )
        parts = urlsplit(self.issuer)
        if parts.scheme != "https" or not parts.netloc or parts.query or parts.fragment:
            yield "issuer", f"must be an https URL without query and fragment, not {self.issuer!r}"
        elif parts.path:
            yield "issuer", f"must have no path, not even a slash at its end: {self.issuer!r}"
        if not self.clients and self.clients_file is None:
            yield "clients", "name at least one client here, or a clients_file"
        if not 1 <= self.token_ttl <= TOKEN_TTL_S_MAX:
            yield "token_ttl", f"must lie between 1s and {TOKEN_TTL_S_MAX:.0f}s"
        if self.listen.is_unix:
            yield "listen", "must be host:port: clients reach the issuer by its https URL"
