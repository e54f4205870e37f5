from collections.abc import Callable

import pytest

from gatekeeper.policy.document import Claim, Document, Named

Parse = Callable[[str], Document]
Problems = Callable[[str], list[tuple[int, str, str]]]


def test_an_entry_has_a_grant_for_each_action(parse: Parse, head: str) -> None:
    document = parse(
        head
        + "topics:\n"
        + "  orders.*:\n"
        + "    publish: [billing, auditors]\n"
        + "    subscribe: {who: ['claim:corp:team=pay']}\n"
        + "    replay: {who: [auditors], max_age: 90d}\n"
        + "    admin: []\n"
        + "    audit: [auditors]\n"
    )
    (entry,) = document.topics
    assert (entry.pattern.text, entry.line) == ("orders.*", 11)
    assert [(grant.action, grant.who, grant.max_age_s, grant.line) for grant in entry.grants] == [
        ("publish", (Named("billing"), Named("auditors")), None, 12),
        ("subscribe", (Claim("corp", "team", "pay"),), None, 13),
        ("replay", (Named("auditors"),), 7776000.0, 14),
        ("admin", (), None, 15),
        ("audit", (Named("auditors"),), None, 16),
    ]


@pytest.mark.parametrize(
    ("entry", "where", "problem"),
    [
        (
            "orders: {share: {who: [billing], owners: [nobody]}}",
            'topics."orders".share.owners',
            "unknown principal",
        ),
        (
            "orders: {share: {who: [billing], owners: []}}",
            'topics."orders".share.owners',
            "is empty",
        ),
        (
            "orders: {publish: {who: [billing], owners: [legacy]}}",
            'topics."orders".publish.owners',
            "belongs to share",
        ),
        ("_audit: {share: [billing]}", 'topics."_audit".share', "audit only"),
        ("orders.>.x: {}", 'topics."orders.>.x"', "must be the last segment"),
        ("'**': {}", 'topics."**"', "whole segments"),
        ("orders:", 'topics."orders"', "must be a table"),
        ("orders: [billing]", 'topics."orders"', "must be a table"),
        ("orders: {pubish: []}", 'topics."orders"', 'did you mean "publish"?'),
        ("orders: {any: []}", 'topics."orders"', 'unknown key "any"'),
        ("orders: {publish: billing}", 'topics."orders".publish', "must be a list"),
        ("orders: {publish: [biling]}", 'topics."orders".publish', 'did you mean "billing"?'),
        ("orders: {publish: [billing, billing]}", 'topics."orders".publish', "listed twice"),
        ("orders: {publish: [[billing]]}", 'topics."orders".publish', "must be one value"),
        ("orders: {replay: {max_age: 1d}}", 'topics."orders".replay', "who is missing"),
        ("orders: {replay: {who: [], age: 1d}}", 'topics."orders".replay', 'unknown key "age"'),
        ("orders: {replay: {who: [], max_age: x}}", 'topics."orders".replay.max_age', "duration"),
        (
            "orders: {subscribe: {who: [], max_age: 1d}}",
            'topics."orders".subscribe.max_age',
            "subscribe_lookback",
        ),
        ("orders: {publish: {who: [], max_age: 1d}}", 'topics."orders".publish.max_age', "replay"),
        ("'a.{crop:team}': {}", 'topics."a.{crop:team}"', 'did you mean "corp"?'),
        ("_audit: {subscribe: [reader]}", 'topics."_audit".subscribe', "audit only"),
        ("_audit: {publish: []}", 'topics."_audit".publish', "audit only"),
        ("'_audit.*': {audit: [reader]}", 'topics."_audit.*"', "named exactly"),
    ],
)
def test_each_wrong_entry_has_its_line(
    problems: Problems, head: str, entry: str, where: str, problem: str
) -> None:
    found = problems(f"{head}topics:\n  first: {{}}\n  {entry}\n")
    assert [(line, place) for line, place, _ in found] == [(12, where)]
    assert problem in found[0][2]


