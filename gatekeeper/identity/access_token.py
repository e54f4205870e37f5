"""An access token of RFC 9068, bound to a certificate by RFC 8705: what must hold, and in order.

Everything is a function of the token, the issuer's settings, one key, the peer's certificate and
the time. Fetches nothing, keeps nothing, and reads no clock.
"""

import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from gatekeeper.identity.authentication_errors import Reason, TokenRefused, quoted
from gatekeeper.identity.base64url import NotBase64url, decode_base64url
from gatekeeper.identity.certificates import PeerCertificate
from gatekeeper.identity.identity import Identity
from gatekeeper.identity.jwk import VerificationKey
from gatekeeper.identity.jws import CompactJws, check_signature, parse_compact
from gatekeeper.identity.strict_json import NotStrictJson, load_object
from gatekeeper.identity.trust import IssuerSettings
from log_format.limits import NAME_BYTES_MAX

SCOPES_MAX: Final = 256
"""Scopes in one token; beyond it a token is a directory, and each is kept with the identity."""
AUDIENCES_MAX: Final = 64
"""Audiences in one token. One is best; an issuer that lists its whole estate is refused."""

_TYPES: Final = frozenset({"at+jwt", "application/at+jwt"})
_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
"""RFC 6749, appendix A.4: what a scope is made of."""
_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_TIME_MAX: Final = 253_402_300_800
"""The year 10000. Larger dates are a mistake or an attempt at an overflow."""
_BINDING_MEMBER: Final = "x5t#S256"
_OTHER_BINDINGS: Final = frozenset({"jwk", "jwe", "jku", "kid", "jkt"})
"""RFC 7800 and RFC 9449: bindings to keys that a client proves in ways not supported here."""


@dataclass(frozen=True, slots=True)
class UnverifiedToken:
    """A well-formed token about which nothing is proven yet.

    `issuer` may be used to find settings and keys, and for nothing else.
    """

    issuer: str
    jws: CompactJws
    claims: Mapping[str, object] = field(repr=False)


def read_token(compact: str) -> UnverifiedToken:
    """Read a token far enough to know whose key must verify it."""
    jws = parse_compact(compact)
    # RFC 8725, sections 3.11 and 3.12: an ID token, a logout token or a client's assertion from
    # the same issuer, with the same key, is not an access token.
    if jws.typ is None or jws.typ.lower() not in _TYPES or not jws.typ.isascii():
        raise TokenRefused(
            Reason.TOKEN_WRONG_TYPE,
            "the token's `typ` must be at+jwt (RFC 9068); let the issuer make JWT access tokens",
        )
    if jws.cty is not None:
        raise TokenRefused(Reason.TOKEN_WRONG_TYPE, "nested tokens (`cty`) are not supported")
    try:
        claims = load_object(jws.payload)
    except NotStrictJson as error:
        raise TokenRefused(
            Reason.TOKEN_MALFORMED, f"the token is malformed: its payload is {error}"
        ) from error
    return UnverifiedToken(_name(claims, "iss"), jws, claims)


def verify_access_token(
    token: UnverifiedToken,
    settings: IssuerSettings,
    key: VerificationKey,
    peer: PeerCertificate,
    now: float,
) -> Identity:
    """Who the token and the certificate together prove the caller to be.

    Raises TokenRefused with the reason of the first check that fails. `expires_at` of the
    identity includes the skew: it is the moment from which the token is refused.
    """
    check_signature(token.jws, key, settings.algorithms)
    claims = token.claims
    if token.issuer != settings.issuer:
        raise TokenRefused(
            Reason.UNKNOWN_ISSUER,
            f"the token's issuer {quoted(token.issuer)} is not {settings.name}",
        )
    _check_audience(claims, settings)
    expires_at = _check_times(claims, settings, now)
    client_id, subject, token_id = (_name(claims, claim) for claim in ("client_id", "sub", "jti"))
    scopes = _scopes(claims)
    _check_binding(claims, settings, peer)
    return Identity(
        spiffe_id=peer.spiffe_id,
        thumbprint=peer.thumbprint,
        issuer=settings.name,
        issuer_url=settings.issuer,
        client_id=client_id,
        subject=subject,
        token_id=token_id,
        scopes=scopes,
        expires_at=expires_at,
        claims=MappingProxyType(dict(claims)),
    )


def _check_audience(claims: Mapping[str, object], settings: IssuerSettings) -> None:
    """RFC 8725, section 3.9; RFC 9700, section 2.3."""
    audience = claims.get("aud")
    if audience is None:
        raise _missing("aud")
    audiences = [audience] if isinstance(audience, str) else audience
    if not isinstance(audiences, list) or not all(isinstance(item, str) for item in audiences):
        raise _wrong("aud", "must be a string or a list of strings")
    if len(audiences) > AUDIENCES_MAX:
        raise _wrong("aud", f"must not name more than {AUDIENCES_MAX} audiences")
    if settings.audience not in audiences:
        raise TokenRefused(
            Reason.WRONG_AUDIENCE,
            f"the token is for {quoted(', '.join(audiences))}, not for {settings.audience}; "
            "ask the issuer for a token with this audience",
        )


