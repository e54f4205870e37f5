"""Whom the gatekeeper trusts: its issuers and trust domains, as plain settings.

The policy file and the service's config are where they come from; this module knows neither. What
is wrong with a setting is told by `problems`, all at once, as (key, text).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal
from urllib.parse import SplitResult, urlsplit

from gatekeeper.identity.jwk import ASYMMETRIC_ALGORITHMS
from hosting.spiffe import NotSpiffe, parse_trust_domain
from log_format.limits import NAME_BYTES_MAX

TTL_S_MAX: Final = 24 * 3600.0
"""The longest life that an issuer may be given for its tokens: a stolen one ends within a day."""
SKEW_S_MAX: Final = 300.0
"""Clocks that differ by more than five minutes are broken, and every second here is a second more
that an expired token is taken."""

Binding = Literal["required", "off"]
CrlMode = Literal["off", "required"]


@dataclass(frozen=True, slots=True)
class IssuerSettings:
    """One OAuth issuer. `name` is what the policy file calls it, `issuer` its exact `iss` claim.

    `ca` is a PEM file that vouches for the issuer's own HTTPS; None means the system's CAs.
    `jwks_uri` pins the address of its keys and leaves discovery out.
    """

    name: str
    issuer: str
    audience: str
    algorithms: tuple[str, ...] = ("ES256",)
    binding: Binding = "required"
    max_ttl_s: float = 900.0
    skew_s: float = 30.0
    ca: Path | None = None
    jwks_uri: str | None = None

    def problems(self) -> Iterator[tuple[str, str]]:
        """What is wrong with these settings."""
        if not self.name:
            yield "name", "must not be empty"
        yield from (("issuer", text) for text in url_problems(self.issuer, issuer=True))
        if self.jwks_uri is not None:
            yield from (("jwks_uri", text) for text in url_problems(self.jwks_uri, issuer=False))
        if not self.audience:
            yield "audience", "must not be empty: a token for another service would do"
        if not self.algorithms:
            yield "algorithms", "must name at least one algorithm"
        for unknown in sorted(set(self.algorithms) - ASYMMETRIC_ALGORITHMS):
            allowed = ", ".join(sorted(ASYMMETRIC_ALGORITHMS))
            yield "algorithms", f"{unknown} is not allowed for an issuer; allowed are {allowed}"
        if self.binding not in ("required", "off"):
            yield "binding", "must be required or off"
        if not 0 < self.max_ttl_s <= TTL_S_MAX:
            yield "max_ttl", f"must be more than 0 and at most {TTL_S_MAX:.0f} s"
        if not 0 <= self.skew_s <= SKEW_S_MAX:
            yield "skew", f"must be between 0 and {SKEW_S_MAX:.0f} s"


@dataclass(frozen=True, slots=True)
class TrustDomain:
    """One SPIFFE trust domain: the CAs in `bundle` speak for it, and for no other.

    With `crl: required` every certificate below those CAs must be covered by a current CRL in
    `crl_file`, or it is refused.
    """

    name: str
    bundle: Path
    crl: CrlMode = "off"
    crl_file: Path | None = None

    def problems(self) -> Iterator[tuple[str, str]]:
        """What is wrong with these settings."""
        try:
            parse_trust_domain(self.name)
        except NotSpiffe as error:
            yield "name", str(error)
        if self.crl not in ("off", "required"):
            yield "crl", "must be off or required"
        if self.crl == "required" and self.crl_file is None:
            yield "crl_file", "must be given when crl is required"
        if self.crl == "off" and self.crl_file is not None:
            yield "crl_file", "is not read while crl is off; set crl: required or remove it"


def origin_of(url: str) -> tuple[str, str, int]:
    """Scheme, host and port of a URL: what the same-origin rule compares."""
    parts = urlsplit(url)
    return parts.scheme, (parts.hostname or "").lower(), _port(parts)


def url_problems(url: str, *, issuer: bool) -> Iterator[str]:
    """What keeps a URL from being used: RFC 8414, section 2, wants https, and for an issuer neither
    query nor fragment."""
    try:
        parts = urlsplit(url)
        _port(parts)
    except ValueError:
        yield "is not a URL"
        return
    if parts.scheme != "https" or not parts.hostname:
        yield "must be an https URL"
    if parts.username is not None or parts.password is not None:
        yield "must not carry a user or password"
    if parts.fragment or "#" in url:
        yield "must not have a fragment"
    if issuer and (parts.query or "?" in url):
        yield "must not have a query"
    if not url.isascii() or any(character.isspace() for character in url):
        yield "must be written in ASCII without spaces"
    if len(url.encode()) > NAME_BYTES_MAX:
        yield f"must not be longer than {NAME_BYTES_MAX} bytes"


def _port(parts: SplitResult) -> int:
    return 443 if parts.port is None else parts.port
