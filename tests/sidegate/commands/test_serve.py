import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sidegate.commands.serve import SERVICES
from sidegate.development import addresses, ca
from sidegate.development.state import State


@pytest.fixture
def state(command: Any) -> State:
    state = State(command.folder)
    state.make_folders()
    state.make_keys()
    state.make_certificates(ca.utc_now())
    state.make_documents(addresses.free_addresses())
    # The development mesh has no signer of its own: its core holds the key.
    state.config("signer").write_text(
        "listen: unix:run/signer.sock\nsigning_key: keys/core-signing.pem\n"
        "data: data/signer\nadmit_uids: [1000]\n"
    )
    return state


@pytest.mark.parametrize("service", sorted(SERVICES))
def test_a_sound_configuration_is_ok(command: Any, state: State, service: str) -> None:
    result = command(service, "--config", f"{service}.yaml", "--check-config")
    assert (result.returncode, result.stdout) == (0, "ok\n")


@pytest.mark.parametrize("service", sorted(SERVICES))
def test_all_problems_are_reported_with_file_and_line(
    command: Any, state: State, service: str
) -> None:
    file = state.config(service)
    file.write_text(file.read_text() + "colour: blue\nlog_level: loud\n")
    lines = file.read_text().splitlines()
    for arguments in (["--check-config"], []):
        result = command(service, "--config", f"{service}.yaml", *arguments)
        assert result.returncode == 2
        text = result.stdout + result.stderr
        assert f"{service}.yaml:{lines.index('colour: blue') + 1}: colour" in text
        assert f"{service}.yaml:{lines.index('log_level: loud') + 1}: log_level" in text


@pytest.mark.parametrize("service", sorted(SERVICES))
def test_a_misspelt_variable_is_a_problem(command: Any, state: State, service: str) -> None:
    environ = {f"SIDEGATE_{service.upper()}_LISTN": "127.0.0.1:1"}
    result = command(service, "--config", f"{service}.yaml", "--check-config", environ=environ)
    assert result.returncode == 2
    assert f"SIDEGATE_{service.upper()}_LISTN" in result.stdout


def test_a_file_that_is_not_there_is_named(command: Any) -> None:
    result = command("core", "--config", "nowhere.yaml")
    assert result.returncode == 2
    assert "nowhere.yaml" in result.stderr


def start_issuer(folder: Path, *options: str) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "sidegate", "issuer", "--config", "issuer.yaml", *options],
        cwd=folder,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    while b'"event":"started"' not in (line := process.stderr.readline()):
        assert line, "it ended before it had started"
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_service_stops_cleanly_when_asked(state: State, number: int) -> None:
    process = start_issuer(state.root)
    os.kill(process.pid, number)
    process.communicate(timeout=60)
    assert process.returncode == 0


def test_a_service_stops_when_its_standard_input_ends_if_told_so(state: State) -> None:
    process = start_issuer(state.root, "--stop-with-stdin")
    process.communicate(b"", timeout=60)
    assert process.returncode == 0
