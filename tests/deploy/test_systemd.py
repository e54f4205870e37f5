"""The units are sound to systemd itself, and leave a service little to break."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "deploy" / "systemd"
UNITS = sorted(path.name for path in FOLDER.glob("*.service"))
EXPOSURE_MAX = 2.0
"""Of 10: systemd calls everything below 2 OK or better; nginx as shipped has 9.2."""
needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="needs systemd-analyze"
)


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The units, with a program that is there in the place of the installed one."""
    for name in UNITS:
        text = (FOLDER / name).read_text().replace("/opt/sidegate/bin/sidegate", "/bin/true")
        text = re.sub(r"^(User|Group)=.*$", r"\1=nobody", text, flags=re.MULTILINE)
        (tmp_path / name.replace("@", "@billing")).write_text(text.replace("nobody", "root"))
    return tmp_path


def test_there_is_a_unit_for_each_service() -> None:
    assert UNITS == [
        "sidegate-core.service",
        "sidegate-gatekeeper.service",
        "sidegate-sidecar@.service",
        "sidegate-signer.service",
    ]


@needs_systemd
def test_systemd_has_nothing_to_say_about_them(installed: Path) -> None:
    done = subprocess.run(
        ["systemd-analyze", "verify", "--recursive-errors=no", *sorted(installed.iterdir())],
        capture_output=True,
        text=True,
        check=False,
    )
    ours = [
        line for line in done.stderr.splitlines() if str(installed) in line or "sidegate" in line
    ]
    assert (done.returncode, ours) == (0, [])


@needs_systemd
@pytest.mark.parametrize("name", UNITS)
def test_what_a_broken_service_could_reach_is_little(name: str, installed: Path) -> None:
    unit = installed / name.replace("@", "@billing")
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.search(r"Overall exposure level for .*?: ([\d.]+)", done.stdout)
    if found is None:
        pytest.skip("needs a systemd-analyze that judges units which are not installed")
    assert float(found[1]) <= EXPOSURE_MAX, done.stdout


@pytest.mark.parametrize("name", UNITS)
def test_a_service_is_checked_before_it_starts_and_drains_when_it_stops(name: str) -> None:
    text = (FOLDER / name).read_text()
    start = re.search(r"^ExecStart=(.*)$", text, re.MULTILINE)
    assert start is not None
    assert f"ExecStartPre={start[1]} --check-config\n" in text
    assert "Restart=always\n" in text
    assert "ProtectSystem=strict\n" in text
    users = (FOLDER / "sidegate.sysusers").read_text()
    user = re.search(r"^User=(.*)$", text, re.MULTILINE)
    assert user is not None
    assert f"u {user[1].replace('%i', 'billing')} " in users
