"""The README's commands do what the README says, pasted as they stand."""

import json
import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FIRST_S_MAX = 60.0
"""For the first message of a subscription, on a machine that runs tests on all of its cores."""
STREAM_S = 3.0
"""A subscription never ends by itself; what is there already arrives at once."""


def lines(text: str) -> list[str]:
    """The lines of the shell blocks in a part of the README, in order."""
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    return [line.strip() for block in blocks for line in block.splitlines()]


def section(title: str) -> str:
    return README.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def commands(begin: str) -> list[str]:
    """The commands of the README that begin with a word, in order."""
    return [line for line in lines(README) if line.startswith(begin)]


def paste(line: str, url: str, patience_s: float = FIRST_S_MAX) -> str:
    """Run a curl line against a mesh that listens elsewhere; what it prints."""
    moved = line.replace("localhost:9000", url.removeprefix("http://"))
    if "/subscribe/" in moved:
        return stream(moved, patience_s)
    done = subprocess.run(["sh", "-c", moved], capture_output=True, text=True, check=False)
    return done.stdout


def stream(line: str, patience_s: float) -> str:
    """What a subscription prints soon after its first message, or at all while one waits for it."""
    process = subprocess.Popen(["sh", "-c", f"exec {line}"], stdout=subprocess.PIPE)
    assert process.stdout is not None
    printed, end = b"", time.monotonic() + patience_s
    while (left_s := end - time.monotonic()) > 0:
        if not select.select([process.stdout], [], [], left_s)[0]:
            break
        piece = os.read(process.stdout.fileno(), 65536)
        if not piece:
            break
        if b"data: " in piece and b"data: " not in printed:
            end = time.monotonic() + STREAM_S
        printed += piece
    process.terminate()
    process.communicate()
    return printed.decode()


def last_data(events: str) -> Any:
    return json.loads(events.rsplit("data: ", maxsplit=1)[-1].split("\n", maxsplit=1)[0])


@pytest.fixture(scope="module")
def answers(mesh: Any) -> list[str]:
    """What each of the curl lines of the first sections printed, in order."""
    pasted = [*lines(section("A first message")), *lines(section("A denial"))]
    return [paste(line, mesh.url) for line in pasted]


def test_the_first_message_is_published_received_and_pulled(answers: list[str]) -> None:
    published = json.loads(answers[0])
    assert published["topic"] == "orders"
    assert published["partition"] == 0
    assert published["durability"] == "committed"
    received = last_data(answers[1])
    assert received["message"] == {"order_id": 101}
    pulled = json.loads(answers[2])
    assert pulled["messages"][-1] == received
    assert pulled["next_offset"] == published["offset"] + 1


def test_an_answer_has_the_members_that_the_readme_shows(answers: list[str]) -> None:
    shown = [json.loads(text) for text in re.findall(r"```json\n(.*?)\n```", README, re.DOTALL)]
    published, denied = shown[0], shown[1]
    assert set(json.loads(answers[0])) == set(published)
    assert set(denied) <= set(json.loads(answers[3]))


def test_the_denial_is_explained(answers: list[str]) -> None:
    denied = json.loads(answers[3])
    assert (denied["status"], denied["code"]) == (403, "denied")
    assert denied["decision_id"]
    assert "forbidden" in denied["detail"]


def test_a_subscription_with_a_name_keeps_its_place(answers: list[str], mesh: Any) -> None:
    assert answers
    durable, *examples = lines(section("A place that is kept"))
    assert last_data(paste(durable, mesh.url))["topic"] == "orders"
    assert "data: " not in paste(durable, mesh.url, STREAM_S)
    for line in examples:
        program = line.removeprefix("python3 ")
        assert f"python3 {program}" in (ROOT / program).with_name("README.md").read_text()


def test_a_receipt_proves_a_message_with_two_public_keys(mesh: Any) -> None:
    publish, check = lines(section("Proof"))
    shell = Shell(mesh)
    shell.paste(publish)
    shown = re.search(r"```\n(proven: .*?)\n```", section("Proof"), re.DOTALL)
    assert shown is not None
    pattern = "[^ ]+".join(re.escape(part) for part in shown[1].split("…"))
    assert re.fullmatch(pattern, shell.paste(check).splitlines()[0])


class Shell:
    """Pastes lines one after the other, in the folder of a mesh, on ports that are free."""

    def __init__(self, mesh: Any, port: int = 9010) -> None:
        self._mesh = mesh
        self._port = port

    def moved(self, line: str) -> str:
        line = line.replace("localhost:9000", self._mesh.url.removeprefix("http://"))
        line = line.replace("localhost:9010", f"localhost:{self._port}")
        line = line.replace("service add payments", f"service add payments --port {self._port}")
        return line.replace(".venv/bin/sidegate", f"{sys.executable} -P -m sidegate")

    def start(self, line: str) -> "subprocess.Popen[str]":
        """A line that stays in its terminal."""
        return subprocess.Popen(
            ["sh", "-c", f"exec {self.moved(line)}"],
            cwd=self._mesh.state.parent,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )

    def paste(self, line: str) -> str:
        done = subprocess.run(
            ["sh", "-c", self.moved(line)],
            cwd=self._mesh.state.parent,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout

    def until_connected(self) -> None:
        end = time.monotonic() + FIRST_S_MAX
        while '"uplink":"connected"' not in self.paste("curl -s localhost:9010/status"):
            assert time.monotonic() < end
            time.sleep(0.05)


def test_two_services_meet_are_told_apart_and_a_denial_is_mended(
    start_mesh: Callable[..., Any], port_pair: Callable[[], int]
) -> None:
    mesh = start_mesh()
    mesh.wait_for("ready")
    shell = Shell(mesh, port_pair())
    add, sidecar, subscribe, publish, denied, explain, allow, again = lines(section("Two services"))
    added = shell.paste(add)
    assert "The running mesh knows it." in added
    assert "sidecar --config .sidegate/payments.yaml" in added
    running = shell.start(sidecar)
    shell.until_connected()
    reading = shell.start(subscribe)
    try:
        assert reading.stdout is not None
        assert reading.stdout.readline()  # Its first sign of life: it is subscribed.
        assert json.loads(shell.paste(publish))["durability"] == "committed"
        received = next(line for line in reading.stdout if line.startswith("data: "))
        assert json.loads(received.removeprefix("data: "))["principal"] == "dev-app"
        assert json.loads(shell.paste(denied))["code"] == "denied"
        shown = re.search(r"```\n(DENIED.*?)\n…\n(to allow.*?)\n```", README, re.DOTALL)
        assert shown is not None
        explained = shell.paste(explain).splitlines()
        assert (explained[0], explained[-1]) == shown.groups()
        shell.paste(allow)
        assert json.loads(shell.paste(again))["durability"] == "committed"
    finally:
        for process in (reading, running):
            process.terminate()
            process.communicate()


def test_every_command_that_the_readme_names_exists() -> None:
    named = {line.split()[1] for line in commands(".venv/bin/sidegate")}
    from sidegate.__main__ import COMMANDS

    assert named
    assert named <= set(COMMANDS)
