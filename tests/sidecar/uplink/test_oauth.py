"""Discovery, the token request and its answer, by the RFCs."""

from urllib.parse import parse_qs

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jwt
from joserfc.jwk import ECKey, OKPKey, RSAKey

from sidecar.uplink.oauth import (
    TOKEN_BYTES_MAX,
    Client,
    Grant,
    OAuthFailure,
    discovery_urls,
    parse_grant,
    token_endpoint,
    token_request,
)

ISSUER = "https://issuer.example"
ENDPOINT = f"{ISSUER}/token"
GOOD = {"access_token": "abc.def", "token_type": "Bearer", "expires_in": 300}


def client(**changes):
    settings = {
        "issuer": ISSUER,
        "client_id": "app-1",
        "method": "tls_client_auth",
        "audience": None,
        "scope": None,
        "key": None,
    }
    return Client(**{**settings, **changes})


def test_metadata_is_looked_for_where_rfc_8414_and_openid_connect_put_it():
    assert discovery_urls(ISSUER) == [
        f"{ISSUER}/.well-known/oauth-authorization-server",
        f"{ISSUER}/.well-known/openid-configuration",
    ]
    assert discovery_urls(f"{ISSUER}/realms/a") == [
        f"{ISSUER}/.well-known/oauth-authorization-server/realms/a",
        f"{ISSUER}/.well-known/openid-configuration/realms/a",
        f"{ISSUER}/realms/a/.well-known/openid-configuration",
    ]


def test_the_token_endpoint_is_the_one_of_the_metadata():
    assert token_endpoint({"issuer": ISSUER, "token_endpoint": ENDPOINT}, ISSUER) == ENDPOINT


def test_the_alias_for_mutual_tls_is_preferred():
    document = {
        "issuer": ISSUER,
        "token_endpoint": ENDPOINT,
        "mtls_endpoint_aliases": {"token_endpoint": "https://mtls.example/token"},
    }
    assert token_endpoint(document, ISSUER) == "https://mtls.example/token"


@pytest.mark.parametrize(
    ("document", "says"),
    [
        (None, "not a JSON object"),
        ([], "not a JSON object"),
        ({}, "cannot be used"),
        ({"issuer": ISSUER}, "cannot be used"),
        ({"issuer": "https://other.example", "token_endpoint": ENDPOINT}, "not 'https://issuer"),
        ({"issuer": ISSUER + "/", "token_endpoint": ENDPOINT}, "names the issuer"),
        ({"issuer": ISSUER, "token_endpoint": "http://issuer.example/token"}, "https"),
        (
            {
                "issuer": ISSUER,
                "token_endpoint": ENDPOINT,
                "mtls_endpoint_aliases": {"token_endpoint": "http://mtls.example/token"},
            },
            "https",
        ),
    ],
)
def test_metadata_that_cannot_be_trusted_is_refused(document, says):
    with pytest.raises(OAuthFailure, match=says):
        token_endpoint(document, ISSUER)


def test_a_certificate_alone_proves_the_client_and_its_id_says_who_it_is():
    headers, body = token_request(client(), ENDPOINT)
    assert parse_qs(body) == {"grant_type": ["client_credentials"], "client_id": ["app-1"]}
    assert headers["Content-Type"] == "application/x-www-form-urlencoded"
    assert "Authorization" not in headers


def test_scope_and_audience_are_asked_for_in_both_forms():
    _, body = token_request(client(audience="urn:mesh", scope="a b"), ENDPOINT)
    form = parse_qs(body)
    assert form["scope"] == ["a b"]
    assert form["audience"] == form["resource"] == ["urn:mesh"]


KEYS = {
    "EC": (lambda: ec.generate_private_key(ec.SECP256R1()), ECKey, "ES256"),
    "P-384": (lambda: ec.generate_private_key(ec.SECP384R1()), ECKey, "ES384"),
    "P-521": (lambda: ec.generate_private_key(ec.SECP521R1()), ECKey, "ES512"),
    "RSA": (lambda: rsa.generate_private_key(65537, 2048), RSAKey, "RS256"),
    "Ed25519": (ed25519.Ed25519PrivateKey.generate, OKPKey, "EdDSA"),
}


