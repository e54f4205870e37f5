"""What a caller may do by the policy, as a list of its own rules rather than as one decision.

For people who ask who they are. Says which rules name the caller, never who else is named. May
import `decide` and below.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from gatekeeper.identity.identity import Identity
from gatekeeper.policy.decide import Policy
from gatekeeper.policy.document import Action
from gatekeeper.policy.membership import Membership
from gatekeeper.policy.pattern import Pattern

LISTED_MAX: Final = 1_000
"""Rules that are listed, of allowances and of denies each: about 100 kB."""


@dataclass(frozen=True, slots=True)
class Granted:
    """One rule that allows. `max_age_s` is how far back a reader may go, None for no bound;
    `owners` are those whose subscriptions are shared, None for everybody."""

    action: Action
    on: str
    rule: str
    max_age_s: float | None
    owners: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """One deny on one pattern; it wins over every allowance."""

    actions: tuple[Action, ...]
    on: str
    rule: str
    reason: str


@dataclass(frozen=True, slots=True)
class Grants:
    """The rules that name a caller, the more specific ones first. `complete` is false where there
    are more than are listed."""

    allowed: tuple[Granted, ...]
    denied: tuple[Refused, ...]
    complete: bool


def grants_of(policy: Policy, identity: Identity) -> Grants:
    """All rules that name the caller, up to the limit."""
    member = policy.membership_of(identity)
    allowed = tuple(islice(_allowed(policy, member), LISTED_MAX + 1))
    denied = tuple(islice(_denied(policy, member), LISTED_MAX + 1))
    complete = max(len(allowed), len(denied)) <= LISTED_MAX
    return Grants(allowed[:LISTED_MAX], denied[:LISTED_MAX], complete)


def _allowed(policy: Policy, member: Membership) -> Iterator[Granted]:
    for rule in policy.tables.rules:
        if rule.who.isdisjoint(member.subjects):
            continue
        if any(template not in member.values for _, template in rule.pattern.templates):
            # Without the claim it fits no topic at all.
            continue
        owners = None if rule.owners is None else tuple(sorted(rule.owners))
        yield Granted(rule.action, _resolved(rule.pattern, member), rule.id, rule.reach_s, owners)


def _denied(policy: Policy, member: Membership) -> Iterator[Refused]:
    for deny in policy.document.denies:
        if member.subjects.isdisjoint(map(str, deny.who)):
            continue
        for pattern in deny.on:
            yield Refused(deny.do, _resolved(pattern, member), deny.id, deny.reason)


def _resolved(pattern: Pattern, member: Membership) -> str:
    """The pattern with the caller's own values; a template that has none stays as written."""
    text = pattern.text
    for _, template in pattern.templates:
        text = text.replace(str(template), member.values.get(template, str(template)))
    return text
