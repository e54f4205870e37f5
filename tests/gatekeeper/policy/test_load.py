from pathlib import Path

import pytest

from gatekeeper.policy.load import load_policy
from gatekeeper.policy.problem import PolicyError
from hosting.environment import Environment

DEVELOPMENT = b"""\
version: 1
issuers: {dev: {issuer: "https://localhost:8446", audience: a, ca: ca.pem}}
principals: {app: {spiffe: "spiffe://sidegate-dev/app", issuer: dev}}
topics: {orders: {publish: [app]}}
tests:
  - {as: app, do: publish, on: orders, expect: allow}
"""


def load(data: bytes, environment: Environment | None = "development") -> bytes:
    return load_policy(data, file="policy.yaml", folder=Path("conf"), environment=environment).hash


def test_a_sound_file_becomes_a_policy() -> None:
    assert len(load(DEVELOPMENT)) == 32
    assert load(DEVELOPMENT) == load(DEVELOPMENT, None)


def test_what_is_for_development_is_refused_in_production() -> None:
    with pytest.raises(PolicyError) as caught:
        load(DEVELOPMENT, "production")
    assert [problem.line for problem in caught.value.problems] == [2, 3]


def test_failed_tests_and_the_environment_are_told_together() -> None:
    failing = DEVELOPMENT.replace(b"expect: allow", b"expect: deny")
    with pytest.raises(PolicyError) as caught:
        load(failing, "production")
    assert [problem.line for problem in caught.value.problems] == [2, 3, 6]


def test_a_file_with_failing_tests_does_not_become_a_policy() -> None:
    with pytest.raises(PolicyError, match=r"tests\[0\]: expected deny, but app may publish"):
        load(DEVELOPMENT.replace(b"expect: allow", b"expect: deny"))


def test_the_callers_of_the_tests_are_forgotten() -> None:
    policy = load_policy(
        DEVELOPMENT, file="policy.yaml", folder=Path("conf"), environment="development"
    )
    assert (policy._recent, policy._older) == ({}, {})
