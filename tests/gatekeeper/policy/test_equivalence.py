"""The compiled decision against a naive one that looks at every rule, over random policies.

The reference below reads the policy as plain data, shares no code with the package, and is written
to be compared with `docs/policy.md` by eye.
"""

import re
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gatekeeper.identity.identity import Identity
from gatekeeper.policy.decide import Policy
from gatekeeper.policy.document import ACTIONS
from gatekeeper.policy.parse import parse_policy

# ---------------------------------------------------------------- the reference


class Answer(NamedTuple):
    allowed: bool
    principal: str
    rule: str | None
    reason: str
    max_age_s: float | None


def texts(value: object) -> list[str]:
    if isinstance(value, list):
        return [text for item in value if not isinstance(item, list) for text in texts(item)]
    if isinstance(value, bool):
        return [str(value).lower()]
    return [str(value)] if isinstance(value, str | int) else []


def fits(conditions: dict[str, Any], who: Identity) -> bool:
    wrong = "spiffe" in conditions and conditions["spiffe"] != who.spiffe_id
    wrong |= "issuer" in conditions and conditions["issuer"] != who.issuer
    wrong |= "client_id" in conditions and conditions["client_id"] != who.client_id
    for name, value in conditions.get("claims", {}).items():
        wrong |= value not in texts(who.claims.get(name))
    return not wrong


def is_subject(policy: dict[str, Any], subject: str, who: Identity) -> bool:
    if subject in policy["principals"]:
        return fits(policy["principals"][subject], who)
    if subject in policy["groups"]:
        return any(is_subject(policy, member, who) for member in policy["groups"][subject])
    kind, issuer, rest = subject.split(":", 2)
    if issuer != who.issuer:
        return False
    if kind == "scope":
        return rest in who.scopes
    name, value = rest.split("=", 1)
    return value in texts(who.claims.get(name))


def template_value(segment: str, who: Identity) -> str | None:
    issuer, claim = segment[1:-1].split(":")
    value = who.claims.get(claim)
    usable = isinstance(value, str) and re.fullmatch("[a-z0-9-]+", value)
    return str(value) if issuer == who.issuer and usable else None


def match(pattern: list[str], topic: list[str], who: Identity) -> str:
    """yes, no, or unresolved: it would fit if a template that has no value did."""
    if pattern == [">"]:
        return "yes" if topic else "no"
    if not pattern or not topic:
        return "yes" if pattern == topic == [] else "no"
    rest = match(pattern[1:], topic[1:], who)
    if pattern[0].startswith("{"):
        value = template_value(pattern[0], who)
        if value is None:
            return "no" if rest == "no" else "unresolved"
        return rest if value == topic[0] else "no"
    return rest if pattern[0] in ("*", topic[0]) else "no"


def fit(pattern: str, topic: str, who: Identity) -> str:
    if topic.startswith("_"):
        return "yes" if pattern == topic else "no"
    return match(pattern.split("."), topic.split("."), who)


def specificity(pattern: str) -> list[int]:
    return [{"*": 2, ">": 3}.get(part, 1 if "{" in part else 0) for part in pattern.split(".")]


