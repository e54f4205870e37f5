"""Settings of issuers and trust domains: every mistake is named, all at once."""

from dataclasses import replace
from pathlib import Path

import pytest

from gatekeeper.identity.trust import IssuerSettings, TrustDomain, origin_of

CORP = IssuerSettings("corp", "https://idp.example", "urn:sidegate")


def keys_of(settings: IssuerSettings | TrustDomain) -> list[str]:
    return [key for key, _text in settings.problems()]


def test_binding_is_required_and_lives_are_short_unless_said_otherwise() -> None:
    assert keys_of(CORP) == []
    assert (CORP.binding, CORP.algorithms, CORP.max_ttl_s, CORP.skew_s) == (
        "required",
        ("ES256",),
        900,
        30,
    )


@pytest.mark.parametrize(
    "url",
    [
        "http://idp.example",
        "idp.example",
        "https://",
        "https://user:pass@idp.example",
        "https://idp.example?x=1",
        "https://idp.example?",
        "https://idp.example#x",
        "https://idp.example:notaport",
        "https://idp.example:99999",
        "https://ïdp.example",
        "https://idp.example/a b",
        "https://[::1",
        "file:///etc/keys",
        "https://idp.example/" + "x" * 512,
    ],
)
def test_an_issuer_is_a_plain_https_url(url: str) -> None:
    assert "issuer" in keys_of(replace(CORP, issuer=url))


@pytest.mark.parametrize("alg", ["HS256", "none", "ES256K", "RSA-OAEP", "es256"])
def test_issuers_sign_with_asymmetric_algorithms_only(alg: str) -> None:
    assert keys_of(replace(CORP, algorithms=("ES256", alg))) == ["algorithms"]


def test_all_problems_come_together() -> None:
    wrong = IssuerSettings(
        "",
        "http://x",
        "",
        (),
        "maybe",
        0,
        301,
        None,
        "http://keys",  # type: ignore[arg-type]
    )
    assert keys_of(wrong) == [
        "name",
        "issuer",
        "jwks_uri",
        "audience",
        "algorithms",
        "binding",
        "max_ttl",
        "skew",
    ]


def test_a_life_beyond_a_day_is_refused() -> None:
    assert keys_of(replace(CORP, max_ttl_s=86_401)) == ["max_ttl"]


def test_a_trust_domain_has_a_sound_name_and_a_list_exactly_when_required() -> None:
    domain = TrustDomain("example", Path("ca.pem"))
    assert keys_of(domain) == []
    assert keys_of(replace(domain, name="Example.org")) == ["name"]
    assert keys_of(replace(domain, crl="required")) == ["crl_file"]
    assert keys_of(replace(domain, crl_file=Path("crl.pem"))) == ["crl_file"]
    assert keys_of(replace(domain, crl="maybe")) == ["crl"]  # type: ignore[arg-type]


def test_origins_are_compared_with_their_port_and_without_case() -> None:
    assert origin_of("https://IDP.example/a") == origin_of("https://idp.example:443/b")
    assert origin_of("https://idp.example") != origin_of("https://idp.example:8443")
    assert origin_of("https://idp.example") != origin_of("https://idp.example.evil.example")
