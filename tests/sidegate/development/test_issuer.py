"""The development issuer gives tokens to the right client with the right certificate only."""

import hashlib
import time
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from typing import Any

import pytest
from authlib.oauth2.rfc8414 import AuthorizationServerMetadata
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet

from sidegate.development import ca
from sidegate.development.ca import Leaf
from sidegate.development.issuer import Client, Issuer, Reply

URL = "https://127.0.0.1:8446"
ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
APP = Leaf("app", "spiffe://sidegate-dev/app/dev", server=False, client=True)
OTHER = Leaf("other", "spiffe://sidegate-dev/app/other", server=False, client=True)
SIGNING = ECKey.generate_key("P-256", {"use": "sig", "alg": "ES256"}, auto_kid=True)
CLIENT_KEY = ECKey.generate_key("P-256", auto_kid=True)
FORM = {"grant_type": "client_credentials", "client_id": "dev-app"}


@pytest.fixture(scope="module")
def certificates() -> dict[str, bytes]:
    key = ca.new_key()
    root = ca.issue_root(key, ca.utc_now())
    return {
        leaf.name: x509.load_pem_x509_certificate(
            ca.issue_leaf(root, key, leaf, ca.new_key(), ca.utc_now())
        ).public_bytes(Encoding.DER)
        for leaf in (APP, OTHER)
    }


@pytest.fixture
def issuer() -> Issuer:
    public = KeySet([ECKey.import_key(CLIENT_KEY.as_dict(private=False))])
    return Issuer(
        issuer=URL,
        keys=KeySet([SIGNING]),
        clients=[
            Client("dev-app", APP.spiffe_id, ("log.publish", "log.subscribe"), {"team": "dev"}),
            Client("signer", OTHER.spiffe_id, (), {}, public),
        ],
        audience="urn:sidegate",
        token_ttl_s=600,
    )


def ask(
    issuer: Issuer,
    form: Mapping[str, str] | list[tuple[str, str]],
    certificate: bytes | None,
    headers: Mapping[str, str] | None = None,
) -> Reply:
    pairs = form if isinstance(form, list) else list(form.items())
    return issuer.token(pairs, certificate=certificate, headers=headers or {})


def assertion(**changes: Any) -> str:
    now = int(time.time())
    claims = {
        "iss": "signer",
        "sub": "signer",
        "aud": f"{URL}/token",
        "exp": now + 60,
        "jti": f"{time.monotonic_ns()}",
    }
    merged = {name: value for name, value in {**claims, **changes}.items() if value is not None}
    return jwt.encode({"alg": "ES256", "kid": CLIENT_KEY.kid}, merged, CLIENT_KEY)


def signed(**changes: Any) -> dict[str, str]:
    return {
        "grant_type": "client_credentials",
        "client_assertion_type": ASSERTION,
        "client_assertion": assertion(**changes),
    }


def test_a_token_is_an_rfc_9068_token_bound_to_the_certificate(
    issuer: Issuer, certificates: dict[str, bytes]
) -> None:
    reply = ask(issuer, FORM, certificates["app"])
    assert reply.status == 200
    assert reply.document["token_type"] == "Bearer"
    assert reply.document["expires_in"] == 600
    assert ("Cache-Control", "no-store") in reply.headers
    keys = KeySet.import_key_set(issuer.public_keys())  # type: ignore[arg-type]
    token = jwt.decode(reply.document["access_token"], keys, algorithms=["ES256"])
    assert token.header == {"typ": "at+jwt", "alg": "ES256", "kid": SIGNING.kid}
    claims = token.claims
    thumbprint = urlsafe_b64encode(hashlib.sha256(certificates["app"]).digest()).rstrip(b"=")
    assert claims["cnf"] == {"x5t#S256": thumbprint.decode()}
    assert claims["iss"] == URL
    assert claims["aud"] == "urn:sidegate"
    assert claims["sub"] == claims["client_id"] == "dev-app"
    assert claims["scope"] == "log.publish log.subscribe"
    assert claims["team"] == "dev"
    assert claims["exp"] - claims["iat"] == 600
    assert claims["jti"]


def test_two_tokens_have_two_ids(issuer: Issuer, certificates: dict[str, bytes]) -> None:
    tokens = {
        jwt.decode(ask(issuer, FORM, certificates["app"]).document["access_token"], SIGNING).claims[
            "jti"
        ]
        for _ in range(10)
    }
    assert len(tokens) == 10


def test_the_published_keys_hold_nothing_private(issuer: Issuer) -> None:
    (key,) = issuer.public_keys()["keys"]
    assert "d" not in key
    assert key["use"] == "sig"
    assert key["kid"] == SIGNING.kid


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"grant_type": "password"}, "unsupported_grant_type"),
        ({"grant_type": "authorization_code"}, "unsupported_grant_type"),
        ({"grant_type": ""}, "invalid_request"),
        ({"client_id": "nobody"}, "invalid_client"),
        ({"client_id": "dev-app\r\nx: y"}, "invalid_client"),
        ({"client_id": "signer"}, "invalid_client"),
        ({"client_id": ""}, "invalid_client"),
        ({"scope": "log.publish admin"}, "invalid_scope"),
        ({"resource": "urn:another"}, "invalid_target"),
    ],
)
def test_a_wrong_request_gets_its_rfc_6749_error(
    issuer: Issuer, certificates: dict[str, bytes], change: dict[str, str], error: str
) -> None:
    reply = ask(issuer, {**FORM, **change}, certificates["app"])
    assert reply.status == 400
    assert reply.document["error"] == error
    assert "access_token" not in reply.document


