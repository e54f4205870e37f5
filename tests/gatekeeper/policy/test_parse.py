import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatekeeper.policy.document import Document
from gatekeeper.policy.parse import POLICY_BYTES_MAX, parse_policy
from gatekeeper.policy.problem import PolicyError

Parse = Callable[[str], Document]
Problems = Callable[[str], list[tuple[int, str, str]]]

FULL = """\
version: 1
subscribe_lookback: 30m
issuers:
  corp: {issuer: https://idp.example, audience: urn:sidegate, algorithms: [ES256], max_ttl: 15m}
principals:
  billing:   # all must hold
    {spiffe: spiffe://example/billing, issuer: corp, client_id: billing, claims: {team: pay}}
  legacy: {spiffe: spiffe://example/legacy}
  spark-audit: {spiffe: spiffe://example/spark}
groups: {auditors: [spark-audit]}
topics:
  orders.*:
    publish: [billing]
    subscribe: ["claim:corp:team=pay"]
    replay: {who: [auditors], max_age: 90d}
    admin: []
  "team.{corp:team}.>": {publish: ["scope:corp:log.publish"]}
deny:
  - {id: D1, who: [legacy], do: [publish], on: ">", reason: decommissioned}
quotas:
  default: {messages_per_s: 200, bytes_per_s: 2MiB, streams: 20}
  billing: {messages_per_s: 2000}
tests:
  - {as: billing, do: publish, on: orders.eu, expect: allow}
"""


def test_a_whole_file_is_read(parse: Parse) -> None:
    document = parse(FULL)
    assert document.sha256 == hashlib.sha256(FULL.encode()).digest()
    assert document.subscribe_lookback_s == 1800.0
    assert [issuer.name for issuer in document.issuers] == ["corp"]
    assert [principal.name for principal in document.principals] == [
        "billing", "legacy", "spark-audit",
    ]  # fmt: skip
    assert [group.name for group in document.groups] == ["auditors"]
    assert [entry.pattern.text for entry in document.topics] == ["orders.*", "team.{corp:team}.>"]
    assert [deny.id for deny in document.denies] == ["D1"]
    assert document.default_quota is not None
    assert [quota.name for quota in document.quotas] == ["billing"]
    assert [example.on for example in document.examples] == ["orders.eu"]


def test_the_smallest_policy_allows_nothing_and_looks_back_ten_minutes(parse: Parse) -> None:
    document = parse("version: 1\n")
    assert document.topics == ()
    assert document.subscribe_lookback_s == 600.0


def test_a_byte_order_mark_and_windows_line_ends_change_nothing_but_the_hash(parse: Parse) -> None:
    marked = b"\xef\xbb\xbf" + FULL.replace("\n", "\r\n").encode()
    document = parse_policy(marked, file="policy.yaml", folder=Path("conf"))
    plain = parse(FULL)
    assert document.topics == plain.topics
    assert document.sha256 == hashlib.sha256(marked).digest() != plain.sha256


@pytest.mark.parametrize(
    ("text", "line", "where", "problem"),
    [
        ("versoin: 1\n", 1, "", 'unknown key "versoin"; did you mean "version"?'),
        ("versoin: 1\n", 1, "", "version is missing"),
        ("version: 2\n", 1, "version", 'must be 1, not "2"'),
        ("version: 1.0\n", 1, "version", 'must be 1, not "1.0"'),
        ("version:\n", 1, "version", "is empty"),
        ("version: 1\nsubscribe_lookback: soon\n", 2, "subscribe_lookback", "must be a duration"),
        ("version: 1\ntopics: []\n", 2, "topics", "must be a table of patterns to actions"),
        ("version: 1\ntopics:\n", 2, "topics", "must be a table"),
        ("version: 1\ndeny: {}\n", 2, "deny", "must be a list of deny rules"),
        ("version: 1\ndeny: [x]\n", 2, "deny[0]", "must be a table of id, who, do, on, reason"),
        ("version: 1\nversion: 1\n", 2, "", '"version" is already given on line 1'),
        ("- version: 1\n", 1, "", "must be a table that begins with version: 1"),
        ("just text\n", 1, "", "must be a table that begins with version: 1"),
        ("", 1, "", "the file is empty"),
        ("version: 1\n@\n", 2, "", "is not YAML"),
    ],
)
def test_each_problem_of_the_top_level_has_its_line(
    problems: Problems, text: str, line: int, where: str, problem: str
) -> None:
    matching = [item for item in problems(text) if problem in item[2]]
    assert [(found[0], found[1]) for found in matching] == [(line, where)]


def test_all_problems_of_a_file_come_at_once_in_file_order(problems: Problems) -> None:
    found = problems(
        """\
        version: 1
        issuers:
          corp: {issuer: http://idp.example, audience: x, algoritms: [ES256]}
        principals:
          billing: {spiffe: nonsense}
          a b: {spiffe: spiffe://example/x}
        groups:
          auditors: [biling]
        topics:
          orders.>.x: {publish: [billing]}
          orders.*: {publsh: [billing], replay: {who: [auditors], max_age: long}}
        deny:
          - {who: [billing], do: [publish], on: ">"}
        quotas:
          default: {messages_per_s: many}
        tests:
          - {as: nobody, do: publish, on: orders.eu, expect: maybe}
        """
    )
    assert [(line, where) for line, where, _ in found] == [
        (3, "issuers.corp"),
        (3, "issuers.corp.issuer"),
        (5, "principals.billing.spiffe"),
        (6, "principals"),
        (8, "groups.auditors"),
        (10, 'topics."orders.>.x"'),
        (11, 'topics."orders.*"'),
        (11, 'topics."orders.*".replay.max_age'),
        (13, "deny[0]"),
        (15, "quotas.default.messages_per_s"),
        (17, "tests[0].as"),
        (17, "tests[0].expect"),
    ]


def test_one_misspelt_issuer_does_not_hide_what_follows(problems: Problems) -> None:
    found = problems("version: 1\nissuers: {corp: {}}\ntopics: {a: {publish: [x]}}\n")
    assert [(line, where) for line, where, _ in found] == [
        (2, "issuers.corp"),
        (2, "issuers.corp"),
        (3, 'topics."a".publish'),
    ]


def test_a_file_that_is_not_utf_8_names_the_line() -> None:
    with pytest.raises(PolicyError, match=r"^policy\.yaml:3: is not UTF-8") as caught:
        parse_policy(b"version: 1\n# x\n# \xff\n", file="policy.yaml", folder=Path())
    assert len(caught.value.problems) == 1


def test_a_file_above_the_limit_is_not_read() -> None:
    with pytest.raises(PolicyError, match="at most 8388608"):
        parse_policy(b" " * (POLICY_BYTES_MAX + 1), file="policy.yaml", folder=Path())


@given(st.binary(max_size=200))
def test_any_bytes_are_a_policy_or_a_policy_error(data: bytes) -> None:
    assert sound_or_told(data)


def sound_or_told(data: bytes) -> bool:
    """True where the bytes are a policy or are refused with lines; other errors come through."""
    try:
        parse_policy(data, file="policy.yaml", folder=Path())
    except PolicyError as error:
        return bool(error.problems) and all(problem.line >= 1 for problem in error.problems)
    return True


@given(st.integers(0, len(FULL)), st.text(max_size=3), st.integers(0, 5))
def test_any_damage_to_a_sound_file_is_a_policy_or_a_policy_error(
    place: int, put: str, cut: int
) -> None:
    data = (FULL[:place] + put + FULL[place + cut :]).encode("utf-8", "surrogatepass")
    assert sound_or_told(data)
