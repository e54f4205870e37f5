"""Who is calling: the facts that authentication has proven, and nothing else.

Policy, quotas and provenance read this value; only the authenticator makes it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Identity:
    """A caller, proven by a certificate and a token.

    `issuer` is the issuer's name in the policy file (`corp`), `issuer_url` its `iss` claim.
    `claims` are the token's, all vouched for by that one issuer.
    """

    spiffe_id: str
    thumbprint: bytes
    issuer: str
    issuer_url: str
    client_id: str
    subject: str
    token_id: str
    scopes: frozenset[str]
    expires_at: float
    claims: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
