"""Each example does what its page says, with its one command, against a mesh."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples"
PASTES_MAX = 10


def run(*command: str, cwd: Path = ROOT, seconds: float = 200, **environ: str) -> str:
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def shown(example: str) -> list[str]:
    """The lines of output that the example's page promises."""
    text = (FOLDER / example / "README.md").read_text()
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return str(next(content for language, content in blocks if not language)).splitlines()


@pytest.mark.parametrize(
    "folder", sorted(path for path in FOLDER.iterdir() if path.is_dir()), ids=lambda path: path.name
)
def test_an_example_has_a_page_of_one_screen(folder: Path) -> None:
    page = (folder / "README.md").read_text()
    assert len(page.splitlines()) <= 60
    assert "```sh\n" in page


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_shell_publishes_once_however_often_it_sends(mesh: Any, topic: str) -> None:
    said = run("sh", "examples/shell/demo.sh", topic, SIDEGATE_URL=mesh.url)
    _, answer, _ = mesh.request("GET", f"/messages/{topic}?offset=0&limit=10")
    assert [one["message"] for one in answer["messages"]] == [{"n": n} for n in (1, 2, 3, 4)]
    streamed = [json.loads(line)["offset"] for line in said.splitlines()[-4:]]
    assert streamed == [0, 1, 2, 3]


@pytest.mark.skipif(shutil.which("nc") is None, reason="needs netcat")
def test_netcat_publishes_and_fetches_as_the_page_shows(mesh: Any, topic: str) -> None:
    port = yaml.safe_load((mesh.state / "sidecar.yaml").read_text())["tcp"].rpartition(":")[2]
    # Netcat waits a second for an answer, which a busy machine may need longer for.
    for number in range(PASTES_MAX):
        said = run("sh", "examples/tcp/demo.sh", f"{topic}.{number}", SIDEGATE_TCP_PORT=port)
        if said.splitlines() == shown("tcp"):
            return
    pytest.fail(said)


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
def test_javascript_publishes_receives_and_reads_a_refusal(mesh: Any, topic: str) -> None:
    said = run("node", "examples/javascript/demo.mjs", topic, SIDEGATE_URL=mesh.url)
    assert re.sub(r"[0-9a-f-]{36}", "…", said).splitlines() == shown("javascript")


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_a_denial_is_explained_and_solved(start_mesh: Callable[..., Any], tmp_path: Path) -> None:
    mesh = start_mesh()
    mesh.wait_for("ready")
    command = tmp_path / "sidegate"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m sidegate "$@"\n')
    command.chmod(0o755)
    said = run(
        "sh", "examples/denial/demo.sh", SIDEGATE=str(command), SIDEGATE_STATE=str(mesh.state)
    )
    before, explained, after = re.split(r"\n== (?:Why\?|The same message again)\n", said)
    assert '"code": "denied"' in before
    assert "DENIED: warehouse may not publish on stock" in explained
    assert '"durability":"committed"' in after


def test_the_order_shop_loses_no_mail_though_its_worker_is_killed(mesh: Any, topic: str) -> None:
    said = run(
        sys.executable, "examples/order_shop/demo.py", SIDEGATE_URL=mesh.url, SHOP_PREFIX=topic
    )
    expected = shown("order_shop")
    assert re.sub(r"after \d+ mails", "after … mails", said).splitlines() == expected


def test_a_webhook_is_called_once_for_each_message_though_registered_twice(
    mesh: Any, topic: str
) -> None:
    said = run(sys.executable, "examples/webhook/observer.py", topic, SIDEGATE_URL=mesh.url)
    assert said.replace(topic, "weather").splitlines() == shown("webhook")


@pytest.mark.long
def test_the_audit_finds_what_was_planted(start_mesh: Callable[..., Any], tmp_path: Path) -> None:
    mesh = start_mesh()
    mesh.wait_for("ready")
    for _ in range(20):
        mesh.request("POST", "/publish", {"topic": "orders", "message": "x" * 1000})
    mesh.close()
    page = tmp_path / "report.html"
    command = tmp_path / "sidegate"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m sidegate "$@"\n')
    command.chmod(0o755)
    said = run(
        *("sh", "examples/audit/demo.sh"),
        seconds=600,
        SIDEGATE=str(command),
        SIDEGATE_STATE=str(mesh.state),
        REPORT=str(page),
    )
    sound, changed, cut = said.split("\n== ")[2:5]
    assert "The log is sound" in sound
    assert "orders/0, offsets" in changed
    assert "cut_off" in cut
    assert "orders" in page.read_text()
