"""A proposed change of a policy is asked whether its own tests still pass."""

import subprocess
import sys
from pathlib import Path

import pytest

from sidegate.development import addresses, documents
from sidegate.policy_tests import failing_tests
from spark.grants import policy_diff, read_policy


@pytest.fixture
def text() -> str:
    """The policy of a development mesh."""
    return documents.policy(addresses.free_addresses())


def test_a_policys_own_tests_pass(text: str) -> None:
    assert failing_tests(text) == ()


def test_a_test_whose_answer_has_changed_is_named_by_its_place(text: str) -> None:
    assert failing_tests(text.replace("on: forbidden.orders", "on: orders")) == (3,)


def test_what_is_no_policy_has_no_tests() -> None:
    assert failing_tests("topics: 1") == ()


def test_the_diff_without_unused_grants_gives_a_policy_that_takes_effect(
    text: str, tmp_path: Path
) -> None:
    policy = read_policy(text.encode())
    unused = {(each.rule, each.subject) for each in policy.grants if "audit" not in each.rule}
    file = tmp_path / "policy.yaml"
    file.write_text(text)
    (tmp_path / "policy.diff").write_text(policy_diff(policy, unused, "policy.yaml", failing_tests))
    subprocess.run(["patch", "-i", "policy.diff"], cwd=tmp_path, check=True, capture_output=True)
    applied = file.read_text()
    assert "do: publish, on: orders, expect: deny" in applied
    assert "do: audit, on: _audit, expect: allow" in applied
    checked = subprocess.run(
        [sys.executable, "-m", "sidegate", "policy", "check", str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    left = {(each.rule, each.subject) for each in read_policy(applied.encode()).grants}
    assert left == {(each.rule, each.subject) for each in policy.grants} - unused
