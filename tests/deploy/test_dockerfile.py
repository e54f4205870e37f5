"""The images: linted, hardened, and their install steps carried out in a clean environment.

Where no container engine is at hand, the steps of a stage (COPY and RUN) are carried out one by
one in a folder of the test's own, with the same shell lines.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "Dockerfile").read_text()
INSTRUCTION = re.compile(r"^([A-Z]+) ((?:.*\\\n)*.*)$", re.MULTILINE)
SERVICES = ("core", "gatekeeper", "sidecar", "issuer")


def stages() -> dict[str, tuple[str, list[tuple[str, str]]]]:
    """Each stage's base and its instructions, by name."""
    found: dict[str, tuple[str, list[tuple[str, str]]]] = {}
    for word, rest in INSTRUCTION.findall(TEXT):
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            found[name] = (base, [])
        elif found:
            found[list(found)[-1]][1].append((word, rest.replace("\\\n", " ")))
    return found


def inherited(stage: str) -> list[tuple[str, str]]:
    """The instructions of a stage and of those that it is built on."""
    base, own = stages()[stage]
    return (inherited(base) if base in stages() else []) + own


class Workshop:
    """A folder in which the stages' steps are carried out."""

    def __init__(self, folder: Path) -> None:
        self.source, self.prefix = folder / "src", folder / "opt"
        self.source.mkdir(parents=True)

    def carry_out(self, steps: list[tuple[str, str]]) -> None:
        for word, rest in steps:
            if word == "COPY":
                self._copy(*rest.split())
            elif word == "RUN":
                self._run(rest)

    def _copy(self, *names: str) -> None:
        *sources, target = names
        into = self.source / target
        into.mkdir(parents=True, exist_ok=True)
        for name in sources:
            path = ROOT / name
            if path.is_dir():
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(path, into, dirs_exist_ok=True, ignore=ignored)
            else:
                shutil.copy(path, into)

    def _run(self, line: str) -> None:
        line = line.replace("/opt/sidegate", str(self.prefix))
        line = re.sub(r"^python ", f"{sys.executable} ", line)
        done = subprocess.run(
            ["sh", "-ec", line], cwd=self.source, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{line}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"

    def sidegate(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.prefix / "bin" / "sidegate"), *arguments],
            cwd=self.source.parent,
            capture_output=True,
            text=True,
            check=False,
        )


def test_hadolint_has_nothing_to_say() -> None:
    linter = Path(sys.executable).parent / "hadolint"
    done = subprocess.run(
        [linter, "Dockerfile"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("target", [*SERVICES, "audit"])
def test_an_image_runs_as_nobody_in_particular_and_says_whether_it_is_well(target: str) -> None:
    steps = inherited(target)
    assert ("USER", "10001") in steps
    assert ("VOLUME", "/var/lib/sidegate") in steps
    words = [word for word, _ in steps]
    assert "HEALTHCHECK" in words
    assert "ENTRYPOINT" in words


@pytest.mark.parametrize("target", SERVICES)
def test_a_services_image_has_neither_spark_nor_arrow(target: str) -> None:
    copied = [rest for word, rest in inherited(target) if word == "COPY"]
    assert copied == ["--from=trimmed /opt/sidegate /opt/sidegate"]
    assert not any("audit" in rest for _, rest in inherited("trimmed"))
    pinned = (ROOT / "requirements" / "runtime.txt").read_text()
    assert "pyspark" not in pinned
    assert "pyarrow" not in pinned


def test_the_base_image_is_named_exactly() -> None:
    bases = {base for base, _ in stages().values()} - stages().keys()
    assert bases == {"${PYTHON_IMAGE}"}
    assert re.search(r"^ARG PYTHON_IMAGE=python:\d+\.\d+\.\d+-slim-\w+$", TEXT, re.MULTILINE)


@pytest.mark.timeout(600)
def test_the_install_steps_of_a_services_image_give_a_command_that_works(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    workshop.carry_out(inherited("trimmed"))
    for service in ("core", "gatekeeper", "sidecar"):
        config = ROOT / "deploy" / "config" / f"{service}.yaml"
        done = workshop.sidegate(service, "--config", str(config), "--check-config")
        assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr
    assert not (workshop.prefix / "bin" / "pip").exists()
    site = next((workshop.prefix / "lib").glob("python*/site-packages"))
    assert not list(site.glob("pyspark*")) + list(site.glob("pyarrow*"))


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_the_install_steps_of_the_audits_image_give_a_command_that_works(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    workshop.carry_out(inherited("audit-build"))
    done = workshop.sidegate("audit", "report", "--help")
    assert done.returncode == 0, done.stderr
