"""A document's rules as look-up tables.

Each action has its own tables: topics that a rule names exactly in a dict, patterns in a trie. For
each exactly named topic the denies that could ever cover it are found here, once, so that the
commonest decision is two look-ups. May import `document`, `pattern` and `trie`; must never know of
callers.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gatekeeper.policy.document import ACTIONS, Action, Deny, Document, TopicEntry
from gatekeeper.policy.pattern import Pattern, Template
from gatekeeper.policy.trie import PatternTrie
from log_format.topic import is_system_topic


@dataclass(frozen=True, slots=True)
class AllowRule:
    """One action of a topics entry.

    `reach_s` is how far back a reader may go, None for no bound; `rank` sorts the more specific
    pattern first and equals in file order. `owners` are those whose subscriptions a `share` is
    about, None for everybody.
    """

    id: str
    action: Action
    pattern: Pattern
    who: frozenset[str]
    reach_s: float | None
    rank: int
    line: int
    owners: frozenset[str] | None = None

    def is_about(self, owner: str) -> bool:
        """True where the rule holds for what is this owner's; the empty name is anybody's."""
        return self.owners is None or not owner or owner in self.owners


@dataclass(frozen=True, slots=True)
class DenyPattern:
    """All denies of one pattern and action. For each subject, the first deny in the file."""

    pattern: Pattern
    templates: tuple[tuple[int, Template], ...]
    by_subject: Mapping[str, Deny]


@dataclass(frozen=True, slots=True)
class ExactTopic:
    """What is known of a topic that a rule names exactly: that rule, and every deny that could
    cover the topic. `alone` is true where no pattern could allow it besides."""

    rule: AllowRule
    denies: tuple[DenyPattern, ...]
    alone: bool


@dataclass(frozen=True, slots=True)
class ActionTables:
    """All rules on one action."""

    exact: Mapping[str, ExactTopic]
    patterns: PatternTrie[AllowRule]
    exact_denies: Mapping[str, DenyPattern]
    deny_patterns: PatternTrie[DenyPattern]

    def denies_on(self, topic: str, segments: list[str]) -> list[DenyPattern]:
        """Every deny that could cover the topic, whatever templates turn out to be."""
        found = self.deny_patterns.covering(segments) if self.deny_patterns.size else []
        named = self.exact_denies.get(topic)
        return found if named is None else [named, *found]


@dataclass(frozen=True, slots=True)
class Tables:
    """All rules. `denied` holds every subject of any deny: who is none of them can't be denied."""

    actions: Mapping[Action, ActionTables]
    rules: tuple[AllowRule, ...]
    denied: frozenset[str]
    deny_order: Mapping[str, int]


def compile_rules(document: Document) -> Tables:
    """The tables of a document. Costs microseconds per rule."""
    rules = _allow_rules(document)
    by_action: dict[Action, list[AllowRule]] = {action: [] for action in ACTIONS}
    for rule in rules:
        by_action[rule.action].append(rule)
    return Tables(
        actions={action: _tables(by_action[action], document.denies, action) for action in ACTIONS},
        rules=rules,
        denied=frozenset(str(subject) for deny in document.denies for subject in deny.who),
        deny_order={deny.id: place for place, deny in enumerate(document.denies)},
    )


def _allow_rules(document: Document) -> tuple[AllowRule, ...]:
    ranked: Iterable[TopicEntry] = sorted(
        document.topics, key=lambda entry: entry.pattern.specificity
    )
    found = []
    for rank, entry in enumerate(ranked):
        for grant in entry.grants:
            reach_s = grant.max_age_s
            if grant.action == "subscribe":
                reach_s = document.subscribe_lookback_s
            rule = AllowRule(
                id=f'topics."{entry.pattern.text}".{grant.action}',
                action=grant.action,
                pattern=entry.pattern,
                who=frozenset(map(str, grant.who)),
                reach_s=reach_s,
                rank=rank,
                line=grant.line,
                owners=None if grant.owners is None else frozenset(grant.owners),
            )
            found.append(rule)
    return tuple(found)


def _tables(rules: list[AllowRule], denies: tuple[Deny, ...], action: Action) -> ActionTables:
    exact_denies: dict[str, DenyPattern] = {}
    deny_patterns: PatternTrie[DenyPattern] = PatternTrie()
    for merged in _merged(denies, action):
        if merged.pattern.exact:
            exact_denies[merged.pattern.text] = merged
        else:
            deny_patterns.add(merged.pattern, merged)
    patterns: PatternTrie[AllowRule] = PatternTrie()
    for rule in rules:
        if not rule.pattern.exact:
            patterns.add(rule.pattern, rule)
    exact: dict[str, ExactTopic] = {}
    tables = ActionTables(exact, patterns, exact_denies, deny_patterns)
    for rule in rules:
        topic = rule.pattern.text
        if is_system_topic(topic):
            named = exact_denies.get(topic)
            exact[topic] = ExactTopic(rule, () if named is None else (named,), alone=True)
        elif rule.pattern.exact:
            segments = topic.split(".")
            denies_on = tuple(tables.denies_on(topic, segments))
            exact[topic] = ExactTopic(rule, denies_on, alone=not patterns.covering(segments))
    return tables


def _merged(denies: tuple[Deny, ...], action: Action) -> Iterable[DenyPattern]:
    by_pattern: dict[Pattern, dict[str, Deny]] = {}
    for deny in denies:
        if action in deny.do:
            for pattern in deny.on:
                by_subject = by_pattern.setdefault(pattern, {})
                for subject in deny.who:
                    by_subject.setdefault(str(subject), deny)
    for pattern, by_subject in by_pattern.items():
        yield DenyPattern(pattern, tuple(pattern.templates), by_subject)
