"""A made-up caller, for the questions of `tests` and of `explain`.

What a principal's conditions ask for, this caller has; nothing of it is proven, so it must never
reach a request. May import `document`; must never know of rules.
"""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gatekeeper.identity.identity import Identity
from gatekeeper.policy.document import Document
from gatekeeper.policy.problem import shown

NOWHERE: Final = "spiffe://nowhere.invalid/"
"""Where a caller comes from whose principal does not say: no certificate has this trust domain."""
PRINCIPALS_SHOWN_MAX: Final = 20
"""Of the names shown to somebody who misspelt one: what fits into a few lines."""


class UnknownCaller(ValueError):
    """Nobody of whom the policy could say what their token holds. The message says what to give."""


class Personas:
    """Makes callers for one policy's principals."""

    def __init__(self, document: Document) -> None:
        self._principals = {principal.name: principal for principal in document.principals}
        self._groups = {group.name for group in document.groups}
        self._issuers = {issuer.name: issuer.settings.issuer for issuer in document.issuers}

    def make(
        self,
        caller: str,
        *,
        issuer: str | None = None,
        claims: Mapping[str, object] = MappingProxyType({}),
        scopes: frozenset[str] = frozenset(),
    ) -> Identity:
        """A caller that fits the principal `caller`, or has the SPIFFE id `caller`.

        Where neither the principal nor `issuer` says who made its token, the file's only issuer
        did; with several, the token is nobody's and holds nothing.
        """
        principal = self._principals.get(caller)
        if principal is None and not caller.startswith("spiffe://"):
            if caller in self._groups:
                raise UnknownCaller(f"{shown(caller)} is a group; name one of its members")
            known = ", ".join(sorted(self._principals)[:PRINCIPALS_SHOWN_MAX])
            raise UnknownCaller(
                f"{shown(caller)} is neither a principal nor a SPIFFE id; the policy has {known}"
            )
        own = None if principal is None else principal.issuer
        if own is not None and issuer not in (None, own):
            raise UnknownCaller(f"{caller} has its tokens from {own}, not from {issuer}")
        made_by = own or issuer or (next(iter(self._issuers)) if len(self._issuers) == 1 else None)
        if made_by is None and (claims or scopes):
            raise UnknownCaller("claims and scopes come from a named issuer; say which")
        if made_by is not None and made_by not in self._issuers:
            raise UnknownCaller(f"{shown(made_by)} is not one of the policy's issuers")
        spiffe = caller if principal is None else principal.spiffe or NOWHERE + caller
        conditions = {} if principal is None else dict(principal.claims)
        return Identity(
            spiffe_id=spiffe,
            thumbprint=bytes(32),
            issuer=made_by or "",
            issuer_url=self._issuers.get(made_by or "", ""),
            client_id="" if principal is None else principal.client_id or "",
            subject=caller,
            token_id="",
            scopes=scopes,
            expires_at=math.inf,
            claims=MappingProxyType(conditions | dict(claims)),
        )
