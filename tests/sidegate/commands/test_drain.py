"""`sidegate drain` ends when nothing is left that only the sidecar has."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any


def drain(url: str, timeout: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "sidegate", "drain", "--url", url, "--timeout", timeout],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_it_waits_for_the_spool_and_says_what_is_left(start_mesh: Callable[..., Any]) -> None:
    mesh = start_mesh()
    mesh.wait_for("ready")
    assert drain(mesh.url, "10").stdout == "Everything is sent.\n"
    mesh.suspend("gatekeeper")
    try:
        status, answer, _ = mesh.request(
            "POST", "/publish?timeout_ms=200", {"topic": "orders", "message": 1}
        )
        assert (status, answer["durability"]) == (202, "spooled")
        left = drain(mesh.url, "0.5")
        assert left.returncode == 1
        assert "messages are not sent" in left.stderr
    finally:
        mesh.resume("gatekeeper")
    assert drain(mesh.url, "30").returncode == 0


def test_no_sidecar_is_exit_code_2() -> None:
    assert drain("http://127.0.0.1:9", "1").returncode == 2