def decide(policy: dict[str, Any], who: Identity, action: str, topic: str) -> Answer:
    found = [name for name, rules in policy["principals"].items() if fits(rules, who)]
    size = {
        n: len(c) - ("claims" in c) + len(c.get("claims", {}))
        for n, c in policy["principals"].items()
    }
    principal = min(found, key=lambda name: (-size[name], name)) if found else who.spiffe_id
    system = topic.startswith("_")
    if system and action in ("publish", "share", "admin"):
        return Answer(False, principal, None, "system_topic", None)
    if not system and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*", topic):
        return Answer(False, principal, None, "bad_topic", None)
    for deny in policy["deny"]:
        asked = {action, "audit"} if system else {action}
        if asked & set(deny["do"]) and any(is_subject(policy, s, who) for s in deny["who"]):
            fitting = {fit(pattern, topic, who) for pattern in deny["on"]}
            if "yes" in fitting:
                return Answer(False, principal, deny["id"], "denied_by_rule", None)
            if "unresolved" in fitting:
                return Answer(False, principal, deny["id"], "template_unresolved", None)
    needed = "audit" if system else action
    allowing = []
    for order, (pattern, entry) in enumerate(policy["topics"].items()):
        grant = entry.get(needed, {"who": []})
        if fit(pattern, topic, who) == "yes" and any(
            is_subject(policy, subject, who) for subject in grant["who"]
        ):
            reach = float(grant["max_age"][:-1]) if "max_age" in grant else float("inf")
            reach = 600.0 if needed == "subscribe" else reach
            allowing.append((-reach, specificity(pattern), order, f'topics."{pattern}".{needed}'))
    if not allowing:
        return Answer(False, principal, None, "no_rule", None)
    reach, _, _, rule = min(allowing)
    return Answer(True, principal, rule, "allowed", None if reach == float("-inf") else -reach)


# ---------------------------------------------------------------- random policies and callers

ISSUERS = ["corp", "other"]
VALUES = ["a", "b", "A", "3", "true"]
PRINCIPALS = ["p1", "p2", "p3"]
GROUPS = ["g1", "g2"]
SYSTEM = ["_audit", "_x.y"]
NAMES = st.sampled_from(["a", "b"])
CLAIMS = st.dictionaries(st.sampled_from(["team", "role"]), st.sampled_from(VALUES), max_size=2)
FOREIGN = ["_other", "", "a..b", "a.*", ">", "{corp:team}", "a.\n", "é", "A.b"]


@st.composite
def conditions(draw: st.DrawFn) -> dict[str, Any]:
    made: dict[str, Any] = {}
    if draw(st.booleans()):
        made["spiffe"] = draw(st.sampled_from(["spiffe://x/1", "spiffe://x/1", "spiffe://x/2"]))
    if not made or draw(st.integers(0, 3)) == 0:
        made["issuer"] = draw(st.sampled_from(ISSUERS))
        if draw(st.booleans()):
            made["client_id"] = draw(st.sampled_from(["c1", "c2"]))
        if draw(st.booleans()):
            made["claims"] = draw(CLAIMS)
    return made


@st.composite
def subjects(draw: st.DrawFn, groups: list[str]) -> str:
    issuer = draw(st.sampled_from(ISSUERS))
    claim, value = draw(st.sampled_from(["team", "role"])), draw(st.sampled_from(VALUES))
    return draw(
        st.sampled_from(
            [*PRINCIPALS, *groups, f"claim:{issuer}:{claim}={value}", f"scope:{issuer}:s{value}"]
        )
    )


def who_lists(groups: list[str], least: int = 0) -> st.SearchStrategy[list[str]]:
    return st.lists(subjects(groups), min_size=least, max_size=4, unique=True)


@st.composite
def patterns(draw: st.DrawFn) -> str:
    segment = st.one_of(NAMES, st.sampled_from(["*", "{corp:team}", "{other:team}", "{corp:role}"]))
    if draw(st.integers(0, 2)) == 0:
        return ".".join(draw(st.lists(NAMES, min_size=1, max_size=2)))
    segments = draw(st.lists(segment, max_size=3))
    if not segments or draw(st.booleans()):
        segments.append(">")
    return ".".join(segments)


@st.composite
def grants(draw: st.DrawFn, action: str) -> dict[str, Any]:
    made: dict[str, Any] = {"who": draw(who_lists(GROUPS))}
    if action == "replay" and draw(st.booleans()):
        made["max_age"] = draw(st.sampled_from(["10s", "20s", "30s"]))
    return made


