"""Why a caller was not let in: every reason that authentication can give, and the errors with it.

Each reason has a stable code, which `docs/identity.md` explains; a test holds the two together.
Messages name the rule and the next step; they never hold a token, a key or a whole claim set.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

_QUOTED_CHARS_MAX: Final = 120
"""What a stranger sent is quoted no longer than this, so that it cannot flood answers or logs."""


class Reason(StrEnum):
    """The reason codes, as they stand in answers, metrics and the decision log."""

    CERTIFICATE_MISSING = "certificate_missing"
    CERTIFICATE_MALFORMED = "certificate_malformed"
    CERTIFICATE_NO_SPIFFE_ID = "certificate_no_spiffe_id"
    CERTIFICATE_SPIFFE_ID_AMBIGUOUS = "certificate_spiffe_id_ambiguous"
    CERTIFICATE_SPIFFE_ID_INVALID = "certificate_spiffe_id_invalid"
    CERTIFICATE_UNKNOWN_DOMAIN = "certificate_unknown_domain"
    CERTIFICATE_IS_CA = "certificate_is_ca"
    CERTIFICATE_NOT_FOR_CLIENTS = "certificate_not_for_clients"
    CERTIFICATE_KEY_WEAK = "certificate_key_weak"
    CERTIFICATE_OUTSIDE_VALIDITY = "certificate_outside_validity"
    CERTIFICATE_UNTRUSTED = "certificate_untrusted"
    CERTIFICATE_REVOKED = "certificate_revoked"
    CRL_MISSING = "crl_missing"
    CRL_EXPIRED = "crl_expired"
    TOKEN_MISSING = "token_missing"  # noqa: S105 - a reason's name, no secret
    TOKEN_TOO_LARGE = "token_too_large"  # noqa: S105
    TOKEN_MALFORMED = "token_malformed"  # noqa: S105
    TOKEN_HEADER_REFUSED = "token_header_refused"  # noqa: S105
    TOKEN_WRONG_TYPE = "token_wrong_type"  # noqa: S105
    ALGORITHM_REFUSED = "algorithm_refused"
    KEY_UNKNOWN = "key_unknown"
    KEY_REFUSED = "key_refused"
    SIGNATURE_INVALID = "signature_invalid"
    UNKNOWN_ISSUER = "unknown_issuer"
    WRONG_AUDIENCE = "wrong_audience"
    CLAIM_MISSING = "claim_missing"
    CLAIM_MALFORMED = "claim_malformed"
    TOKEN_EXPIRED = "token_expired"  # noqa: S105
    TOKEN_NOT_YET_VALID = "token_not_yet_valid"  # noqa: S105
    TOKEN_LIVES_TOO_LONG = "token_lives_too_long"  # noqa: S105
    TOKEN_NOT_BOUND = "token_not_bound"  # noqa: S105
    TOKEN_BINDING_UNSUPPORTED = "token_binding_unsupported"  # noqa: S105
    BOUND_TO_ANOTHER_CERTIFICATE = "bound_to_another_certificate"
    TOKEN_REVOKED = "token_revoked"  # noqa: S105
    CLIENT_REVOKED = "client_revoked"
    ISSUER_UNAVAILABLE = "issuer_unavailable"


class AuthenticationError(Exception):
    """The caller is not who it claims to be, or this cannot be told. Refuse the request."""

    headers: Mapping[str, str] = MappingProxyType({"WWW-Authenticate": "Bearer"})
    """RFC 9110, section 15.5.2: whoever is refused like this is told the scheme."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason

    @property
    def code(self) -> str:
        """The reason's stable code."""
        return self.reason.value

    @property
    def members(self) -> Mapping[str, object]:
        """What an answer adds to the text: the reason's code."""
        return {"reason": self.code}


class CertificateRefused(AuthenticationError):
    """The certificate does not prove who is calling. Another token does not help."""


class RevocationUnknown(CertificateRefused):
    """Nobody can say whether the certificate is revoked. An operator has to bring a fresh CRL."""


class TokenMissing(AuthenticationError):
    """No token came, so RFC 6750, section 3.1, wants a challenge that names no error."""

    def __init__(self, detail: str) -> None:
        super().__init__(Reason.TOKEN_MISSING, detail)


class TokenRefused(AuthenticationError):
    """The token does not hold. The caller should get a new one and try once more."""

    headers: Mapping[str, str] = MappingProxyType(
        {"WWW-Authenticate": 'Bearer error="invalid_token"'}
    )


class IssuerUnavailable(AuthenticationError):
    """The issuer's keys cannot be had, so its tokens cannot be checked. Try again later."""

    def __init__(self, detail: str, *, retry_after_s: float) -> None:
        super().__init__(Reason.ISSUER_UNAVAILABLE, detail)
        self.retry_after_s = retry_after_s
        self.headers = MappingProxyType({"Retry-After": str(max(1, round(retry_after_s)))})


def quoted(text: str) -> str:
    """What a stranger sent, fit for a message: escaped and short."""
    shown = text if len(text) <= _QUOTED_CHARS_MAX else text[:_QUOTED_CHARS_MAX] + "…"
    return ascii(shown)
