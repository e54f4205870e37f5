"""What was taken back before its time: the control log's revocations, as one value.

A set never changes; a new one takes its place, so that a check sees all of a change or none of
it. A revocation names a token's id, a client, or a certificate's serial; lists that CAs publish
are in `crl.py`. Pure: how records arrive from the core is elsewhere.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, Literal, get_args

from gatekeeper.identity.authentication_errors import (
    CertificateRefused,
    Reason,
    TokenRefused,
    quoted,
)
from gatekeeper.identity.certificates import PeerCertificate
from gatekeeper.identity.identity import Identity
from log_format.limits import NAME_BYTES_MAX

REVOCATIONS_MAX: Final = 200_000
"""Revocations in force at a time: about 100 MB. Tokens' end with the token, so this is plenty."""

Kind = Literal["token_id", "client", "certificate"]
_KINDS: Final[tuple[Kind, ...]] = get_args(Kind)


class BadRevocation(ValueError):
    """A record that cannot be applied. It must not be skipped: it revokes something."""


@dataclass(frozen=True, slots=True)
class Revocation:
    """One record. `issuer` narrows it: an issuer's name or URL for tokens and clients, a trust
    domain for certificates; None means any. `until` None means for ever; times are in seconds.
    """

    kind: Kind
    value: str
    issuer: str | None = None
    until: float | None = None
    reason: str = ""

    def concerns(self, *issuers: str) -> bool:
        """True when it is about one of these issuers, or about all."""
        return self.issuer is None or self.issuer in issuers

    def in_force(self, now: float) -> bool:
        """True until its end."""
        return self.until is None or now < self.until


def parse_revocation(record: Mapping[str, object]) -> Revocation:
    """A record as the core's `/v1/revocations` has it. Raises BadRevocation."""
    value, issuer = record.get("value"), record.get("issuer")
    until_us, reason = record.get("until_us"), record.get("reason") or ""
    kind = next((known for known in _KINDS if known == record.get("kind")), None)
    if kind is None:
        raise BadRevocation(f"kind: must be one of {', '.join(_KINDS)}; upgrade this gatekeeper?")
    if not isinstance(value, str) or not 0 < len(value.encode()) <= NAME_BYTES_MAX:
        raise BadRevocation(f"value: must be a string of 1 to {NAME_BYTES_MAX} bytes")
    if not isinstance(issuer, str | None) or issuer == "":
        raise BadRevocation("issuer: must be a string that is not empty, or null")
    if isinstance(until_us, bool) or not isinstance(until_us, int | None):
        raise BadRevocation("until_us: must be whole microseconds since 1970, or null")
    if not isinstance(reason, str):
        raise BadRevocation("reason: must be a string")
    if kind == "certificate":
        value = _serial_text(value)
    until = None if until_us is None else until_us / 1_000_000
    return Revocation(kind, value, issuer, until, reason)


@dataclass(frozen=True, slots=True)
class RevocationSet:
    """The revocations in force, and the version of the control log's list they stand for."""

    version: int = 0
    by_value: Mapping[tuple[str, str], tuple[Revocation, ...]] = field(
        default_factory=lambda: MappingProxyType({}), repr=False
    )

    def extended(self, version: int, added: Iterable[Revocation], now: float) -> "RevocationSet":
        """This set and `added`, without those that have ended.

        The last record about a thing counts: one whose end has passed lifts those before it.
        """
        kept: dict[tuple[str, str], tuple[Revocation, ...]] = {}
        for key, entries in self.by_value.items():
            alive = tuple(entry for entry in entries if entry.in_force(now))
            if alive:
                kept[key] = alive
        for entry in added:
            key = (entry.kind, entry.value)
            others = [other for other in kept.pop(key, ()) if other.issuer != entry.issuer]
            standing = (*others, entry) if entry.in_force(now) else tuple(others)
            if standing:
                kept[key] = standing
        if len(kept) > REVOCATIONS_MAX:
            raise BadRevocation(
                f"more than {REVOCATIONS_MAX} revocations are in force; give token revocations "
                "an end (until_us), or revoke the client instead"
            )
        return replace(self, version=version, by_value=MappingProxyType(kept))

    def check_certificate(self, peer: PeerCertificate, now: float) -> None:
        """Raise CertificateRefused when the certificate, or a CA above it, was revoked."""
        for link in peer.links:
            entries = self.by_value.get(("certificate", f"{link.serial:x}"), ())
            entry = _first(entries, now, peer.trust_domain)
            if entry is not None:
                raise CertificateRefused(
                    Reason.CERTIFICATE_REVOKED, f"the certificate was revoked{_why(entry)}"
                )

    def check_token(self, identity: Identity, now: float) -> None:
        """Raise TokenRefused when the token or its client was revoked."""
        issuers = (identity.issuer_url, identity.issuer)
        entry = _first(self.by_value.get(("token_id", identity.token_id), ()), now, *issuers)
        if entry is not None:
            raise TokenRefused(Reason.TOKEN_REVOKED, f"the token was revoked{_why(entry)}")
        entry = _first(self.by_value.get(("client", identity.client_id), ()), now, *issuers)
        if entry is not None:
            raise TokenRefused(
                Reason.CLIENT_REVOKED, f"the client {identity.client_id} was revoked{_why(entry)}"
            )


def _first(entries: Iterable[Revocation], now: float, *issuers: str) -> Revocation | None:
    for entry in entries:
        if entry.concerns(*issuers) and entry.in_force(now):
            return entry
    return None


def _why(entry: Revocation) -> str:
    return f": {quoted(entry.reason)}" if entry.reason else ""


def _serial_text(value: str) -> str:
    """A serial number in hexadecimal, as tools print it (`0A:1b`), in its one inner spelling."""
    digits = value.replace(":", "").lower().removeprefix("0x")
    try:
        serial = int(digits, 16) if digits.isalnum() else -1
    except ValueError:
        serial = -1
    if serial < 0:
        raise BadRevocation("value: a certificate's serial number must be written in hexadecimal")
    return f"{serial:x}"
