"""The decision: may this caller do this on this topic, which rule says so, and why.

Pure: the same policy, caller, action and topic always give the same answer, and no clock or file
is looked at. Default deny; any deny wins. May import `compile` and `membership`; must never know of
HTTP, decision ids or how an answer is recorded.
"""

from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

from gatekeeper.api.quotas import Limits
from gatekeeper.identity.identity import Identity
from gatekeeper.policy.compile import AllowRule, DenyPattern, compile_rules
from gatekeeper.policy.document import ACTIONS, Action, Deny, Document
from gatekeeper.policy.membership import Callers, Membership
from log_format.errors import BadField
from log_format.topic import check_topic, is_system_topic

Question = Literal["publish", "subscribe", "replay", "share", "admin", "audit", "any"]
"""An action, or `any`: whether the caller may do anything at all on the topic."""
Reason = Literal[
    "allowed", "no_rule", "denied_by_rule", "template_unresolved", "system_topic", "bad_topic"
]

MEMBERSHIPS_MAX: Final = 4096
"""Callers that are kept resolved, half of them recent: more tokens than one gatekeeper's
connections use at a time. About 2 kB each."""
DEAD_SUFFIX: Final = ".dead"
"""The topic of a topic's dead letters has its name and this."""
_SYSTEM_READS: Final = ("subscribe", "replay", "audit")


class Decision(NamedTuple):
    """An answer and what it rests on. True where it allows.

    `rule` is the id of the rule that decided, None where none did. `max_age_s` is how far back a
    reader may go by append time, None for no bound. A tuple, because a frozen dataclass takes three
    times as long to make, and this is made for every batch.
    """

    allowed: bool
    action: Question
    topic: str
    principal: str
    rule: str | None
    reason: Reason
    note: str = ""
    max_age_s: float | None = None
    owner: str = ""

    def __bool__(self) -> bool:
        return self.allowed

    @property
    def text(self) -> str:
        """The answer as a sentence, for logs and the caller."""
        # A name that is no topic's is shown so that it can neither break a line nor fill a log.
        topic = ascii(self.topic[:80]) if self.reason == "bad_topic" else self.topic
        asked = f"{self.action} on {topic}"
        if self.owner:
            asked += f" what is {self.owner}'s"
        if self.allowed:
            return f"{self.principal} may {asked}: {self.rule} allows it"
        note = f" ({self.note})" if self.note else ""
        why = _WHY[self.reason].format(rule=self.rule, note=note)
        return f"{self.principal} may not {asked}: {why}"


_WHY: Final = {
    "no_rule": "no rule allows it",
    "denied_by_rule": "{rule} denies it{note}",
    "template_unresolved": (
        "{rule} denies it{note}, because the token has no usable value for its template"
    ),
    "system_topic": "clients never write or change a system topic",
    "bad_topic": "that is not a topic's name{note}",
}


