"""Why a decision is what it is, and what would have to change for another.

For people who were denied: takes its time, looks at every rule, and never decides anything itself.
May import `decide` and below.
"""

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gatekeeper.identity.identity import Identity
from gatekeeper.policy.compile import AllowRule
from gatekeeper.policy.decide import Decision, Policy
from gatekeeper.policy.document import Action, Principal
from gatekeeper.policy.membership import Membership, claim_texts, fits
from gatekeeper.policy.pattern import Pattern, Template, Wild
from log_format.topic import is_system_topic

TYPO_RATIO: Final = 0.8
"""How alike a topic and a rule must be for the difference to be a slip of the pen: one letter in
five characters, two in ten."""
ALMOST_MAX: Final = 3
"""Principals that almost fit, of which the first few are told."""


@dataclass(frozen=True, slots=True)
class Nearest:
    """The rule that came closest to allowing, what it misses, and what to do about that."""

    rule: str
    line: int
    missing: str
    change: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """A decision with its reasons. `line` is the deciding rule's, None where none decided."""

    decision: Decision
    line: int | None
    why: tuple[str, ...]
    nearest: Nearest | None


def explain(
    policy: Policy, identity: Identity, action: Action, topic: str, owner: str = ""
) -> Explanation:
    """Decide, and say why. `owner` is whose subscription it is about, for `share`."""
    decision = policy.decide(identity, action, topic, owner)
    member = policy.membership_of(identity)
    why = (*_about_caller(policy, member), *_about_decision(decision))
    nearest = None
    if not decision.allowed and decision.reason not in ("system_topic", "bad_topic"):
        nearest = _nearest(policy, member, action, topic, owner)
        if decision.rule is not None:
            nearest = _behind_deny(policy, member, decision, nearest)
    return Explanation(decision, _line_of(policy, decision.rule), why, nearest)


def _line_of(policy: Policy, rule: str | None) -> int | None:
    lines = {allow.id: allow.line for allow in policy.tables.rules}
    lines |= {deny.id: deny.line for deny in policy.document.denies}
    return None if rule is None else lines[rule]


def _about_caller(policy: Policy, member: Membership) -> Iterator[str]:
    principals = {principal.name: principal for principal in policy.document.principals}
    if member.principal in principals:
        yield f"the caller is {member.principal}"
    else:
        yield f"the caller fits no principal and is named by its SPIFFE id, {member.principal}"
    others = sorted(member.subjects - {member.principal})
    if others:
        yield "it also counts as " + ", ".join(others)
    for template, value in sorted(member.values.items()):
        yield f"{template} is {value}"
    if member.principal not in principals:
        almost = [
            text
            for principal in principals.values()
            if (text := _almost(principal, member.identity)) is not None
        ]
        yield from almost[:ALMOST_MAX]


def _almost(principal: Principal, identity: Identity) -> str | None:
    """What keeps a caller from a principal that is meant for its certificate or its client."""
    meant = principal.spiffe == identity.spiffe_id or (
        principal.client_id is not None
        and (principal.issuer, principal.client_id) == (identity.issuer, identity.client_id)
    )
    if not meant or fits(principal, identity):
        return None
    wrong = [
        f"{name} is {has or 'none'}, not {wanted}"
        for name, wanted, has in (
            ("spiffe", principal.spiffe, identity.spiffe_id),
            ("issuer", principal.issuer, identity.issuer),
            ("client_id", principal.client_id, identity.client_id),
        )
        if wanted is not None and wanted != has
    ]
    for name, wanted in principal.claims:
        has = claim_texts(identity.claims.get(name))
        if wanted not in has:
            wrong.append(f"claim {name} is {', '.join(has) or 'none'}, not {wanted}")
    return f"it almost fits {principal.name}: {'; '.join(wrong)}"


def _about_decision(decision: Decision) -> Iterator[str]:
    yield decision.text
    if decision.allowed and decision.max_age_s is not None:
        further = "; further back needs replay" if decision.action == "subscribe" else ""
        yield f"it reaches back {_span(decision.max_age_s)}{further}"
    if decision.reason == "no_rule" and is_system_topic(decision.topic):
        yield "a system topic is read with audit, granted under its exact name"


