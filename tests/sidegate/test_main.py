"""The console command as a whole: fast, honest about what it has, one set of exit codes."""

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from sidegate.__main__ import COMMANDS, cli

HEAVY = ("aiohttp", "yaml", "cryptography", "authlib", "asyncio", "uvloop", "ssl", "http.client")


def test_help_imports_click_and_nothing_heavy() -> None:
    code = (
        "import sys; sys.argv = ['sidegate', '--help']\n"
        "from sidegate.__main__ import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert "Commands:" in result.stdout
    imported = set(result.stderr.split())
    assert "click" in imported
    assert not imported & set(HEAVY)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_listed_command_exists_and_is_described_as_it_describes_itself(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert command.get_short_help_str(limit=200) == COMMANDS[name].help


def test_no_command_is_listed_twice_and_all_have_one_line() -> None:
    for entry in COMMANDS.values():
        assert entry.help.endswith(".")
        assert len(entry.help) < 70


def test_a_file_that_can_not_be_read_is_one_line(tmp_path: Path) -> None:
    (tmp_path / ".sidegate").mkdir()
    (tmp_path / ".sidegate" / "services.json").mkdir()
    result = subprocess.run(
        [sys.executable, "-m", "sidegate", "service", "list"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 2
    assert result.stderr == "Error: .sidegate/services.json: Is a directory\n"


@pytest.mark.parametrize(("value", "coloured"), [("", True), ("1", False)])
def test_no_color_means_no_colours_on_a_terminal_too(value: str, *, coloured: bool) -> None:
    terminal, other = os.openpty()
    subprocess.run(
        [sys.executable, "-m", "sidegate", "policy", "check", "/dev/null"],
        env={**os.environ, "NO_COLOR": value},
        stdout=other,
        check=False,
    )
    os.close(other)
    shown = os.read(terminal, 4096)
    os.close(terminal)
    assert shown
    assert (b"\x1b[" in shown) is coloured


def test_usage_errors_exit_with_2() -> None:
    for arguments in (["nonsense"], ["publish"], ["up", "--no-such-option"]):
        result = subprocess.run(
            [sys.executable, "-m", "sidegate", *arguments], capture_output=True, check=False
        )
        assert result.returncode == 2


def test_the_version_is_told() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "sidegate", "--version"], capture_output=True, text=True, check=True
    )
    assert result.stdout.startswith("sidegate ")
