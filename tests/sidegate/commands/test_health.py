"""`sidegate health` is what an image's health check runs: its exit code is the answer."""

import subprocess
import sys
from typing import Any


def health(url: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "sidegate", "health", url],
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )
    return done.returncode, done.stdout + done.stderr


def test_a_service_that_is_ready_is_told_by_exit_code_0(mesh: Any) -> None:
    assert health(f"{mesh.url}/") == (0, "ready\n")


def test_nothing_there_is_told_by_exit_code_1_and_a_sentence() -> None:
    code, said = health("http://127.0.0.1:9")
    assert code == 1
    assert "127.0.0.1:9" in said
