"""Where an issuer's metadata may be, and what must hold for it before its keys are believed.

RFC 8414 puts the well-known part before the issuer's path, OpenID Connect behind it; both are in
use. Pure: `key_fetcher.py` does the asking.
"""

from typing import Final
from urllib.parse import urlsplit, urlunsplit

from gatekeeper.identity.authentication_errors import quoted
from gatekeeper.identity.strict_json import NotStrictJson, load_object
from gatekeeper.identity.trust import IssuerSettings, origin_of, url_problems

_OPENID: Final = "/.well-known/openid-configuration"
_OAUTH: Final = "/.well-known/oauth-authorization-server"


class BadMetadata(ValueError):
    """Metadata that must not be used. The message says which rule it breaks."""


def metadata_urls(issuer: str) -> tuple[str, ...]:
    """Where to ask, in this order; the next one only where a server has nothing at the last."""
    scheme, host, path, _query, _fragment = urlsplit(issuer)
    path = path.rstrip("/")
    return (
        urlunsplit((scheme, host, f"{path}{_OPENID}", "", "")),
        urlunsplit((scheme, host, f"{_OAUTH}{path}", "", "")),
    )


def jwks_uri_of(document: bytes, settings: IssuerSettings) -> str:
    """The address of the keys in an issuer's metadata. Raises BadMetadata."""
    try:
        metadata = load_object(document)
    except NotStrictJson as error:
        raise BadMetadata(f"the metadata is {error}") from error
    issuer, jwks_uri = metadata.get("issuer"), metadata.get("jwks_uri")
    # RFC 8414, section 3.3: otherwise any server could pass off its keys as another issuer's.
    if issuer != settings.issuer:
        shown = quoted(issuer) if isinstance(issuer, str) else "none"
        raise BadMetadata(f"the metadata is of the issuer {shown}, not of {settings.issuer}")
    if not isinstance(jwks_uri, str):
        raise BadMetadata("the metadata has no `jwks_uri`")
    for problem in url_problems(jwks_uri, issuer=False):
        raise BadMetadata(f"`jwks_uri` in the metadata {problem}")
    # Metadata that points elsewhere could make the gatekeeper call any host it can reach.
    if origin_of(jwks_uri) != origin_of(settings.issuer):
        raise BadMetadata(
            f"`jwks_uri` in the metadata is {quoted(jwks_uri)}, on another host than the issuer; "
            f"if that is right, write it as jwks_uri into the settings of {settings.name}"
        )
    return jwks_uri