def test_a_repeated_parameter_is_refused(issuer: Issuer, certificates: dict[str, bytes]) -> None:
    reply = ask(issuer, [*FORM.items(), ("client_id", "signer")], certificates["app"])
    assert (reply.status, reply.document["error"]) == (400, "invalid_request")


def test_without_a_certificate_nobody_is_authenticated(issuer: Issuer) -> None:
    assert ask(issuer, FORM, None).document["error"] == "invalid_client"


def test_another_clients_certificate_is_refused(
    issuer: Issuer, certificates: dict[str, bytes]
) -> None:
    assert ask(issuer, FORM, certificates["other"]).document["error"] == "invalid_client"


def test_a_client_that_tried_a_password_gets_a_401_that_names_the_scheme(issuer: Issuer) -> None:
    reply = ask(issuer, FORM, None, {"Authorization": "Basic Zm9vOmJhcg=="})
    assert reply.status == 401
    assert any(name == "WWW-Authenticate" for name, _ in reply.headers)


def test_a_narrower_scope_is_granted_as_asked(
    issuer: Issuer, certificates: dict[str, bytes]
) -> None:
    reply = ask(issuer, {**FORM, "scope": "log.publish"}, certificates["app"])
    assert reply.document["scope"] == "log.publish"


def test_a_signed_assertion_gets_a_token_bound_to_the_connections_certificate(
    issuer: Issuer, certificates: dict[str, bytes]
) -> None:
    reply = ask(issuer, signed(), certificates["other"])
    assert reply.status == 200, reply.document
    claims = jwt.decode(reply.document["access_token"], SIGNING).claims
    assert claims["sub"] == "signer"
    assert claims["cnf"]


def test_an_assertion_works_once(issuer: Issuer, certificates: dict[str, bytes]) -> None:
    form = signed()
    assert ask(issuer, form, certificates["other"]).status == 200
    assert ask(issuer, form, certificates["other"]).document["error"] == "invalid_client"


def test_a_good_assertion_without_a_certificate_gets_no_unbound_token(issuer: Issuer) -> None:
    assert ask(issuer, signed(), None).document["error"] == "invalid_request"


@pytest.mark.parametrize(
    "changes",
    [
        {"aud": "https://elsewhere.example/token"},
        {"iss": "dev-app"},
        {"sub": "nobody", "iss": "nobody"},
        {"sub": "dev-app", "iss": "dev-app"},
        {"exp": 1},
        {"exp": None},
        {"exp": int(time.time()) + 86400},
        {"exp": "soon"},
        {"jti": None},
        {"nbf": int(time.time()) + 3600},
        {"sub": 7},
    ],
)
def test_a_wrong_assertion_is_refused(
    issuer: Issuer, certificates: dict[str, bytes], changes: dict[str, Any]
) -> None:
    reply = ask(issuer, signed(**changes), certificates["other"])
    assert (reply.status, reply.document["error"]) == (400, "invalid_client")


@pytest.mark.parametrize(
    "text", ["", "x", "a.b.c", "e30.e30.", "eyJhbGciOiJub25lIn0.e30.", "\N{SNOWMAN}.x.y"]
)
def test_what_is_no_assertion_is_refused(
    issuer: Issuer, certificates: dict[str, bytes], text: str
) -> None:
    form = {**signed(), "client_assertion": text}
    assert ask(issuer, form, certificates["other"]).document["error"] == "invalid_client"


def test_an_assertion_of_another_key_is_refused(
    issuer: Issuer, certificates: dict[str, bytes]
) -> None:
    stranger = ECKey.generate_key("P-256")
    claims = jwt.decode(assertion(), CLIENT_KEY).claims
    for header in ({"alg": "ES256"}, {"alg": "ES256", "kid": CLIENT_KEY.kid}):
        form = {**signed(), "client_assertion": jwt.encode(header, claims, stranger)}
        assert ask(issuer, form, certificates["other"]).document["error"] == "invalid_client"


def test_client_id_and_assertion_must_name_the_same_client(
    issuer: Issuer, certificates: dict[str, bytes]
) -> None:
    reply = ask(issuer, {**signed(), "client_id": "dev-app"}, certificates["other"])
    assert reply.document["error"] == "invalid_client"


def test_the_metadata_is_valid_by_rfc_8414(issuer: Issuer) -> None:
    metadata = AuthorizationServerMetadata(issuer.metadata())
    metadata.validate()
    assert metadata["issuer"] == URL
    assert metadata["tls_client_certificate_bound_access_tokens"] is True


def test_clients_are_replaced_while_it_runs(issuer: Issuer, certificates: dict[str, bytes]) -> None:
    form = {**FORM, "client_id": "other"}
    assert ask(issuer, form, certificates["other"]).status == 400
    issuer.replace_clients([Client("other", OTHER.spiffe_id, ("log.audit",))])
    assert ask(issuer, form, certificates["other"]).status == 200
    assert ask(issuer, FORM, certificates["app"]).document["error"] == "invalid_client"
    assert issuer.metadata()["scopes_supported"] == ["log.audit"]
