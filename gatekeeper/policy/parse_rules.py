"""`topics` and `deny`: what callers may do, and what they may not.

Nodes in, document values out, problems noted. May import `reading`, `parse_callers` and below.
"""

import re
from collections.abc import Iterator
from typing import Final, cast

from gatekeeper.policy import reading
from gatekeeper.policy.document import ACTIONS, Action, Deny, Grant, Subject, TopicEntry
from gatekeeper.policy.nodes import Items, Node, Table, Text
from gatekeeper.policy.parse_callers import Names, owner_name, who
from gatekeeper.policy.pattern import Pattern, parse_pattern
from gatekeeper.policy.problem import Problems, shown
from hosting.units import parse_duration
from log_format.topic import is_system_topic

_DENY_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
"""No dot, so that no deny can carry the id of a rule under `topics`."""
_RESERVED_IDS: Final = ("default",)
"""What a decision names where no rule matched."""
_DENY_KEYS: Final = {"id": True, "who": True, "do": True, "on": True, "reason": False}


def topics(node: Node | None, names: Names, problems: Problems) -> tuple[TopicEntry, ...]:
    """`topics`: patterns to actions to who-lists."""
    if node is None:
        return ()
    found = []
    for key, value in reading.entries(node, "topics", "patterns to actions", problems):
        where = f'topics."{key.value}"'
        pattern = _pattern(key, where, names, problems)
        given = reading.fields(value, where, dict.fromkeys(ACTIONS, False), problems)
        if given is None:
            continue
        if is_system_topic(key.value):
            for action in given.keys() - {"audit"}:
                problems.add(
                    given[action].line,
                    f"{where}.{action}",
                    "a system topic can be granted with audit only; clients never write it",
                )
        grants = tuple(
            _grant(cast("Action", action), grant, f"{where}.{action}", names, problems)
            for action, grant in given.items()
        )
        if pattern is not None:
            found.append(TopicEntry(pattern, grants, key.line))
    return tuple(found)


def _pattern(key: Text, where: str, names: Names, problems: Problems) -> Pattern | None:
    try:
        pattern = parse_pattern(key.value)
    except ValueError as error:
        problems.add(key.line, where, str(error))
        return None
    for _, template in pattern.templates:
        if template.issuer not in names.issuers:
            hint = problems.hint(template.issuer, names.issuers) or "; add it to issuers"
            problems.add(key.line, where, f"unknown issuer {shown(template.issuer)}{hint}")
    return pattern


def _grant(action: Action, node: Node, where: str, names: Names, problems: Problems) -> Grant:
    if not isinstance(node, Table):
        return Grant(action, who(node, where, names, problems), None, node.line)
    keys = {"who": True, "max_age": False, "owners": False}
    given = reading.fields(node, where, keys, problems) or {}
    max_age_s = None
    if "max_age" in given:
        age_where = f"{where}.max_age"
        max_age_s = reading.parsed(given["max_age"], age_where, parse_duration, problems)
        if action == "subscribe":
            problems.add(
                given["max_age"].line,
                age_where,
                "belongs to replay; how far back subscribe reaches is subscribe_lookback",
            )
        elif action != "replay":
            problems.add(given["max_age"].line, age_where, "belongs to replay")
    listed = who(given["who"], f"{where}.who", names, problems) if "who" in given else ()
    return Grant(
        action, listed, max_age_s, node.line, _owners(action, given, where, names, problems)
    )


def _owners(
    action: Action, given: dict[str, Node], where: str, names: Names, problems: Problems
) -> tuple[str, ...] | None:
    """Whose subscriptions a grant of `share` is about; None for everybody's."""
    if "owners" not in given:
        return None
    where = f"{where}.owners"
    if action != "share":
        problems.add(given["owners"].line, where, "belongs to share")
    listed = reading.texts(
        given["owners"], where, "owners", problems, empty_is="this would share nobody's"
    )
    found = (owner_name(item, where, names, problems) for item in listed)
    return tuple(name for name in found if name is not None)


def denies(node: Node | None, names: Names, problems: Problems) -> tuple[Deny, ...]:
    """`deny`: a list of rules that win over every grant."""
    if node is None:
        return ()
    found: dict[str, Deny] = {}
    for place, item in enumerate(reading.items(node, "deny", "deny rules", problems)):
        where = f"deny[{place}]"
        given = reading.fields(item, where, _DENY_KEYS, problems)
        if given is None:
            continue
        deny = Deny(
            id=_deny_id(given.get("id"), where, problems),
            who=_denied(given.get("who"), f"{where}.who", names, problems),
            do=_actions(given.get("do"), f"{where}.do", problems),
            on=_patterns(given.get("on"), f"{where}.on", names, problems),
            reason=_reason(given.get("reason"), f"{where}.reason", problems),
            line=item.line,
        )
        first = found.setdefault(deny.id, deny)
        if deny.id and first is not deny:
            problems.add(
                item.line, f"{where}.id", f"{shown(deny.id)} is already used on line {first.line}"
            )
    return tuple(found.values())


def _deny_id(node: Node | None, where: str, problems: Problems) -> str:
    value = None if node is None else reading.text(node, f"{where}.id", problems)
    if value is None:
        return ""
    if _DENY_ID.fullmatch(value.value) is None or value.value in _RESERVED_IDS:
        problems.add(
            value.line,
            f"{where}.id",
            f"{shown(value.value)} is not a free id: letters, digits, '_' and '-', at most 64",
        )
    return value.value


def _denied(node: Node | None, where: str, names: Names, problems: Problems) -> tuple[Subject, ...]:
    if node is None:
        return ()
    if isinstance(node, Items) and not node.items:
        problems.add(node.line, where, "is empty: this would deny nobody")
    return who(node, where, names, problems)


def _actions(node: Node | None, where: str, problems: Problems) -> tuple[Action, ...]:
    if node is None:
        return ()
    listed = reading.texts(node, where, "actions", problems, empty_is="this would deny nothing")
    return tuple(_known_actions(listed, where, problems))


def _known_actions(listed: tuple[Text, ...], where: str, problems: Problems) -> Iterator[Action]:
    for item in listed:
        known = action(item, where, problems)
        if known is not None:
            yield known


def action(item: Text, where: str, problems: Problems) -> Action | None:
    """One of the actions, or None after the problem is noted."""
    if item.value in ACTIONS:
        return item.value
    hint = problems.hint(item.value, ACTIONS) or f"; the actions are {', '.join(ACTIONS)}"
    problems.add(item.line, where, f"unknown action {shown(item.value)}{hint}")
    return None


def _patterns(
    node: Node | None, where: str, names: Names, problems: Problems
) -> tuple[Pattern, ...]:
    if node is None:
        return ()
    if isinstance(node, Items):
        listed = reading.texts(
            node, where, "patterns", problems, empty_is="this would deny nothing"
        )
    elif isinstance(node, Text):
        # An empty text goes on to the pattern parser, which knows that an unquoted > became one.
        listed = (node,)
    else:
        reading.wrong_shape(node, where, "a pattern or a list of patterns", problems)
        listed = ()
    patterns = (_pattern(item, where, names, problems) for item in listed)
    return tuple(pattern for pattern in patterns if pattern is not None)


def _reason(node: Node | None, where: str, problems: Problems) -> str:
    if node is None:
        return ""
    return reading.parsed(node, where, reading.short, problems) or ""
