"""The policy file as grants, and as it would be without some of them.

A plain reading of the YAML that the gatekeeper uses (docs/policy.md): who may do what under which
rule. Whether the file is sound is the gatekeeper's business. Imports PyYAML.
"""

import difflib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

import yaml

_OPEN_SUBJECTS: Final = ("claim:", "scope:")
"""Subjects that mean whoever has a claim or a scope, not somebody by name."""
FailingTests = Callable[[str], Collection[int]]
"""Which of a policy's own tests fail, by their places. Only whoever decides can tell."""


class BadPolicy(Exception):
    """A file that is no policy. The message says what is wrong."""


@dataclass(frozen=True, slots=True)
class Grant:
    """One subject of one who-list. `principals` is None for a claim or a scope."""

    rule: str
    subject: str
    principals: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy file's grants. `text` is the file; `digest` is what decisions name it by."""

    text: str
    digest: str
    grants: tuple[Grant, ...]


def read_policy(data: bytes) -> Policy:
    """Read a policy file, or raise BadPolicy."""
    try:
        text = data.decode("utf-8")
        document = yaml.safe_load(text)
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise BadPolicy(f"the policy can't be read: {error}") from error
    if not isinstance(document, dict) or not document.keys() & {"topics", "principals"}:
        raise BadPolicy("the policy has neither `topics` nor `principals`; name another file")
    if not isinstance(document.get("topics") or {}, dict):
        raise BadPolicy("the policy's `topics` is no table")
    groups = document.get("groups") or {}
    grants = tuple(
        Grant(rule, subject, _principals(subject, groups, ()))
        for rule, who in _who_lists(document.get("topics") or {})
        for subject in who
    )
    return Policy(text, sha256(data).hexdigest(), grants)


def rule_id(pattern: str, action: str) -> str:
    """A rule's id is its place."""
    return f'topics."{pattern}".{action}'


def _who_lists(topics: dict[str, Any]) -> Iterator[tuple[str, list[str]]]:
    for pattern, actions in topics.items():
        for action, given in (actions or {}).items():
            who = given.get("who") if isinstance(given, dict) else given
            yield rule_id(str(pattern), str(action)), [str(each) for each in who or ()]


def _principals(
    subject: str, groups: dict[str, Any], seen: tuple[str, ...]
) -> tuple[str, ...] | None:
    """The principals that a subject means; None as soon as it may mean others too."""
    if subject.startswith(_OPEN_SUBJECTS):
        return None
    if subject not in groups or subject in seen:
        return (subject,)
    found: list[str] = []
    for member in groups[subject] or ():
        inner = _principals(str(member), groups, (*seen, subject))
        if inner is None:
            return None
        found += inner
    return tuple(found)


def without(policy: Policy, unused: Collection[tuple[str, str]]) -> str:
    """The file's text without the (rule, subject) pairs; comments and layout stay."""
    edits: list[tuple[int, int, str]] = []
    root = yaml.compose(policy.text)
    for rule, node in _who_nodes(root):
        kept = [item for item in node.value if (rule, item.value) not in unused]
        if len(kept) == len(node.value):
            continue
        begin, end = node.start_mark.index, node.end_mark.index
        pieces = [policy.text[item.start_mark.index : item.end_mark.index] for item in kept]
        if node.flow_style or not kept:
            tail = "" if node.flow_style else "\n"
            edits.append((begin, end, f"[{', '.join(pieces)}]{tail}"))
        else:
            indent = " " * node.start_mark.column
            edits.append((begin, end, f"\n{indent}".join(f"- {piece}" for piece in pieces) + "\n"))
    text = policy.text
    for begin, end, replacement in sorted(edits, reverse=True):
        rest = text[end:]
        if replacement.endswith("\n"):
            # A block list's end mark stands where the next key begins, behind its indentation.
            line = text.rfind("\n", 0, end) + 1
            rest = text[line:]
        text = text[:begin] + replacement + rest
    return text


def _who_nodes(root: Any) -> Iterator[tuple[str, Any]]:
    for pattern, actions in _items(dict(_items(root)).get("topics")):
        for action, given in _items(actions):
            node = dict(_items(given)).get("who") if isinstance(given, yaml.MappingNode) else given
            if isinstance(node, yaml.SequenceNode):
                yield rule_id(pattern, action), node


def _items(node: Any) -> list[tuple[str, Any]]:
    if not isinstance(node, yaml.MappingNode):
        return []
    return [(key.value, value) for key, value in node.value]


def expecting_denials(text: str, places: Collection[int]) -> str:
    """The file's text where these of its `tests` expect a denial; comments and layout stay."""
    tests = dict(_items(yaml.compose(text))).get("tests")
    if not isinstance(tests, yaml.SequenceNode):
        return text
    expected = [dict(_items(tests.value[place])).get("expect") for place in sorted(places)]
    for node in reversed([each for each in expected if each is not None]):
        text = f"{text[: node.start_mark.index]}deny{text[node.end_mark.index :]}"
    return text


def policy_diff(
    policy: Policy,
    unused: Collection[tuple[str, str]],
    name: str,
    failing: FailingTests = lambda _: (),
) -> str:
    """A unified diff that takes the unused grants away; empty where there are none.

    The file's own tests would keep it from taking effect as long as they expect what was taken
    away: those that are `failing` then, and did not before, expect a denial.
    """
    text = without(policy, unused)
    text = expecting_denials(text, set(failing(text)) - set(failing(policy.text)))
    return "".join(
        difflib.unified_diff(
            policy.text.splitlines(keepends=True),
            text.splitlines(keepends=True),
            f"a/{name}",
            f"b/{name}",
        )
    )