class Policy:
    """A compiled policy. Immutable but for the callers that it remembers; one thread's own."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.hash = document.sha256
        self.tables = compile_rules(document)
        self._actions = self.tables.actions
        self._callers = Callers(document)
        self._recent: dict[int, Membership] = {}
        self._older: dict[int, Membership] = {}

    def decide(self, identity: Identity, action: Question, topic: str, owner: str = "") -> Decision:
        """May `identity` do `action` on `topic`? For `share`: with a subscription of `owner`'s, or,
        where that is empty, of anybody's at all."""
        member = self._recent.get(id(identity))
        if member is None:
            member = self.membership_of(identity)
        if action == "any":
            return self._decide_any(member, topic)
        exact = self._actions[action].exact.get(topic)
        if exact is None or owner:
            return self._decide_by_patterns(member, action, topic, owner)
        denied = self._first_deny(exact.denies, topic, member) if exact.denies else None
        if denied is not None:
            return _denied(member, action, topic, *denied)
        rule = exact.rule
        # Another rule matters only where this one does not fit, or bounds a replay.
        if not rule.who.isdisjoint(member.subjects) and (
            exact.alone or rule.reach_s is None or action == "subscribe"
        ):
            return _allowed(member, action, topic, rule)
        if exact.alone:
            return self._without_rule(member, action, topic)
        return self._decide_by_patterns(member, action, topic)

    def principal_of(self, identity: Identity) -> str:
        """The name that is stamped on this caller's batches: its most specific principal, or its
        SPIFFE id where it fits none."""
        return self.membership_of(identity).principal

    def limits_of(self, identity: Identity) -> Limits:
        """The quota of this caller."""
        return self.membership_of(identity).limits

    def membership_of(self, identity: Identity) -> Membership:
        """Who this caller is to the policy, resolved once per identity object.

        Kept in two generations: what the older one still needs moves up, the rest is dropped when
        the recent one is full. So a look-up in use costs one dict access and no bookkeeping. An
        identity's `id` can't be given to another while it is a key: the membership holds it.
        """
        key = id(identity)
        member = self._recent.get(key)
        if member is not None:
            return member
        member = self._older.get(key)
        if member is None:
            member = self._callers.resolve(identity)
        if len(self._recent) >= MEMBERSHIPS_MAX // 2:
            self._older = self._recent
            self._recent = {}
        self._recent[key] = member
        return member

    def forget_callers(self) -> None:
        """Drop what is remembered of callers, such as those that the file's tests made up."""
        self._recent = {}
        self._older = {}

    def _decide_by_patterns(
        self, member: Membership, action: Action, topic: str, owner: str = ""
    ) -> Decision:
        if is_system_topic(topic):
            return self._decide_on_system_topic(member, action, topic)
        try:
            check_topic(topic)
        except BadField as error:
            return _denied(member, action, topic, None, "bad_topic")._replace(note=str(error))
        tables = self._actions[action]
        segments = topic.split(".")
        if not member.subjects.isdisjoint(self.tables.denied):
            denied = self._first_deny(tables.denies_on(topic, segments), topic, member)
            if denied is not None:
                return _denied(member, action, topic, *denied)._replace(owner=owner)
        rules = tables.patterns.fitting(segments, member.values)
        exact = tables.exact.get(topic)
        if exact is not None:
            rules.append(exact.rule)
        rule = _best(
            rule
            for rule in rules
            if not rule.who.isdisjoint(member.subjects) and rule.is_about(owner)
        )
        if rule is None:
            return self._without_rule(member, action, topic)._replace(owner=owner)
        return _allowed(member, action, topic, rule)._replace(owner=owner)

    def _without_rule(self, member: Membership, action: Action, topic: str) -> Decision:
        """No, unless it is a dead letter: whoever may subscribe to a topic may publish to the
        topic of its dead letters, so that what can't be delivered is not lost. A deny of either
        still wins."""
        if action == "publish" and topic.endswith(DEAD_SUFFIX):
            subscribed = self.decide(member.identity, "subscribe", topic.removesuffix(DEAD_SUFFIX))
            if subscribed.allowed:
                return subscribed._replace(action=action, topic=topic, max_age_s=None)
        return _denied(member, action, topic, None, "no_rule")

    def _decide_on_system_topic(self, member: Membership, action: Action, topic: str) -> Decision:
        """Reading needs `audit` by exact name, whatever it is called; writing never works."""
        if action not in _SYSTEM_READS:
            return _denied(member, action, topic, None, "system_topic")
        named = (self._actions[of].exact_denies.get(topic) for of in {action: 0, "audit": 0})
        denied = self._first_deny((deny for deny in named if deny is not None), topic, member)
        if denied is not None:
            return _denied(member, action, topic, *denied)
        exact = self._actions["audit"].exact.get(topic)
        if exact is None or exact.rule.who.isdisjoint(member.subjects):
            return _denied(member, action, topic, None, "no_rule")
        return _allowed(member, action, topic, exact.rule)

    def _decide_any(self, member: Membership, topic: str) -> Decision:
        """The first allowance; else the first refusal that a rule made, else the last one."""
        decisions = [self.decide(member.identity, action, topic) for action in ACTIONS]
        chosen = next((one for one in decisions if one.allowed), None)
        if chosen is None:
            chosen = next((one for one in decisions if one.rule is not None), decisions[-1])
        return chosen._replace(action="any", max_age_s=None)

    def _first_deny(
        self, candidates: Iterable[DenyPattern], topic: str, member: Membership
    ) -> tuple[Deny, Reason] | None:
        """Of the denies that hold, the first in the file."""
        found: tuple[Deny, Reason] | None = None
        first = (len(self.tables.deny_order), False)
        for candidate in candidates:
            by_subject = candidate.by_subject
            if by_subject.keys().isdisjoint(member.subjects):
                continue
            reason = _template_reason(candidate, topic, member)
            if reason is None:
                continue
            for subject in member.subjects & by_subject.keys():
                deny = by_subject[subject]
                # The same deny with and without its template: the plain reason is the better one.
                place = (self.tables.deny_order[deny.id], reason == "template_unresolved")
                if place < first:
                    first, found = place, (deny, reason)
        return found


def _template_reason(candidate: DenyPattern, topic: str, member: Membership) -> Reason | None:
    """Why a deny that covers the topic holds, or None where a template stands for another segment.

    A template without a value counts as fitting: whatever it should have been, it meant to deny.
    """
    reason: Reason = "denied_by_rule"
    if candidate.templates:
        segments = topic.split(".")
        for place, template in candidate.templates:
            value = member.values.get(template)
            if value is None:
                reason = "template_unresolved"
            elif value != segments[place]:
                return None
    return reason


def _best(rules: Iterable[AllowRule]) -> AllowRule | None:
    """The rule that reaches furthest back; among equals the most specific, then the first."""
    best: AllowRule | None = None
    for rule in rules:
        if best is None or _before(rule, best):
            best = rule
    return best


def _before(one: AllowRule, other: AllowRule) -> bool:
    if one.reach_s != other.reach_s:
        return one.reach_s is None or (other.reach_s is not None and one.reach_s > other.reach_s)
    return one.rank < other.rank


def _allowed(member: Membership, action: Action, topic: str, rule: AllowRule) -> Decision:
    return Decision(True, action, topic, member.principal, rule.id, "allowed", "", rule.reach_s)


def _denied(
    member: Membership, action: Action, topic: str, deny: Deny | None, reason: Reason
) -> Decision:
    if deny is None:
        return Decision(False, action, topic, member.principal, None, reason)
    return Decision(False, action, topic, member.principal, deny.id, reason, deny.reason)