@pytest.mark.filterwarnings("ignore:EdDSA is deprecated")  # by the check below
@pytest.mark.parametrize("kind", KEYS)
def test_a_signed_assertion_names_the_client_and_is_meant_for_the_endpoint(tmp_path, kind):
    make, jwk, algorithm = KEYS[kind]
    key = make()
    file = tmp_path / "client.pem"
    file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    _, body = token_request(client(method="private_key_jwt", key=file), ENDPOINT)
    form = parse_qs(body)
    assert form["client_id"] == ["app-1"]
    assert form["client_assertion_type"] == [
        "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
    ]
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    token = jwt.decode(form["client_assertion"][0], jwk.import_key(public), algorithms=[algorithm])
    assert token.claims["iss"] == token.claims["sub"] == "app-1"
    assert token.claims["aud"] == ENDPOINT
    assert token.claims["exp"] > token.claims["iat"]


def test_two_assertions_are_never_the_same(tmp_path):
    file = tmp_path / "client.pem"
    file.write_bytes(
        ec.generate_private_key(ec.SECP256R1()).private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    who = client(method="private_key_jwt", key=file)
    assertions = {parse_qs(token_request(who, ENDPOINT)[1])["client_assertion"][0] for _ in "ab"}
    assert len(assertions) == 2


def test_a_key_that_is_missing_or_none_is_named_and_not_shown(tmp_path):
    file = tmp_path / "client.pem"
    for text, says in ((None, "cannot be read"), (b"secret words", "holds no EC, RSA or Ed25519")):
        if text is not None:
            file.write_bytes(text)
        with pytest.raises(OAuthFailure, match=says) as caught:
            token_request(client(method="private_key_jwt", key=file), ENDPOINT)
        assert "secret words" not in str(caught.value)
    with pytest.raises(OAuthFailure, match=r"oauth\.key: is needed"):
        token_request(client(method="private_key_jwt"), ENDPOINT)


def test_a_key_that_cannot_sign_is_a_failure_that_says_so(tmp_path):
    file = tmp_path / "client.pem"
    public = ec.generate_private_key(ec.SECP256R1()).public_key()
    other_curve = ec.generate_private_key(ec.SECP256K1())
    for pem in (
        public.public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        ),
        other_curve.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    ):
        file.write_bytes(pem)
        with pytest.raises(OAuthFailure, match=r"oauth\.key: .* cannot sign"):
            token_request(client(method="private_key_jwt", key=file), ENDPOINT)


def test_signing_warns_nobody(tmp_path, recwarn):
    file = tmp_path / "client.pem"
    file.write_bytes(
        ed25519.Ed25519PrivateKey.generate().private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    token_request(client(method="private_key_jwt", key=file), ENDPOINT)
    assert not recwarn.list


def test_a_token_comes_with_the_life_that_the_issuer_gives_it():
    assert parse_grant(200, GOOD) == Grant("abc.def", 300.0)
    assert parse_grant(200, {**GOOD, "token_type": "bearer"}).access_token == "abc.def"
    without = {name: value for name, value in GOOD.items() if name != "expires_in"}
    assert parse_grant(200, without).expires_in_s == 300.0


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"access_token": None}, "no access_token"),
        ({"access_token": ""}, "no access_token"),
        ({"access_token": 5}, "no access_token"),
        ({"access_token": "a\r\nX-Evil: 1"}, "no access_token"),
        ({"access_token": "ä"}, "no access_token"),
        ({"access_token": "a" * (TOKEN_BYTES_MAX + 1)}, "over"),
        ({"token_type": "DPoP"}, "Bearer"),
        ({"token_type": None}, "Bearer"),
        ({"expires_in": 0}, "expires_in"),
        ({"expires_in": -5}, "expires_in"),
        ({"expires_in": "300"}, "expires_in"),
        ({"expires_in": float("nan")}, "expires_in"),
        ({"expires_in": None}, "expires_in"),
    ],
)
def test_an_answer_that_holds_no_usable_token_is_refused(changes, says):
    with pytest.raises(OAuthFailure, match=says):
        parse_grant(200, {**GOOD, **changes})


def test_a_refusal_passes_the_issuers_reason_on_in_bounds():
    document = {"error": "invalid_client", "error_description": "x" * 10_000}
    with pytest.raises(OAuthFailure, match="status 401: invalid_client: xxx") as caught:
        parse_grant(401, document)
    assert len(str(caught.value)) < 500


@given(st.integers(100, 599), st.recursive(st.none() | st.text(), st.lists) | st.just({}))
def test_any_other_answer_is_a_failure_and_never_a_crash(status, document):
    with pytest.raises(OAuthFailure):
        parse_grant(status, document)


@given(st.text(min_size=8, max_size=60), st.sampled_from(["token_type", "expires_in"]))
def test_no_failure_shows_the_token(token, broken):
    with pytest.raises(OAuthFailure) as caught:
        parse_grant(200, {**GOOD, "access_token": token, broken: None})
    assert token not in str(caught.value) or not token.strip()
