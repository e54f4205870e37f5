from collections.abc import Callable

import pytest

from gatekeeper.policy.document import Document, Example, Quota

Parse = Callable[[str], Document]
Problems = Callable[[str], list[tuple[int, str, str]]]


def test_quotas_are_read_with_their_units(parse: Parse, head: str) -> None:
    document = parse(
        head
        + "quotas:\n"
        + "  default: {messages_per_s: 200, bytes_per_s: 2MiB, streams: 20}\n"
        + "  billing: {messages_per_s: 0.5, streams: unlimited}\n"
        + "  auditors: {}\n"
    )
    assert document.default_quota == Quota(
        "default", (("messages_per_s", 200.0), ("bytes_per_s", 2097152.0), ("streams", 20.0)), 11
    )
    assert document.quotas == (
        Quota("billing", (("messages_per_s", 0.5), ("streams", None)), 12),
        Quota("auditors", (), 13),
    )


@pytest.mark.parametrize(
    ("quota", "where", "problem"),
    [
        ("biling: {}", "quotas", 'unknown name "biling"; did you mean "billing"?'),
        ("'claim:corp:a=b': {}", "quotas", "quotas are for default, principals and groups"),
        ("default: 200", "quotas.default", "must be a table"),
        ("default: {message_per_s: 1}", "quotas.default", 'did you mean "messages_per_s"?'),
        ("default: {messages_per_s: 0}", "quotas.default.messages_per_s", "more than 0"),
        ("default: {messages_per_s: 0.0}", "quotas.default.messages_per_s", "more than 0"),
        ("default: {messages_per_s: -1}", "quotas.default.messages_per_s", "must be a number"),
        ("default: {messages_per_s: 1e3}", "quotas.default.messages_per_s", "must be a number"),
        ("default: {messages_per_s: .inf}", "quotas.default.messages_per_s", "must be a number"),
        ("default: {messages_per_s: }", "quotas.default.messages_per_s", "is empty"),
        ("default: {bytes_per_s: 2 lots}", "quotas.default.bytes_per_s", "must be a size"),
        ("default: {bytes_per_s: 0}", "quotas.default.bytes_per_s", "more than 0"),
        ("default: {bytes_per_s: 2TiB}", "quotas.default.bytes_per_s", "sane, or unlimited"),
        ("default: {streams: 1.5}", "quotas.default.streams", "must be a whole number"),
        ("default: {streams: 0}", "quotas.default.streams", "more than 0"),
        ("default: {streams: [1]}", "quotas.default.streams", "must be one value"),
    ],
)
def test_each_wrong_quota_has_its_line(
    problems: Problems, head: str, quota: str, where: str, problem: str
) -> None:
    found = problems(f"{head}quotas:\n  {quota}\n")
    assert [(line, place) for line, place, _ in found] == [(11, where)]
    assert problem in found[0][2]


def test_tests_are_read_with_claims_as_a_token_has_them(parse: Parse, head: str) -> None:
    document = parse(
        head
        + "tests:\n"
        + "  - {as: billing, do: publish, on: orders.eu, expect: allow}\n"
        + "  - {as: 'spiffe://example/x', issuer: other, scopes: [a, b], do: audit, on: _audit,\n"
        + "     claims: {n: 42, s: '42', yes: true, list: [a, 1], zero: 007}, expect: deny}\n"
    )
    assert document.examples == (
        Example("billing", None, (), (), "publish", "orders.eu", True, 11),
        Example(
            "spiffe://example/x",
            "other",
            (("n", 42), ("s", "42"), ("yes", True), ("list", ("a", 1)), ("zero", "007")),
            ("a", "b"),
            "audit",
            "_audit",
            False,
            12,
        ),
    )


@pytest.mark.parametrize(
    ("changes", "where", "problem"),
    [
        ({"as": None}, "tests[0]", "as is missing"),
        ({"do": None}, "tests[0]", "do is missing"),
        ({"on": None}, "tests[0]", "on is missing"),
        ({"expect": None}, "tests[0]", "expect is missing"),
        ({"who": "billing"}, "tests[0]", 'unknown key "who"'),
        ({"as": "biling"}, "tests[0].as", 'did you mean "billing"?'),
        ({"as": "auditors"}, "tests[0].as", "is a group; name one of its members"),
        ({"as": "spiffe://x"}, "tests[0].as", "has no path"),
        ({"do": "write"}, "tests[0].do", "the actions are publish"),
        ({"do": "any"}, "tests[0].do", "unknown action"),
        ({"on": "orders.*"}, "tests[0].on", "must be one topic's name"),
        ({"on": "a..b"}, "tests[0].on", "must be one topic's name"),
        ({"expect": "allowed"}, "tests[0].expect", "must be allow or deny"),
        ({"issuer": "crop"}, "tests[0].issuer", 'did you mean "corp"?'),
        ({"issuer": "other"}, "tests[0].issuer", "billing has its tokens from corp"),
        ({"as": "legacy", "claims": "{a: b}"}, "tests[0]", "needs issuer"),
        ({"as": "legacy", "scopes": "[a]"}, "tests[0]", "needs issuer"),
        ({"claims": "[a]"}, "tests[0].claims", "must be a table"),
        ({"claims": "{a: {b: c}}"}, "tests[0].claims.a", "must be one value"),
        ({"claims": "{a: }"}, "tests[0].claims.a", "is empty"),
        ({"claims": "{a b: c}"}, "tests[0].claims", "not a claim's name"),
        ({"scopes": "a"}, "tests[0].scopes", "must be a list"),
    ],
)
def test_each_wrong_test_has_its_line(
    problems: Problems, head: str, changes: dict[str, str | None], where: str, problem: str
) -> None:
    sound: dict[str, str | None] = {
        "as": "billing",
        "do": "publish",
        "on": "orders.eu",
        "expect": "allow",
    }
    given = {key: value for key, value in (sound | changes).items() if value is not None}
    flow = ", ".join(f"{key}: {value}" for key, value in given.items())
    found = problems(f"{head}tests:\n  - {{{flow}}}\n")
    assert [(line, place) for line, place, _ in found] == [(11, where)]
    assert problem in found[0][2]


def test_a_file_with_one_issuer_need_not_name_it_in_tests(parse: Parse) -> None:
    document = parse(
        "version: 1\n"
        "issuers: {corp: {issuer: https://idp.example, audience: a}}\n"
        "principals: {legacy: {spiffe: spiffe://example/legacy}}\n"
        "tests: [{as: legacy, claims: {a: b}, do: publish, on: x, expect: deny}]\n"
    )
    assert document.examples[0].claims == (("a", "b"),)
