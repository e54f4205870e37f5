"""What the audit shows while it works."""

import sys
from typing import Any

import pytest

from sidegate.audit_terminal import Steps


def test_without_a_terminal_every_step_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    steps = Steps()
    steps.begin("Reading")
    steps.tasks(1, 2)
    steps.begin("Checking")
    steps.end()
    assert capsys.readouterr().err == "Reading\nChecking\n"


def test_on_a_terminal_the_line_is_written_anew(
    capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    steps = Steps()
    steps.begin("Reading")
    steps.tasks(1, 2)
    steps.end()
    text = capsys.readouterr().err
    assert "Reading … 1 of 2" in text
    assert text.endswith(" s\n")
