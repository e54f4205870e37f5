"""Reasons and errors: stable codes, the right challenge, and nothing that a stranger can inject."""

import pytest

from gatekeeper.identity.authentication_errors import (
    AuthenticationError,
    CertificateRefused,
    IssuerUnavailable,
    Reason,
    RevocationUnknown,
    TokenMissing,
    TokenRefused,
    quoted,
)


def test_codes_are_plain_words() -> None:
    for reason in Reason:
        assert reason.value.replace("_", "").isalpha()
        assert reason.value == reason.name.lower()


def test_every_error_carries_its_reason_for_answers() -> None:
    error = TokenRefused(Reason.TOKEN_EXPIRED, "the token expired 5 s ago")
    assert error.code == "token_expired"
    assert error.members == {"reason": "token_expired"}
    assert str(error) == "the token expired 5 s ago"


def test_the_challenge_names_an_error_only_where_there_was_a_token() -> None:
    missing = TokenMissing("send one").headers["WWW-Authenticate"]
    refused = TokenRefused(Reason.TOKEN_EXPIRED, "x").headers["WWW-Authenticate"]
    certificate = CertificateRefused(Reason.CERTIFICATE_MISSING, "x").headers["WWW-Authenticate"]
    assert (missing, certificate) == ("Bearer", "Bearer")
    assert refused == 'Bearer error="invalid_token"'


@pytest.mark.parametrize(("seconds", "shown"), [(0.0, "1"), (0.2, "1"), (7.6, "8"), (60.0, "60")])
def test_an_unavailable_issuer_says_when_to_try_again(seconds: float, shown: str) -> None:
    error = IssuerUnavailable("down", retry_after_s=seconds)
    assert error.headers == {"Retry-After": shown}
    assert error.code == "issuer_unavailable"


def test_an_unknown_revocation_is_the_certificates_matter() -> None:
    assert issubclass(RevocationUnknown, CertificateRefused)
    assert issubclass(CertificateRefused, AuthenticationError)


def test_what_a_stranger_sent_is_quoted_short_and_escaped() -> None:
    assert quoted("a\r\nSet-Cookie: x") == r"'a\r\nSet-Cookie: x'"
    assert quoted("\u202e") == r"'\u202e'"
    assert len(quoted("x" * 10_000)) < 140
