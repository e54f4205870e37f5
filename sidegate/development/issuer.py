"""The development issuer: OAuth client credentials in, certificate-bound access tokens out.

Authlib keeps the protocol's rules; what is added here are the two ways a client proves itself
(RFC 8705 `tls_client_auth`, RFC 7523 `private_key_jwt`), the binding of the token to the
certificate (RFC 8705 section 3) and answers as RFC 6749 section 5 wants them. Knows no web
framework and no socket: a form and the caller's verified certificate in, a reply out.
"""

from __future__ import annotations

import hashlib
import json
import time
from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from authlib.oauth2.base import OAuth2Error
from authlib.oauth2.rfc6749 import AuthorizationServer, ClientMixin, OAuth2Request
from authlib.oauth2.rfc6749.errors import InvalidClientError, InvalidRequestError
from authlib.oauth2.rfc6749.grants import ClientCredentialsGrant
from authlib.oauth2.rfc6749.requests import BasicOAuth2Payload
from authlib.oauth2.rfc7523 import JWTBearerClientAssertion
from authlib.oauth2.rfc9068 import JWTBearerTokenGenerator
from joserfc.jwk import KeySet

from hosting.tls import spiffe_id_of

TOKEN_PATH: Final = "/token"  # noqa: S105 - a path
KEYS_PATH: Final = "/jwks"
SIGNING_ALGORITHM: Final = "ES256"
ASSERTION_LIFE_S_MAX: Final = 300
"""An assertion is made for one request; five minutes forgive a clock that is off."""
ASSERTIONS_REMEMBERED_MAX: Final = 100_000
"""Used assertions that are remembered until they expire: 300 a second for all of their life."""


