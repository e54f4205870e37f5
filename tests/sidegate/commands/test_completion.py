from typing import Any

import pytest


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script_that_asks_sidegate(command: Any, shell: str) -> None:
    result = command("completion", shell)
    assert result.returncode == 0
    assert f"_SIDEGATE_COMPLETE={shell}_complete" in result.stdout


def test_another_shell_is_a_usage_error(command: Any) -> None:
    assert command("completion", "tcsh").returncode == 2


def test_commands_are_completed(command: Any) -> None:
    environ = {
        "_SIDEGATE_COMPLETE": "bash_complete",
        "COMP_WORDS": "sidegate st",
        "COMP_CWORD": "1",
    }
    result = command(environ=environ)
    assert "plain,status" in result.stdout