@st.composite
def policies(draw: st.DrawFn) -> dict[str, Any]:
    topics: dict[str, Any] = {}
    for pattern in draw(st.lists(patterns(), min_size=1, max_size=6, unique=True)):
        actions = draw(st.lists(st.sampled_from(ACTIONS), max_size=5, unique=True))
        topics[pattern] = {action: draw(grants(action)) for action in actions}
    for name in draw(st.lists(st.sampled_from(SYSTEM), unique=True)):
        topics[name] = {"audit": draw(grants("audit"))}
    denies = [
        {
            "id": f"D{place}",
            "who": draw(who_lists(GROUPS, 1)),
            "do": draw(st.lists(st.sampled_from(ACTIONS), min_size=1, unique=True)),
            "on": draw(
                st.lists(
                    st.one_of(patterns(), st.sampled_from(SYSTEM)),
                    min_size=1,
                    max_size=3,
                    unique=True,
                )
            ),
        }
        for place in range(draw(st.integers(0, 3)))
    ]
    return {
        "version": 1,
        "issuers": {
            name: {"issuer": f"https://{name}.example", "audience": "a"} for name in ISSUERS
        },
        "principals": {name: draw(conditions()) for name in PRINCIPALS},
        "groups": {"g1": draw(who_lists([])), "g2": draw(who_lists(["g1"]))},
        "topics": topics,
        "deny": denies,
    }


CLAIM_VALUES = st.one_of(
    st.sampled_from(["a", "b"]),
    st.sampled_from(VALUES),
    st.sampled_from([3, True, 3.0, None, "a.b", "*", ">", "", "a\n", ["a"], ["b", 3], [["a"]], {}]),
)


@st.composite
def callers(draw: st.DrawFn) -> Identity:
    issuer = draw(st.sampled_from(["corp", "corp", "other", "unknown"]))
    return Identity(
        spiffe_id=draw(st.sampled_from(["spiffe://x/1", "spiffe://x/1", "spiffe://x/2"])),
        thumbprint=bytes(32),
        issuer=issuer,
        issuer_url=f"https://{issuer}.example",
        client_id=draw(st.sampled_from(["c1", "c2"])),
        subject="",
        token_id="",
        scopes=frozenset(draw(st.lists(st.sampled_from([f"s{value}" for value in VALUES])))),
        expires_at=0.0,
        claims=draw(
            st.fixed_dictionaries({}, optional={"team": CLAIM_VALUES, "role": CLAIM_VALUES})
        ),
    )


@st.composite
def topics_of(draw: st.DrawFn, policy: dict[str, Any]) -> list[str]:
    """Topics that patterns of the policy are about, with one or the other thing that is not."""
    patterns_used = [*policy["topics"], *(on for deny in policy["deny"] for on in deny["on"])]
    made = []
    for pattern in patterns_used:
        segments = [part if part.isalpha() else draw(NAMES) for part in pattern.split(".")]
        if pattern.endswith(">"):
            segments += draw(st.lists(NAMES, max_size=1))
        made.append(pattern if pattern.startswith("_") else ".".join(segments))
    return [*made, draw(st.sampled_from(FOREIGN))]


@st.composite
def cases(draw: st.DrawFn) -> tuple[dict[str, Any], list[Identity], list[str]]:
    policy = draw(policies())
    return policy, draw(st.lists(callers(), min_size=2, max_size=4)), draw(topics_of(policy))


def compiled(policy: dict[str, Any]) -> Policy:
    text = yaml.safe_dump(policy, sort_keys=False, allow_unicode=True)
    return Policy(parse_policy(text.encode(), file="policy.yaml", folder=Path()))


@settings(max_examples=200)
@given(cases())
def test_the_compiled_decision_is_the_naive_one(
    case: tuple[dict[str, Any], list[Identity], list[str]],
) -> None:
    policy, who, topics = case
    tables = compiled(policy)
    for caller in who:
        for topic in topics:
            answers = {action: decide(policy, caller, action, topic) for action in ACTIONS}
            for action, expected in answers.items():
                got = tables.decide(caller, action, topic)
                assert expected == (
                    got.allowed, got.principal, got.rule, got.reason, got.max_age_s,
                )  # fmt: skip
                assert (got.action, got.topic) == (action, topic)
            any_of_them = tables.decide(caller, "any", topic)
            assert any_of_them.allowed == any(answer.allowed for answer in answers.values())
            assert tables.principal_of(caller) == any_of_them.principal
