"""`docs/policy.md` fails when it rots: its policy loads, its commands print what it shows."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from gatekeeper.identity.trust import IssuerSettings
from gatekeeper.policy import parse, parse_checks, parse_issuers, parse_rules
from gatekeeper.policy.decide import Reason
from gatekeeper.policy.document import ACTIONS, LIMIT_NAMES
from gatekeeper.policy.load import load_policy
from sidegate.commands.policy import policy as command

PAGE = (Path(__file__).parents[3] / "docs" / "policy.md").read_text(encoding="utf-8")
POLICY = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
SHOWN = re.findall(r"```console\n\$ sidegate policy (.*?)\n(.*?)```", PAGE, re.DOTALL)


def test_the_policy_of_the_page_takes_effect_with_its_tests() -> None:
    (text,) = POLICY
    policy = load_policy(text.encode(), file="policy.yaml", folder=Path(), environment="production")
    assert len(policy.document.examples) >= 4


@pytest.mark.parametrize(("line", "output"), SHOWN, ids=lambda text: text[:40])
def test_each_command_prints_what_the_page_shows(
    line: str, output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY[0], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(command, shlex.split(line)).output == output


def test_the_page_shows_commands() -> None:
    assert len(SHOWN) >= 3


@pytest.mark.parametrize(
    "key",
    [
        *parse._KEYS, *parse_issuers._KEYS, *parse_rules._DENY_KEYS, *parse_checks._EXAMPLE_KEYS,
        *ACTIONS, *LIMIT_NAMES, *Reason.__args__, "max_age", "who", "spiffe", "client_id", "claims",
    ],
)  # fmt: skip
def test_every_key_is_on_the_page(key: str) -> None:
    if key not in ("version", "allowed"):
        assert f"`{key}`" in PAGE or f"`{key}:" in PAGE, key


def test_the_defaults_on_the_page_are_those_of_the_code() -> None:
    settings = IssuerSettings("corp", "https://idp.example", "a")
    assert settings.algorithms == ("ES256",)
    assert "`[ES256]` |" in PAGE
    assert settings.max_ttl_s == 15 * 60
    assert settings.skew_s == 30
