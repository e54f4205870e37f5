import json
from pathlib import Path

import pytest

from gatekeeper.policy.report import (
    COULD_NOT_RUN,
    OK,
    PROBLEMS,
    Question,
    Report,
    report_check,
    report_explain,
    report_tests,
)

PATH = Path("conf/policy.yaml")
GOOD = b"""\
version: 1
issuers: {corp: {issuer: https://idp.example, audience: a}}
principals:
  billing: {spiffe: spiffe://example/billing, issuer: corp}
  reader: {spiffe: spiffe://example/reader}
groups: {auditors: [reader]}
topics:
  orders.*: {publish: [billing], replay: {who: [auditors], max_age: 90d}}
  "team.{corp:team}.>": {publish: ["scope:corp:log.publish"]}
deny:
  - {id: D1, who: [reader], do: [publish], on: ">"}
tests:
  - {as: billing, do: publish, on: orders.eu, expect: allow}
  - {as: reader, do: publish, on: orders.eu, expect: deny}
"""
BROKEN = b"version: 1\ntopics: {a: {publsh: []}}\ndeny: [{}]\n"


def asked(**changes: object) -> Report:
    facts: dict[str, object] = {"caller": "billing", "action": "publish", "topic": "orders.eu"}
    report = report_explain(GOOD, PATH, Question(**(facts | changes)))  # type: ignore[arg-type]
    json.dumps(report.data)
    return report


def test_a_sound_file_is_counted() -> None:
    report = report_check(GOOD, PATH, None)
    assert report.exit_code == OK
    assert report.text == (
        "conf/policy.yaml is sound: issuers 1, principals 2, groups 1, rules 3, denies 1, tests 2"
    )
    assert report.data["ok"] is True
    assert json.loads(json.dumps(report.data)) == report.data


def test_a_broken_file_has_every_problem_with_its_line() -> None:
    report = report_check(BROKEN, PATH, None)
    assert report.exit_code == PROBLEMS
    lines = report.text.splitlines()
    assert lines[0].startswith('conf/policy.yaml:2: topics."a": unknown key "publsh"')
    assert lines[-1] == "5 problems"
    problems = report.data["problems"]
    assert isinstance(problems, list)
    assert [problem["line"] for problem in problems] == [2, 3, 3, 3, 3]
    assert problems[0].keys() == {"line", "where", "text"}


def test_a_failing_test_is_a_problem_of_the_check() -> None:
    report = report_check(GOOD.replace(b"expect: deny", b"expect: allow"), PATH, None)
    assert report.exit_code == PROBLEMS
    assert report.text.endswith("1 problem")
    assert "conf/policy.yaml:14: tests[1]: expected allow" in report.text


def test_what_is_for_development_is_a_note_until_the_environment_is_named() -> None:
    data = GOOD.replace(b"https://idp.example", b"https://localhost:8446")
    noted = report_check(data, PATH, None)
    assert noted.exit_code == OK
    assert "for development only: conf/policy.yaml:2: issuers.corp.issuer" in noted.text
    assert report_check(data, PATH, "production").exit_code == PROBLEMS
    good = report_check(data, PATH, "development")
    assert (good.exit_code, good.data["development_only"]) == (OK, [])


def test_every_test_is_listed_with_its_answer() -> None:
    report = report_tests(GOOD, PATH)
    assert report.exit_code == OK
    assert report.text.splitlines() == [
        (
            "ok   conf/policy.yaml:13: billing may publish on orders.eu: "
            'topics."orders.*".publish allows it'
        ),
        "ok   conf/policy.yaml:14: reader may not publish on orders.eu: D1 denies it",
        "2 passed, 0 failed",
    ]
    failing = report_tests(GOOD.replace(b"expect: allow", b"expect: deny"), PATH)
    assert failing.exit_code == PROBLEMS
    assert failing.text.startswith("FAIL conf/policy.yaml:13: ")
    assert failing.data["failed"] == 1


def test_tests_of_a_broken_file_could_not_run() -> None:
    assert report_tests(BROKEN, PATH).exit_code == COULD_NOT_RUN


def test_an_allowance_is_explained() -> None:
    report = asked()
    assert report.exit_code == OK
    assert report.text.splitlines() == [
        'ALLOWED: billing may publish on orders.eu: topics."orders.*".publish allows it',
        'rule: topics."orders.*".publish (conf/policy.yaml:8)',
        "reason: allowed",
        "why: the caller is billing",
    ]
    assert report.data["allowed"] is True
    assert report.data["line"] == 8


def test_a_denial_is_explained_with_the_nearest_rule() -> None:
    report = asked(topic="order.eu")
    assert report.exit_code == PROBLEMS
    assert report.text.splitlines()[-2:] == [
        (
            'nearest rule: topics."orders.*".publish (conf/policy.yaml:8): '
            "order.eu does not fit orders.*"
        ),
        "to allow it: use a topic that fits orders.*, or add an entry for order.eu",
    ]
    assert report.data["nearest"] == {
        "rule": 'topics."orders.*".publish',
        "line": 8,
        "missing": "order.eu does not fit orders.*",
        "change": "use a topic that fits orders.*, or add an entry for order.eu",
    }


def test_claims_and_scopes_can_be_given() -> None:
    topic = "team.pay.x"
    assert asked(topic=topic).exit_code == PROBLEMS
    token = {"claims": ["corp:team=pay"], "scopes": ["corp:log.publish"]}
    assert asked(topic=topic, **token).exit_code == OK
    assert asked(topic=topic, caller="spiffe://example/x", **token).exit_code == OK
    twice = {"claims": ["corp:team=pay", "corp:team=hr"], "scopes": ["corp:log.publish"]}
    assert asked(topic=topic, **twice).exit_code == PROBLEMS


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"caller": "nobody"}, "neither a principal nor a SPIFFE id"),
        ({"caller": "auditors"}, "is a group"),
        ({"claims": ["team=pay"]}, "--claim team=pay: write it as issuer:name=value"),
        ({"claims": ["corp:team"]}, "write it as issuer:name=value"),
        ({"scopes": ["log.publish"]}, "write it as issuer:scope"),
        ({"claims": ["corp:a=b"], "scopes": ["other:c"]}, "one issuer, not corp and other"),
        ({"claims": ["other:a=b"]}, "billing has its tokens from corp"),
        ({"caller": "reader", "claims": ["zzz:a=b"]}, "not one of the policy's issuers"),
    ],
)
def test_a_question_that_makes_no_sense_could_not_run(
    changes: dict[str, object], problem: str
) -> None:
    report = asked(**changes)
    assert report.exit_code == COULD_NOT_RUN
    assert problem in report.text
    assert report.data == {"ok": False, "error": report.text}


def test_a_broken_file_explains_nothing() -> None:
    report = report_explain(BROKEN, PATH, Question("billing", "publish", "a"))
    assert report.exit_code == COULD_NOT_RUN
    assert "unknown key" in report.text


def test_a_policy_is_explained_although_its_tests_fail() -> None:
    data = GOOD.replace(b"expect: allow", b"expect: deny")
    assert report_explain(data, PATH, Question("billing", "publish", "orders.eu")).exit_code == OK
