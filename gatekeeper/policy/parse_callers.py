"""`principals`, `groups` and who-lists: how a policy names callers.

Nodes in, document values out, problems noted. May import `reading` and below; must never know of
topics and rules.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Final

from gatekeeper.policy import reading
from gatekeeper.policy.document import Claim, Group, Named, Principal, Scope, Subject
from gatekeeper.policy.nodes import Node, Text
from gatekeeper.policy.pattern import CLAIM_NAME
from gatekeeper.policy.problem import Problems, shown
from hosting.spiffe import parse_spiffe_id
from log_format.limits import NAME_BYTES_MAX

DEFAULT_NAME: Final = "default"
"""`quotas.default` is everybody, so nobody may be called that."""

_SCOPE: Final = re.compile(r"[!#-\[\]-~]{1,256}")
"""RFC 6749, section 3.3: scope-token."""


@dataclass(frozen=True, slots=True)
class Names:
    """Every name that the file gives, so that a reference to any other is a problem."""

    issuers: frozenset[str]
    principals: frozenset[str]
    groups: frozenset[str]


def principals(
    node: Node | None, issuers: frozenset[str], problems: Problems
) -> tuple[tuple[Principal, ...], frozenset[str]]:
    """`principals`, and every name in it, sound or not."""
    if node is None:
        return (), frozenset()
    listed = reading.entries(node, "principals", "names to conditions", problems)
    found = []
    for key, value in listed:
        if _free_name(key, "principals", problems):
            principal = _principal(key, value, issuers, problems)
            found += [] if principal is None else [principal]
    return tuple(found), frozenset(key.value for key, _ in listed)


def _free_name(key: Text, where: str, problems: Problems) -> bool:
    if key.value == DEFAULT_NAME:
        problems.add(key.line, where, f"{shown(key.value)} is kept for quotas; choose another name")
    return reading.name(key, where, problems) is not None


def _principal(
    key: Text, node: Node, issuers: frozenset[str], problems: Problems
) -> Principal | None:
    where = f"principals.{key.value}"
    keys = {"spiffe": False, "issuer": False, "client_id": False, "claims": False}
    given = reading.fields(node, where, keys, problems)
    if given is None:
        return None
    if not given:
        problems.add(
            key.line, where, "has no condition and would fit every caller; give a spiffe or issuer"
        )
    if "issuer" not in given and ("client_id" in given or "claims" in given):
        problems.add(
            key.line, where, "needs issuer: a client_id or claim counts only from a named issuer"
        )
    spiffe = issuer = client_id = None
    if "spiffe" in given:
        spiffe = reading.parsed(given["spiffe"], f"{where}.spiffe", spiffe_id, problems)
    if "issuer" in given:
        issuer = issuer_name(given["issuer"], f"{where}.issuer", issuers, problems)
    if "client_id" in given:
        client_id = reading.parsed(
            given["client_id"], f"{where}.client_id", reading.short, problems
        )
    claims = _conditions(given.get("claims"), f"{where}.claims", problems)
    return Principal(key.value, spiffe, issuer, client_id, claims, key.line)


def _conditions(node: Node | None, where: str, problems: Problems) -> tuple[tuple[str, str], ...]:
    if node is None:
        return ()
    found = []
    for name, node_of_value in reading.entries(node, where, "claims to values", problems):
        claim_name(name, where, problems)
        value = reading.parsed(node_of_value, f"{where}.{name.value}", reading.short, problems)
        found += [] if value is None else [(name.value, value)]
    return tuple(sorted(found))


def claim_name(name: Text, where: str, problems: Problems) -> None:
    """Note a claim's name that no policy can use."""
    if CLAIM_NAME.fullmatch(name.value) is None:
        problems.add(name.line, where, f"{shown(name.value)} is not a claim's name")


def spiffe_id(value: str) -> str:
    """A workload's SPIFFE id, short enough for a batch's provenance, or ValueError."""
    if len(value) > NAME_BYTES_MAX:
        raise ValueError(f"has {len(value)} characters; at most {NAME_BYTES_MAX}")
    return parse_spiffe_id(value)