def _check_times(claims: Mapping[str, object], settings: IssuerSettings, now: float) -> float:
    expires = _time(claims, "exp")
    issued = _time(claims, "iat")
    not_before = _time(claims, "nbf") if "nbf" in claims else issued
    skew_s = settings.skew_s
    if expires + skew_s <= now:
        raise TokenRefused(
            Reason.TOKEN_EXPIRED,
            f"the token expired {now - expires:.0f} s ago; get a new one from the issuer",
        )
    if max(issued, not_before) > now + skew_s:
        raise TokenRefused(
            Reason.TOKEN_NOT_YET_VALID,
            f"the token is valid {max(issued, not_before) - now:.0f} s from now; compare the "
            f"clocks (up to {skew_s:.0f} s of difference are taken)",
        )
    if expires <= issued:
        raise _wrong("exp", "must be later than `iat`")
    if expires - issued > settings.max_ttl_s or expires > now + settings.max_ttl_s + skew_s:
        raise TokenRefused(
            Reason.TOKEN_LIVES_TOO_LONG,
            f"the token lives {expires - issued:.0f} s; {settings.name} may give "
            f"{settings.max_ttl_s:.0f} s (max_ttl)",
        )
    return expires + skew_s


def _scopes(claims: Mapping[str, object]) -> frozenset[str]:
    scope = claims.get("scope", "")
    if not isinstance(scope, str):
        raise _wrong("scope", "must be a string")
    scopes = scope.split(" ") if scope else []
    if len(scopes) > SCOPES_MAX:
        raise _wrong("scope", f"must not have more than {SCOPES_MAX} scopes")
    if not all(_SCOPE.fullmatch(item) for item in scopes):
        raise _wrong("scope", "must be scopes with one space between them")
    return frozenset(scopes)


def _check_binding(
    claims: Mapping[str, object], settings: IssuerSettings, peer: PeerCertificate
) -> None:
    """RFC 8705, section 3: the token belongs to the certificate of this very connection.

    A binding that is there is checked even where none is required: a token that its issuer bound
    was meant for one holder only.
    """
    confirmation = claims.get("cnf", {})
    if not isinstance(confirmation, dict):
        raise _wrong("cnf", "must be an object")
    bound_to = confirmation.get(_BINDING_MEMBER)
    if bound_to is None:
        if not _OTHER_BINDINGS.isdisjoint(confirmation):
            raise TokenRefused(
                Reason.TOKEN_BINDING_UNSUPPORTED,
                "the token is bound to a key in a way that is not supported; ask the issuer for "
                "tokens bound to the client's certificate (cnf x5t#S256)",
            )
        if settings.binding == "required":
            raise TokenRefused(
                Reason.TOKEN_NOT_BOUND,
                f"the token is not bound to a certificate (cnf x5t#S256), as {settings.name} "
                "requires; get it over mutual TLS, or set `binding: off` for an issuer that can't",
            )
        return
    if not isinstance(bound_to, str):
        raise _wrong("cnf", "must have a string in x5t#S256")
    try:
        thumbprint = decode_base64url(bound_to)
    except NotBase64url as error:
        raise _wrong("cnf", f"has an x5t#S256 that is {error}") from error
    if not hmac.compare_digest(thumbprint, peer.thumbprint):
        raise TokenRefused(
            Reason.BOUND_TO_ANOTHER_CERTIFICATE,
            "the token is bound to another certificate than this connection's; a new certificate "
            "needs a new token",
        )


def _name(claims: Mapping[str, object], claim: str) -> str:
    value = claims.get(claim)
    if value is None:
        raise _missing(claim)
    if not isinstance(value, str) or not value:
        raise _wrong(claim, "must be a string that is not empty")
    if len(value.encode()) > NAME_BYTES_MAX:
        raise _wrong(claim, f"must not be longer than {NAME_BYTES_MAX} bytes")
    if _UNPRINTABLE.search(value):
        raise _wrong(claim, "must not hold control characters")
    return value


def _time(claims: Mapping[str, object], claim: str) -> float:
    value = claims.get(claim)
    if value is None:
        raise _missing(claim)
    # A bool is an int to Python, not to RFC 7519.
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong(claim, "must be a number of seconds since 1970")
    if not 0 <= value < _TIME_MAX:
        raise _wrong(claim, "must be a date between 1970 and 9999")
    return float(value)


def _missing(claim: str) -> TokenRefused:
    return TokenRefused(
        Reason.CLAIM_MISSING, f"the token has no `{claim}`, which RFC 9068 requires"
    )


def _wrong(claim: str, problem: str) -> TokenRefused:
    return TokenRefused(Reason.CLAIM_MALFORMED, f"the token's `{claim}` {problem}")