def test_a_topic_that_is_given_twice_is_refused(problems: Problems, head: str) -> None:
    found = problems(f"{head}topics:\n  orders: {{}}\n  'orders': {{}}\n")
    assert found == [(12, "", '"orders" is already given on line 11')]


def test_a_deny_is_read_with_one_pattern_or_several(parse: Parse, head: str) -> None:
    document = parse(
        head
        + "deny:\n"
        + "  - {id: D1, who: [legacy], do: [publish, admin], on: '>', reason: gone}\n"
        + "  - {id: D-2, who: ['scope:corp:x'], do: [replay], on: [a.*, '_audit', 'b.{corp:t}']}\n"
    )
    first, second = document.denies
    assert (first.id, first.do, first.reason, first.line) == (
        "D1",
        ("publish", "admin"),
        "gone",
        11,
    )
    assert [pattern.text for pattern in first.on] == [">"]
    assert [pattern.text for pattern in second.on] == ["a.*", "_audit", "b.{corp:t}"]
    assert second.reason == ""


@pytest.mark.parametrize(
    ("changes", "where", "problem"),
    [
        ({"id": None}, "deny[1]", "id is missing"),
        ({"who": None}, "deny[1]", "who is missing"),
        ({"do": None}, "deny[1]", "do is missing"),
        ({"on": None}, "deny[1]", "on is missing"),
        ({"why": "x"}, "deny[1]", 'unknown key "why"'),
        ({"id": "D0"}, "deny[1].id", '"D0" is already used on line 11'),
        ({"id": "a.b"}, "deny[1].id", "not a free id"),
        ({"id": "default"}, "deny[1].id", "not a free id"),
        ({"id": "x" * 65}, "deny[1].id", "not a free id"),
        ({"id": "''"}, "deny[1].id", "is empty"),
        ({"who": "[]"}, "deny[1].who", "this would deny nobody"),
        ({"who": "legacy"}, "deny[1].who", "must be a list"),
        ({"who": "[legasy]"}, "deny[1].who", 'did you mean "legacy"?'),
        ({"do": "[]"}, "deny[1].do", "this would deny nothing"),
        ({"do": "publish"}, "deny[1].do", "must be a list"),
        ({"do": "[pubish]"}, "deny[1].do", 'did you mean "publish"?'),
        ({"do": "[any]"}, "deny[1].do", "the actions are"),
        ({"on": "[]"}, "deny[1].on", "this would deny nothing"),
        ({"on": "{}"}, "deny[1].on", "must be a pattern or a list of patterns"),
        ({"on": "a.>.b"}, "deny[1].on", "must be the last segment"),
        ({"on": "''"}, "deny[1].on", 'put quotes around ">"'),
        ({"on": "'{crop:t}'"}, "deny[1].on", 'did you mean "corp"?'),
        ({"reason": "[x]"}, "deny[1].reason", "must be one value"),
        ({"reason": "x" * 300}, "deny[1].reason", "at most 256"),
    ],
)
def test_each_wrong_deny_has_its_line(
    problems: Problems, head: str, changes: dict[str, str | None], where: str, problem: str
) -> None:
    sound: dict[str, str | None] = {
        "id": "D1",
        "who": "[legacy]",
        "do": "[publish]",
        "on": "a",
        "reason": "x",
    }
    given = {key: value for key, value in (sound | changes).items() if value is not None}
    flow = ", ".join(f"{key}: {value}" for key, value in given.items())
    found = problems(
        f"{head}deny:\n  - {{id: D0, who: [legacy], do: [publish], on: a}}\n  - {{{flow}}}\n"
    )
    assert [(line, place) for line, place, _ in found] == [(12, where)]
    assert problem in found[0][2]


def test_an_unquoted_arrow_is_told_to_be_quoted(problems: Problems, head: str) -> None:
    found = problems(
        f"{head}deny:\n  - id: D1\n    who: [legacy]\n    do: [publish]\n    on: >\n    reason: x\n"
    )
    assert any('put quotes around ">"' in text for _, _, text in found)