def issuer_name(node: Node, where: str, issuers: frozenset[str], problems: Problems) -> str | None:
    """A value that must be the name of an issuer."""
    value = reading.text(node, where, problems)
    if value is None:
        return None
    return _known_issuer(value.value, value.line, where, issuers, problems)


def _known_issuer(
    name: str, line: int, where: str, issuers: frozenset[str], problems: Problems
) -> str | None:
    if name in issuers:
        return name
    hint = problems.hint(name, issuers) or "; add it to issuers"
    problems.add(line, where, f"unknown issuer {shown(name)}{hint}")
    return None


def groups(
    node: Node | None, issuers: frozenset[str], principal_names: frozenset[str], problems: Problems
) -> tuple[tuple[Group, ...], Names]:
    """`groups`, whose members may be anything that a who-list may hold, and all names there are."""
    listed = () if node is None else reading.entries(node, "groups", "names to lists", problems)
    for key, _ in listed:
        _free_name(key, "groups", problems)
        if key.value in principal_names:
            problems.add(
                key.line, "groups", f"{shown(key.value)} is a principal too; rename one of them"
            )
    names = Names(issuers, principal_names, frozenset(key.value for key, _ in listed))
    found = tuple(
        Group(key.value, who(value, f"groups.{key.value}", names, problems), key.line)
        for key, value in listed
    )
    for circle in _circles(found):
        line = next(group.line for group in found if group.name == circle[0])
        problems.add(line, f"groups.{circle[0]}", f"is a member of itself: {' → '.join(circle)}")
    return found, names


def _circles(found: tuple[Group, ...]) -> Iterator[list[str]]:
    inner = {
        group.name: {member.name for member in group.members if isinstance(member, Named)}
        for group in found
    }
    while True:
        try:
            TopologicalSorter(inner).prepare()
        except CycleError as error:
            circle: list[str] = error.args[1][::-1]
            yield circle
            inner[circle[0]].discard(circle[1])
        else:
            return


def who(node: Node, where: str, names: Names, problems: Problems) -> tuple[Subject, ...]:
    """A who-list: principals, groups, `claim:ISSUER:NAME=VALUE`, `scope:ISSUER:SCOPE`."""
    listed = reading.texts(node, where, "principals, groups, claims or scopes", problems)
    subjects = (_subject(item, where, names, problems) for item in listed)
    return tuple(subject for subject in subjects if subject is not None)


def _subject(item: Text, where: str, names: Names, problems: Problems) -> Subject | None:
    kind, colon, rest = item.value.partition(":")
    if not colon:
        if item.value in names.principals or item.value in names.groups:
            return Named(item.value)
        hint = problems.hint(item.value, names.principals | names.groups)
        hint = hint or "; add it to principals or groups"
        problems.add(item.line, where, f"unknown name {shown(item.value)}{hint}")
        return None
    issuer, _, rest = rest.partition(":")
    subject: Subject | None = None
    if kind == "claim":
        name, _, value = rest.partition("=")
        if CLAIM_NAME.fullmatch(name) and 0 < len(value) <= reading.SHORT_CHARS_MAX:
            subject = Claim(issuer, name, value)
    elif kind == "scope" and _SCOPE.fullmatch(rest):
        subject = Scope(issuer, rest)
    if subject is None:
        problems.add(
            item.line,
            where,
            f"{shown(item.value)} is neither a name, nor claim:ISSUER:NAME=VALUE, nor "
            "scope:ISSUER:SCOPE",
        )
        return None
    known = _known_issuer(issuer, item.line, where, names.issuers, problems)
    return None if known is None else subject


def owner_name(item: Text, where: str, names: Names, problems: Problems) -> str | None:
    """Whose something is: a principal's name, or a SPIFFE id for a caller that has none."""
    if item.value in names.principals:
        return item.value
    if item.value.startswith("spiffe:"):
        return reading.parsed(item, where, spiffe_id, problems)
    hint = problems.hint(item.value, names.principals) or "; name a principal or a SPIFFE id"
    problems.add(item.line, where, f"unknown principal {shown(item.value)}{hint}")
    return None
