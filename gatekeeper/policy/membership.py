"""Who a proven caller is to a policy: its principal, its groups, its claims and its limits.

A caller is resolved once and the result kept for the life of its token; the cost grows with the
token, not with the policy. May import `document`, `pattern`, `quotas` and `identity`; must never
know of rules.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from gatekeeper.api.quotas import Limits
from gatekeeper.identity.identity import Identity
from gatekeeper.policy.document import (
    Claim,
    Document,
    Group,
    LimitName,
    Principal,
    Quota,
    Scope,
    Subject,
)
from gatekeeper.policy.pattern import TEMPLATE_VALUE, Template

INTEGER_BITS_MAX: Final = 64
"""Integers in claims that are compared: JSON that travels between languages has no greater ones."""


@dataclass(frozen=True, slots=True)
class Membership:
    """One caller as the policy sees it.

    `principal` is the name that is stamped on its batches. `subjects` is everything in who-lists
    that means this caller, as written there. `values` has the templates that its token resolves.
    """

    identity: Identity
    principal: str
    subjects: frozenset[str]
    values: Mapping[Template, str]
    limits: Limits


class Callers:
    """The part of a compiled policy that knows callers. Immutable."""

    __slots__ = (
        "_candidates", "_claims", "_groups", "_issuers", "_quotas", "_scopes", "_templates",
    )  # fmt: skip

    def __init__(self, document: Document) -> None:
        self._issuers = {issuer.name: issuer.settings.issuer for issuer in document.issuers}
        self._candidates = _candidates(document.principals)
        self._groups = _groups_of(document.groups)
        subjects = list(_subjects(document))
        self._claims: dict[tuple[str, str], dict[str, str]] = {}
        for claim in (subject for subject in subjects if isinstance(subject, Claim)):
            self._claims.setdefault((claim.issuer, claim.name), {})[claim.value] = str(claim)
        self._scopes = {
            (subject.issuer, subject.scope): str(subject)
            for subject in subjects
            if isinstance(subject, Scope)
        }
        self._templates = _templates(document)
        self._quotas = _Quotas(document.default_quota, document.quotas)

    def resolve(self, identity: Identity) -> Membership:
        """Look a caller up."""
        seen = identity
        if self._issuers.get(identity.issuer) != identity.issuer_url:
            # The name meant another issuer when this caller was authenticated, under a policy
            # before this one. Its claims count for nothing here.
            seen = replace(identity, issuer="")
        fitting = [
            principal
            for key in _index_keys(seen)
            for principal in self._candidates.get(key, ())
            if fits(principal, seen)
        ]
        # The most conditions first; among equals the first name, so that the answer is stable.
        fitting.sort(key=lambda principal: (-principal.conditions, principal.name))
        direct = {principal.name for principal in fitting}
        direct.update(self._token_subjects(seen))
        subjects = direct.union(*(self._groups.get(subject, ()) for subject in direct))
        name = fitting[0].name if fitting else identity.spiffe_id
        values = {}
        for template in self._templates.get(seen.issuer, ()):
            value = template_value(template, seen)
            if value is not None:
                values[template] = value
        return Membership(
            identity, name, frozenset(subjects), values, self._quotas.limits(name, subjects)
        )

    def _token_subjects(self, identity: Identity) -> Iterator[str]:
        for name, value in identity.claims.items():
            wanted = self._claims.get((identity.issuer, name))
            if wanted is not None:
                yield from (wanted[text] for text in claim_texts(value) if text in wanted)
        for scope in identity.scopes:
            subject = self._scopes.get((identity.issuer, scope))
            if subject is not None:
                yield subject


def fits(principal: Principal, identity: Identity) -> bool:
    """True where every condition of the principal holds."""
    return (
        (principal.spiffe is None or principal.spiffe == identity.spiffe_id)
        and (principal.issuer is None or principal.issuer == identity.issuer)
        and (principal.client_id is None or principal.client_id == identity.client_id)
        and all(value in claim_texts(identity.claims.get(name)) for name, value in principal.claims)
    )


def claim_texts(value: object) -> tuple[str, ...]:
    """What a claim's value is compared as: text as it is, integers in decimal, `true`, `false`; of
    a list, each item. Everything else (fractions, null, objects, lists in lists) equals nothing."""
    if isinstance(value, str):
        return (value,)
    if isinstance(value, bool):
        return ("true" if value else "false",)
    if isinstance(value, int):
        return (str(value),) if value.bit_length() <= INTEGER_BITS_MAX else ()
    if isinstance(value, list | tuple):
        return tuple(
            text
            for item in value
            if not isinstance(item, list | tuple)
            for text in claim_texts(item)
        )
    return ()


def template_value(template: Template, identity: Identity) -> str | None:
    """The segment that a template stands for, or None where this caller has none: another issuer's
    token, no such claim, or one that is not a string of `[a-z0-9-]`."""
    if identity.issuer != template.issuer:
        return None
    value = identity.claims.get(template.claim)
    return value if isinstance(value, str) and TEMPLATE_VALUE.fullmatch(value) else None


_IndexKey = tuple[str, ...]


def _index_key(principal: Principal) -> _IndexKey:
    """One condition that a caller must meet, the one that the fewest callers do."""
    if principal.spiffe is not None:
        return ("spiffe", principal.spiffe)
    if principal.client_id is not None:
        return ("client_id", str(principal.issuer), principal.client_id)
    if principal.claims:
        return ("claim", str(principal.issuer), *principal.claims[0])
    return ("issuer", str(principal.issuer))


def _index_keys(identity: Identity) -> Iterator[_IndexKey]:
    """Every key under which a principal could wait for this caller, each once."""
    yield ("spiffe", identity.spiffe_id)
    yield ("client_id", identity.issuer, identity.client_id)
    yield ("issuer", identity.issuer)
    for name, value in identity.claims.items():
        for text in dict.fromkeys(claim_texts(value)):
            yield ("claim", identity.issuer, name, text)


def _candidates(principals: Iterable[Principal]) -> dict[_IndexKey, list[Principal]]:
    found: dict[_IndexKey, list[Principal]] = {}
    for principal in principals:
        found.setdefault(_index_key(principal), []).append(principal)
    return found


def _groups_of(groups: tuple[Group, ...]) -> dict[str, frozenset[str]]:
    """For each subject, every group that it is in, through other groups too."""
    direct: dict[str, set[str]] = {}
    for group in groups:
        for member in group.members:
            direct.setdefault(str(member), set()).add(group.name)
    found: dict[str, frozenset[str]] = {}
    for subject, nearest in direct.items():
        reached: set[str] = set()
        waiting = list(nearest)
        while waiting:
            name = waiting.pop()
            if name not in reached:
                reached.add(name)
                waiting += direct.get(name, ())
        found[subject] = frozenset(reached)
    return found


def _subjects(document: Document) -> Iterator[Subject]:
    for group in document.groups:
        yield from group.members
    for entry in document.topics:
        for grant in entry.grants:
            yield from grant.who
    for deny in document.denies:
        yield from deny.who


def _templates(document: Document) -> dict[str, tuple[Template, ...]]:
    """Every template of the policy, by its issuer."""
    patterns = [entry.pattern for entry in document.topics]
    patterns += [pattern for deny in document.denies for pattern in deny.on]
    found: dict[str, dict[Template, None]] = {}
    for pattern in patterns:
        for _, template in pattern.templates:
            found.setdefault(template.issuer, {})[template] = None
    return {issuer: tuple(templates) for issuer, templates in found.items()}


class _Quotas:
    """`quotas`: the default, then groups, then the principal's own, limit by limit.

    Of several groups the most generous counts: a group is how one is given more.
    """

    __slots__ = ("_default", "_entries")

    def __init__(self, default: Quota | None, entries: tuple[Quota, ...]) -> None:
        self._default = {} if default is None else dict(default.limits)
        self._entries = {entry.name: dict(entry.limits) for entry in entries}

    def limits(self, principal: str, subjects: set[str]) -> Limits:
        limits: dict[LimitName, float | None] = dict(self._default)
        raised: dict[LimitName, float | None] = {}
        for name in self._entries.keys() & subjects - {principal}:
            for key, value in self._entries[name].items():
                raised[key] = _more(raised[key], value) if key in raised else value
        limits |= raised
        limits |= self._entries.get(principal, {})
        streams = limits.get("streams")
        return Limits(
            messages_per_s=limits.get("messages_per_s"),
            bytes_per_s=limits.get("bytes_per_s"),
            streams=None if streams is None else int(streams),
        )


def _more(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else max(one, other)