@dataclass(frozen=True)
class Client(ClientMixin):  # type: ignore[misc]  # Authlib has no types
    """A registered client, and, once it has proven itself, the certificate it did so with."""

    client_id: str
    spiffe_id: str
    scopes: tuple[str, ...] = ()
    claims: Mapping[str, str] = field(default_factory=dict)
    keys: KeySet | None = None
    thumbprint: str | None = None

    def get_client_id(self) -> str:
        return self.client_id

    def get_allowed_scope(self, scope: str | None) -> str | None:
        """All of the client's scopes if it names none, and None (an error) for a foreign one."""
        wanted = scope.split() if scope else self.scopes
        return " ".join(wanted) if set(wanted) <= set(self.scopes) else None

    def check_grant_type(self, grant_type: str) -> bool:
        return bool(grant_type == ClientCredentialsGrant.GRANT_TYPE)

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:  # noqa: ARG002
        return method == "tls_client_auth" or (
            method == "private_key_jwt" and self.keys is not None
        )


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP answer: status, JSON document, headers."""

    status: int
    document: Mapping[str, Any]
    headers: Sequence[tuple[str, str]]


class InvalidTargetError(OAuth2Error):  # type: ignore[misc]
    """RFC 8707 section 2: the requested resource is unknown here."""

    error = "invalid_target"


class Issuer:
    """Answers token requests. Not thread-safe: used assertions are remembered."""

    def __init__(
        self,
        *,
        issuer: str,
        keys: KeySet,
        clients: Sequence[Client],
        audience: str,
        token_ttl_s: int,
    ) -> None:
        self._issuer = issuer
        self._keys = keys
        self._audience = audience
        self._server = _Server()
        self.replace_clients(clients)
        self._server.register_grant(_Grant)
        self._server.register_client_auth_method("tls_client_auth", _by_certificate)
        self._server.register_client_auth_method(
            "private_key_jwt", _ByAssertion([issuer, issuer + TOKEN_PATH])
        )
        self._server.register_token_generator(
            "default", _BoundTokens(issuer, keys, audience, token_ttl_s)
        )

    def replace_clients(self, clients: Sequence[Client]) -> None:
        """Answer these clients from now on, and no others. Tokens that are out stay good."""
        self._server.clients = {client.client_id: client for client in clients}
        self._scopes = sorted({scope for client in clients for scope in client.scopes})

    def token(
        self,
        form: Sequence[tuple[str, str]],
        *,
        certificate: bytes | None,
        headers: Mapping[str, str],
    ) -> Reply:
        """The answer to a token request; `certificate` is DER, verified by the TLS layer."""
        request = _TokenRequest(self._issuer + TOKEN_PATH, dict(form), headers, certificate)
        reply: Reply
        try:
            self._check(form)
        except OAuth2Error as error:
            reply = self._server.handle_error_response(request, error)
        else:
            reply = self._server.create_token_response(request)
        return reply

    def metadata(self) -> dict[str, Any]:
        """RFC 8414 metadata, which serves for OpenID discovery too."""
        return {
            "issuer": self._issuer,
            "token_endpoint": self._issuer + TOKEN_PATH,
            "jwks_uri": self._issuer + KEYS_PATH,
            "grant_types_supported": [ClientCredentialsGrant.GRANT_TYPE],
            # Required, and may not be empty (RFC 8414 section 2 and 3.2): there is no
            # authorization endpoint that would return anything.
            "response_types_supported": ["none"],
            "scopes_supported": self._scopes,
            "token_endpoint_auth_methods_supported": ["tls_client_auth", "private_key_jwt"],
            "token_endpoint_auth_signing_alg_values_supported": ["ES256", "RS256"],
            "tls_client_certificate_bound_access_tokens": True,
        }

    def public_keys(self) -> dict[str, Any]:
        """The keys that verify the tokens."""
        return dict(self._keys.as_dict(private=False))

    def _check(self, form: Sequence[tuple[str, str]]) -> None:
        """What RFC 6749 section 3.2 and 5.2 ask of every request and Authlib leaves to others."""
        repeated = [name for name, times in Counter(name for name, _ in form).items() if times > 1]
        if repeated:
            raise InvalidRequestError("A parameter must not be included more than once.")
        values = dict(form)
        if not values.get("grant_type"):
            raise InvalidRequestError("Missing parameter: grant_type.")
        if values.get("resource", self._audience) != self._audience:
            raise InvalidTargetError(f"This server issues tokens for {self._audience} only.")


class _TokenRequest(OAuth2Request):  # type: ignore[misc]
    def __init__(
        self,
        uri: str,
        form: dict[str, str],
        headers: Mapping[str, str],
        certificate: bytes | None,
    ) -> None:
        super().__init__("POST", uri, headers=headers)
        self.payload = BasicOAuth2Payload(form)
        self.certificate = certificate

    @property
    def form(self) -> dict[str, str]:
        return dict(self.payload.data)


class _Server(AuthorizationServer):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.clients: Mapping[str, Client] = {}

    def query_client(self, client_id: str) -> Client | None:
        return self.clients.get(client_id)

    def save_token(self, token: object, request: object) -> None:
        """Nothing to save: a token is a signed statement and is never looked up."""

    def send_signal(self, name: str, *args: object, **kwargs: object) -> None:
        """Nobody listens."""

    def create_oauth2_request(self, request: _TokenRequest) -> _TokenRequest:
        return request

    def handle_response(
        self, status: int, body: Mapping[str, Any], headers: Sequence[tuple[str, str]]
    ) -> Reply:
        return Reply(status, body, headers)

    def handle_error_response(self, request: _TokenRequest, error: OAuth2Error) -> Reply:
        # RFC 6749 section 5.2: a client that tried the Authorization header gets a 401.
        if isinstance(error, InvalidClientError) and "Authorization" in request.headers:
            error.status_code = 401
        reply: Reply = super().handle_error_response(request, error)
        return reply


class _Grant(ClientCredentialsGrant):  # type: ignore[misc]
    TOKEN_ENDPOINT_AUTH_METHODS = ("private_key_jwt", "tls_client_auth")


def _by_certificate(query_client: Any, request: _TokenRequest) -> Client | None:
    """RFC 8705 section 2.1, with the subject named by its SPIFFE id (`tls_client_auth_san_uri`)."""
    client_id = request.payload.client_id
    if not client_id or request.certificate is None:
        return None
    client: Client | None = query_client(client_id)
    if client is None:
        raise InvalidClientError(description="The client does not exist on this server.")
    try:
        presented = spiffe_id_of(request.certificate)
    except ValueError as error:
        raise InvalidClientError(
            description="The certificate does not name exactly one SPIFFE id."
        ) from error
    if presented != client.spiffe_id:
        raise InvalidClientError(description="The certificate is not the one of this client.")
    return _bound(client, request.certificate)


class _ByAssertion(JWTBearerClientAssertion):  # type: ignore[misc]
    """RFC 7523 section 2.2; an assertion works once."""

    CLIENT_AUTH_METHOD = "private_key_jwt"

    def __init__(self, audiences: list[str]) -> None:
        super().__init__()
        self._audiences = audiences
        self._used: dict[tuple[str, str], float] = {}

    def __call__(self, query_client: Any, request: _TokenRequest) -> Client | None:
        try:
            client: Client | None = super().__call__(query_client, request)
        except ValueError as error:
            # Authlib quotes the reason of a JOSE error, which may hold letters that RFC 6749
            # forbids in a description.
            raise InvalidClientError(description="The client assertion is malformed.") from error
        if client is None:
            return None
        if request.payload.client_id not in {None, client.client_id}:
            raise InvalidClientError(description="client_id and the assertion name two clients.")
        if request.certificate is None:
            raise InvalidRequestError("Tokens are bound to a client certificate; present one.")
        return _bound(client, request.certificate)

    def get_audiences(self) -> list[str]:
        return self._audiences

    def resolve_client_public_key(self, client: Client) -> KeySet:
        if client.keys is None:
            raise InvalidClientError(description="The client has registered no keys.")
        return client.keys

    def validate_jti(self, claims: Mapping[str, Any], jti: str) -> bool:
        now = time.time()
        if claims["exp"] > now + ASSERTION_LIFE_S_MAX + self.leeway:
            raise InvalidClientError(
                description=f"An assertion lives {ASSERTION_LIFE_S_MAX} seconds at most."
            )
        if len(self._used) >= ASSERTIONS_REMEMBERED_MAX:
            self._used = {key: end for key, end in self._used.items() if end > now}
        if len(self._used) >= ASSERTIONS_REMEMBERED_MAX:
            raise InvalidClientError(description="Too many assertions; try again in 5 minutes.")
        key = (str(claims["sub"]), str(jti))
        if self._used.get(key, 0.0) > now:
            return False
        self._used[key] = float(claims["exp"]) + self.leeway
        return True


class _BoundTokens(JWTBearerTokenGenerator):  # type: ignore[misc]
    """RFC 9068 access tokens that carry the thumbprint of the client's certificate."""

    def __init__(self, issuer: str, keys: KeySet, audience: str, ttl_s: int) -> None:
        super().__init__(issuer, alg=SIGNING_ALGORITHM, expires_generator=ttl_s)
        self._signing = KeySet([keys.keys[0]])
        self._audience = audience

    def get_jwks(self) -> Any:
        return self._signing

    def get_audiences(self, client: Client, user: object, scope: str) -> str:  # noqa: ARG002
        return self._audience

    def get_extra_claims(
        self,
        client: Client,
        grant_type: str,  # noqa: ARG002
        user: object,  # noqa: ARG002
        scope: str,  # noqa: ARG002
    ) -> dict[str, Any]:
        if client.thumbprint is None:
            raise InvalidRequestError("Tokens are bound to a client certificate; present one.")
        return {**client.claims, "cnf": {"x5t#S256": client.thumbprint}}


def _bound(client: Client, certificate: bytes) -> Client:
    digest = hashlib.sha256(certificate).digest()
    return replace(client, thumbprint=urlsafe_b64encode(digest).rstrip(b"=").decode())


def read_keys(document: bytes) -> KeySet:
    """A JWK Set from its JSON text."""
    return KeySet.import_key_set(json.loads(document))
