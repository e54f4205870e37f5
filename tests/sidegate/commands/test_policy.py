import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gatekeeper.policy.document import ACTIONS
from sidegate.commands import policy as commands

POLICY = """\
version: 1
issuers: {corp: {issuer: https://idp.example, audience: a}}
principals:
  billing: {spiffe: spiffe://example/billing, issuer: corp}
topics:
  orders.*: {publish: [billing]}
  "team.{corp:team}.>": {publish: ["scope:corp:log.publish"]}
tests:
  - {as: billing, do: publish, on: orders.eu, expect: allow}
"""
Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs `sidegate policy` in a folder with a development policy."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".sidegate").mkdir()
    (tmp_path / ".sidegate" / "policy.yaml").write_text(POLICY)

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(commands.policy, arguments)

    return invoke


def test_a_sound_file_exits_0_and_the_development_one_is_the_default(run: Run) -> None:
    result = run("check")
    assert result.exit_code == 0
    assert ".sidegate/policy.yaml is sound" in result.output


def test_a_broken_file_exits_1_with_its_lines(run: Run, tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text("version: 1\ntopisc: {}\n")
    result = run("check", "broken.yaml")
    assert result.exit_code == 1
    assert 'broken.yaml:2: unknown key "topisc"; did you mean "topics"?' in result.output


def test_the_environment_can_be_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / "dev.yaml").write_text(POLICY.replace("idp.example", "localhost:8446"))
    assert run("check", "dev.yaml").exit_code == 0
    assert run("check", "dev.yaml", "--environment", "production").exit_code == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "missing.yaml"),
        ("test", "missing.yaml"),
        ("explain", "--as", "a", "--do", "publish", "--on", "b", "--file", "missing.yaml"),
    ],
)
def test_a_file_that_is_not_there_exits_2_and_says_what_to_do(
    run: Run, arguments: tuple[str, ...]
) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert "missing.yaml can't be read" in result.output
    assert "make up" in result.output


def test_the_files_tests_are_run(run: Run, tmp_path: Path) -> None:
    result = run("test")
    assert (result.exit_code, result.output.splitlines()[-1]) == (0, "1 passed, 0 failed")
    (tmp_path / "failing.yaml").write_text(POLICY.replace("expect: allow", "expect: deny"))
    assert run("test", "failing.yaml").exit_code == 1


def test_an_explanation_exits_0_when_allowed_and_1_when_denied(run: Run) -> None:
    allowed = run("explain", "--as", "billing", "--do", "publish", "--on", "orders.eu")
    assert allowed.exit_code == 0
    assert allowed.output.startswith("ALLOWED: ")
    denied = run("explain", "--as", "billing", "--do", "publish", "--on", "order.eu")
    assert denied.exit_code == 1
    assert denied.output.startswith("DENIED: ")
    assert 'nearest rule: topics."orders.*".publish' in denied.output


def test_claims_and_scopes_are_options(run: Run) -> None:
    question = ["explain", "--as", "billing", "--do", "publish", "--on", "team.pay.x"]
    assert run(*question).exit_code == 1
    token = ["--claim", "corp:team=pay", "--scope", "corp:log.publish"]
    assert run(*question, *token).exit_code == 0
    assert run(*question, "--claim", "nonsense").exit_code == 2


def test_json_is_one_object(run: Run) -> None:
    for arguments in (
        ("check",),
        ("test",),
        ("explain", "--as", "billing", "--do", "publish", "--on", "orders.eu"),
    ):
        result = run(*arguments, "--json")
        assert isinstance(json.loads(result.output), dict)


def test_wrong_usage_exits_2(run: Run) -> None:
    assert run("explain", "--as", "a", "--do", "write", "--on", "b").exit_code == 2
    assert run("explain").exit_code == 2


def test_the_actions_of_the_help_are_those_of_the_dialect() -> None:
    assert commands.ACTIONS == ACTIONS


def test_the_help_imports_nothing_of_the_gatekeeper() -> None:
    code = (
        "import sys; import sidegate.commands.policy; "
        "assert not [name for name in sys.modules if name.split('.')[0] in ('gatekeeper', 'yaml')]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
