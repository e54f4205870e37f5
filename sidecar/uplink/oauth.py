"""The OAuth 2 protocol as pure functions: discovery, the token request, its answer.

Client credentials (RFC 6749, 4.4), the client proven by its certificate (RFC 8705) or by a signed
assertion (RFC 7523). Authlib knows the forms; nothing here sends anything. What goes wrong is an
OAuthFailure, whose text never holds a token or a key.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from sidecar.uplink.token_schedule import LIFE_S_MIN

DISCOVERY_SUFFIXES: Final = ("oauth-authorization-server", "openid-configuration")
"""RFC 8414's own, and OpenID Connect's, which many providers have alone."""
TOKEN_BYTES_MAX: Final = 16 * 1024
"""What fits into one header of a gatekeeper."""
_ALGORITHMS: Final = {
    "P-256": "ES256",
    "P-384": "ES384",
    "P-521": "ES512",
    "RSA": "RS256",
    "Ed25519": "EdDSA",
}
"""How a key signs, by its curve."""
LIFE_S_DEFAULT: Final = 300.0
"""Where the issuer does not say how long a token lives: short is safe, it is only fetched again."""


class OAuthFailure(Exception):
    """No token was had. The text says what the issuer did, and what to check."""


@dataclass(frozen=True, slots=True)
class Client:
    """Who asks for tokens, and for what."""

    issuer: str
    client_id: str
    method: str
    audience: str | None
    scope: str | None
    key: Path | None


@dataclass(frozen=True, slots=True)
class Grant:
    """An access token and the seconds that it is good for."""

    access_token: str
    expires_in_s: float


def discovery_urls(issuer: str) -> list[str]:
    """Where the issuer's metadata may be: RFC 8414 first, then both forms of OpenID Connect."""
    from authlib.oauth2.rfc8414 import get_well_known_url  # noqa: PLC0415 - when a token is due

    urls = [get_well_known_url(issuer, external=True, suffix=name) for name in DISCOVERY_SUFFIXES]
    appended = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
    return urls if appended in urls else [*urls, appended]


def token_endpoint(document: object, issuer: str) -> str:
    """The token endpoint of checked metadata; the alias for mutual TLS where there is one."""
    from authlib.oauth2.rfc8414 import AuthorizationServerMetadata  # noqa: PLC0415

    if not isinstance(document, dict):
        raise OAuthFailure(f"the metadata of {issuer} is not a JSON object")
    metadata = AuthorizationServerMetadata(document)
    try:
        metadata.validate_issuer()
        metadata.validate_token_endpoint()
    except ValueError as error:
        raise OAuthFailure(f"the metadata of {issuer} cannot be used: {error}") from error
    # RFC 8414, 3.3: whoever answers under another name than the one asked for is not the issuer.
    if document["issuer"] != issuer:
        raise OAuthFailure(f"the metadata names the issuer {document['issuer']!r}, not {issuer!r}")
    aliases = document.get("mtls_endpoint_aliases")
    endpoint = aliases.get("token_endpoint") if isinstance(aliases, dict) else None
    endpoint = endpoint or document["token_endpoint"]
    if not isinstance(endpoint, str) or urlsplit(endpoint).scheme != "https":
        raise OAuthFailure(f"the token endpoint of {issuer} is not an https URL")
    return endpoint


def token_request(client: Client, endpoint: str) -> tuple[dict[str, str], str]:
    """Headers and form body that ask `endpoint` for a token."""
    from authlib.oauth2.auth import ClientAuth  # noqa: PLC0415
    from authlib.oauth2.rfc6749.parameters import prepare_token_request  # noqa: PLC0415

    # Auth0 and its like read `audience`, RFC 8707 says `resource`; each ignores the other.
    wishes = {"scope": client.scope, "audience": client.audience, "resource": client.audience}
    body = prepare_token_request(
        "client_credentials", **{name: value for name, value in wishes.items() if value}
    )
    # RFC 8705, 2: the certificate proves who asks, client_id says who that is.
    auth = ClientAuth(client.client_id, None, "none")
    headers = {
        "Accept": "application/json",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    _uri, headers, body = auth.prepare("POST", endpoint, headers, body)
    if client.method == "private_key_jwt":
        _uri, headers, body = _signed(client, endpoint, headers, body)
    return dict(headers), str(body)


def _signed(client: Client, endpoint: str, headers: dict[str, str], body: str) -> Any:
    from authlib.oauth2.auth import ClientAuth  # noqa: PLC0415
    from authlib.oauth2.rfc7523 import PrivateKeyJWT  # noqa: PLC0415
    from joserfc.errors import JoseError, SecurityWarning  # noqa: PLC0415
    from joserfc.jwk import ECKey, OKPKey, RSAKey  # noqa: PLC0415

    if client.key is None:
        raise OAuthFailure("oauth.key: is needed for private_key_jwt")
    try:
        pem = client.key.read_bytes()
    except OSError as error:
        raise OAuthFailure(f"oauth.key: {client.key} cannot be read: {error.strerror}") from error
    for kind in (ECKey, RSAKey, OKPKey):
        try:
            key = kind.import_key(pem)
        except (JoseError, ValueError, TypeError):
            continue
        algorithm = _ALGORITHMS.get(getattr(key, "curve_name", "RSA"), "ES256")
        sign = PrivateKeyJWT(endpoint, alg=algorithm)
        try:
            with warnings.catch_warnings():
                # RFC 9864 renames EdDSA; the issuers in use know only this name.
                warnings.simplefilter("ignore", SecurityWarning)
                return sign(
                    ClientAuth(client.client_id, key, sign), "POST", endpoint, headers, body
                )
        except JoseError as error:
            raise OAuthFailure(f"oauth.key: {client.key} cannot sign: {error}") from error
    raise OAuthFailure(f"oauth.key: {client.key} holds no EC, RSA or Ed25519 private key in PEM")


def parse_grant(status: int, document: object) -> Grant:
    """The token in an issuer's answer, or OAuthFailure with the issuer's own reason."""
    members: Mapping[str, object] = document if isinstance(document, dict) else {}
    if status != 200:
        reason = str(members.get("error", ""))[:200]
        text = str(members.get("error_description", ""))[:200]
        raise OAuthFailure(
            f"the issuer refused with status {status}"
            + "".join(f": {part}" for part in (reason, text) if part)
        )
    token = members.get("access_token")
    if not isinstance(token, str) or not token or not token.isascii() or not token.isprintable():
        raise OAuthFailure("the issuer's answer holds no access_token")
    if len(token) > TOKEN_BYTES_MAX:
        raise OAuthFailure(f"the access token has over {TOKEN_BYTES_MAX} bytes")
    if str(members.get("token_type", "")).lower() != "bearer":
        raise OAuthFailure("the issuer's token is not of the type Bearer")
    life = members.get("expires_in", LIFE_S_DEFAULT)
    if not isinstance(life, int | float) or not life >= LIFE_S_MIN:
        raise OAuthFailure(f"expires_in: {life!r} leaves no time to use the token")
    return Grant(token, float(life))