def _span(seconds: float) -> str:
    """A duration as the file writes it, in the greatest unit that leaves no fraction."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:g}s"


def _behind_deny(
    policy: Policy, member: Membership, decision: Decision, nearest: Nearest | None
) -> Nearest | None:
    """A deny stands before everything: it has to change, and a rule behind it has to allow."""
    deny = next(deny for deny in policy.document.denies if deny.id == decision.rule)
    named = sorted(str(subject) for subject in deny.who if str(subject) in member.subjects)
    change = f"take {', '.join(named)} out of {deny.id} (line {deny.line}), or narrow its on"
    if nearest is None:
        return None
    if nearest.missing:
        return Nearest(
            nearest.rule,
            nearest.line,
            f"{deny.id} denies first; and {nearest.missing}",
            f"{change}; and {nearest.change}",
        )
    return Nearest(nearest.rule, nearest.line, f"{deny.id} denies first", change)


def _nearest(
    policy: Policy, member: Membership, action: Action, topic: str, owner: str
) -> Nearest | None:
    """The rule with the smallest gap; among equals the more specific one, then the first."""
    wanted: Action = "audit" if is_system_topic(topic) else action
    best: tuple[tuple[float, int], AllowRule, Nearest] | None = None
    for rule in policy.tables.rules:
        gap = _gap(rule, member, wanted, topic, owner)
        if gap is not None:
            distance, missing, change = gap
            key = (distance, rule.rank)
            if best is None or key < best[0]:
                best = (key, rule, Nearest(rule.id, rule.line, missing, change))
    return None if best is None else best[2]


def _gap(
    rule: AllowRule, member: Membership, action: Action, topic: str, owner: str
) -> tuple[float, str, str] | None:
    """How far a rule is from allowing, what is missing, and what to change. None: too far.

    The distances say what a denied caller most likely got wrong, in this order: its token, the
    topic's spelling, its place in the rule, the action, the topic. To be added to a rule on every
    topic comes after all of these: it would give far more than was asked for.
    """
    segments = topic.split(".")
    listed = not rule.who.isdisjoint(member.subjects)
    same_action = rule.action == action
    if is_system_topic(topic) or rule.pattern.exact:
        covers = rule.pattern.text == topic
    else:
        covers = rule.pattern.covers(segments)
    token = _token_gap(rule.pattern, segments, member) if covers else ""
    missing_name = f"{member.principal} is not in its who-list"
    add_name = f"add {_addable(member)} to {rule.id} (line {rule.line})"
    if covers and same_action:
        if listed and not token and not rule.is_about(owner):
            whose = ", ".join(sorted(rule.owners or ()))
            return 2.0, f"it is about what is {whose}'s", f"add {owner} to its owners"
        if listed and not token:
            return 0.0, "", ""
        if listed:
            return 1.0, token, "get a token with that claim, or use the topic of your own claim"
        if not token:
            return (3.0 if rule.pattern.segments else 5.6), missing_name, add_name
        return 6.0, f"{missing_name}; and {token}", add_name
    if covers and listed and not token:
        return (
            4.0,
            f"it is about {rule.action}, not {action}",
            f"grant {action} in the same entry (line {rule.line})",
        )
    if listed and same_action:
        likeness = _likeness(rule.pattern, topic)
        return (
            (2.0 if likeness >= TYPO_RATIO else 5.0) + (1.0 - likeness) / 2,
            f"{topic} does not fit {rule.pattern.text}",
            f"use a topic that fits {rule.pattern.text}, or add an entry for {topic}",
        )
    return None


def _addable(member: Membership) -> str:
    if member.principal.startswith("spiffe://"):
        return "a principal for this caller"
    return member.principal


def _token_gap(pattern: Pattern, segments: list[str], member: Membership) -> str:
    """What the token would have to hold for the pattern's templates; empty where it does."""
    wrong = []
    for place, template in pattern.templates:
        value = member.values.get(template)
        if value != segments[place]:
            has = _what_it_has(template, member.identity) if value is None else f"is {value}"
            wrong.append(f"the token's {template} {has}, the topic has {segments[place]}")
    return "; ".join(wrong)


def _what_it_has(template: Template, identity: Identity) -> str:
    if identity.issuer != template.issuer:
        return f"counts only from {template.issuer}, and this token is {identity.issuer or 'no'}'s"
    if template.claim not in identity.claims:
        return "is missing"
    return "is not a text of a-z, 0-9 and '-' only"


def _likeness(pattern: Pattern, topic: str) -> float:
    """How alike a topic and a pattern are, 0 to 1; wildcards count as what they stand for."""
    segments = topic.split(".")
    filled = [
        segments[place]
        if isinstance(mine, Wild | Template) and place < len(segments)
        else str(mine)
        for place, mine in enumerate(pattern.segments)
    ]
    if pattern.rest:
        filled += segments[len(filled) :] or [">"]
    return difflib.SequenceMatcher(None, topic, ".".join(filled), autojunk=False).ratio()
