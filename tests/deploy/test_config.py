"""The configurations for production are sound, as shipped and with each of their options on."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from hosting.config import load_config
from sidegate.commands.serve import SERVICES, _imported

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "config"
SETTING_OFF = re.compile(r"^(\s*)#(?=\S)", re.MULTILINE)
"""A setting that is written down with its default and not used."""
CHECKED = sorted(SERVICES.keys() - {"issuer"})


def options_off(service: str) -> list[re.Match[str]]:
    return list(SETTING_OFF.finditer((FOLDER / f"{service}.yaml").read_text(encoding="utf-8")))


def load(service: str, file: Path) -> Any:
    return load_config(_imported(SERVICES[service][0]), service=service, path=file, environ={})


def test_every_command_of_the_page_is_content() -> None:
    text = (ROOT / "deploy" / "README.md").read_text(encoding="utf-8")
    lines = re.search(r"```sh\n(.*?)```", text, re.DOTALL)
    assert lines is not None
    pasted = lines[1].splitlines()
    assert len(pasted) == 6
    for line in pasted:
        command = line.replace(".venv/bin/sidegate", f"{sys.executable} -m sidegate")
        done = subprocess.run(
            ["sh", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "check-config" not in line or done.stdout == "ok\n"


@pytest.mark.parametrize("service", CHECKED)
def test_it_is_for_production_and_names_nothing_of_development(service: str) -> None:
    assert load(service, FOLDER / f"{service}.yaml").environment == "production"
    text = (FOLDER / f"{service}.yaml").read_text(encoding="utf-8")
    assert "sidegate-dev" not in text
    assert "example.org" in text


@pytest.mark.parametrize("service", CHECKED)
def test_each_setting_that_is_off_may_be_on_and_is_then_as_before(
    service: str, tmp_path: Path
) -> None:
    """What is off is written with its default, so that switching it on changes nothing."""
    original = (FOLDER / f"{service}.yaml").read_text(encoding="utf-8")
    found = options_off(service)
    assert found
    plain = tmp_path / f"{service}.yaml"
    plain.write_text(original)
    before = load(service, plain)
    for match in found:
        begin = match.end()
        line = original[begin : original.find("\n", begin)]
        plain.write_text(f"{original[: match.start()]}{match[1]}{original[begin:]}")
        after = load(service, plain)
        if not line.startswith(("scope:", "tracing:")):
            assert after == before, line


def test_the_identities_of_the_files_fit_each_other() -> None:
    core, gatekeeper, sidecar, policy = (
        yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
        for name in ("core", "gatekeeper", "sidecar", "policy")
    )
    assert core["admit"] == [sidecar["gatekeeper_id"]]
    issuer = policy["issuers"]["corp"]
    assert sidecar["oauth"]["issuer"] == issuer["issuer"]
    assert sidecar["oauth"]["audience"] == issuer["audience"]
    assert sidecar["oauth"]["client_id"] in {
        principal["client_id"] for principal in policy["principals"].values()
    }
    assert gatekeeper["policy"] == "policy.yaml"
    assert "example.org" in gatekeeper["trust_domains"]
