"""Metadata: where it is, and when its address of the keys is believed."""

import json
from typing import Any

import pytest

from gatekeeper.identity.discovery import BadMetadata, jwks_uri_of, metadata_urls
from gatekeeper.identity.trust import IssuerSettings

CORP = IssuerSettings("corp", "https://idp.example/realm", "urn:sidegate")


def test_both_well_known_forms_are_asked() -> None:
    assert metadata_urls("https://idp.example:8446") == (
        "https://idp.example:8446/.well-known/openid-configuration",
        "https://idp.example:8446/.well-known/oauth-authorization-server",
    )
    assert metadata_urls("https://idp.example/realm/") == (
        "https://idp.example/realm/.well-known/openid-configuration",
        "https://idp.example/.well-known/oauth-authorization-server/realm",
    )


def uri_in(**changed: Any) -> str:
    metadata = {"issuer": CORP.issuer, "jwks_uri": "https://idp.example/keys", **changed}
    return jwks_uri_of(json.dumps(metadata).encode(), CORP)


def test_sound_metadata_gives_the_address_of_the_keys() -> None:
    assert uri_in() == "https://idp.example/keys"
    assert uri_in(jwks_uri="https://idp.example:443/keys?v=2") == "https://idp.example:443/keys?v=2"


@pytest.mark.parametrize(
    "issuer",
    [
        "https://idp.example",
        "https://idp.example/realm/",
        "https://IDP.example/realm",
        "https://evil.example/realm",
        None,
        ["https://idp.example/realm"],
    ],
)
def test_metadata_of_another_issuer_is_refused(issuer: Any) -> None:
    with pytest.raises(BadMetadata, match="issuer"):
        uri_in(issuer=issuer)


@pytest.mark.parametrize(
    "jwks_uri",
    [
        "http://idp.example/keys",
        "https://evil.example/keys",
        "https://idp.example:8443/keys",
        "https://idp.example@evil.example/keys",
        "https://169.254.169.254/keys",
        "file:///etc/passwd",
        "//idp.example/keys",
        "/keys",
        "",
        None,
        7,
    ],
)
def test_keys_come_from_the_issuers_own_host_over_https(jwks_uri: Any) -> None:
    with pytest.raises(BadMetadata, match="jwks_uri"):
        uri_in(jwks_uri=jwks_uri)


def test_an_issuer_whose_keys_are_elsewhere_is_told_what_to_configure() -> None:
    with pytest.raises(BadMetadata, match="jwks_uri into the settings of corp"):
        uri_in(jwks_uri="https://keys.example/corp")


@pytest.mark.parametrize("document", [b"", b"[]", b"<html>", b'{"issuer":1,"issuer":2}'])
def test_what_is_not_metadata_is_refused(document: bytes) -> None:
    with pytest.raises(BadMetadata):
        jwks_uri_of(document, CORP)
