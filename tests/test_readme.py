"""The README's commands do what the README says, pasted as they stand."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
STREAM_S = 3
"""A subscription never ends by itself; what is there already arrives at once."""


def commands(begin: str) -> list[str]:
    """The commands of the README's shell blocks that begin with a word, in order."""
    blocks = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    lines = [line.strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.startswith(begin)]


def paste(line: str, url: str) -> str:
    """Run a curl line against a mesh that listens elsewhere; what it prints."""
    moved = line.replace("localhost:9000", url.removeprefix("http://"))
    if "/subscribe/" in moved:
        moved = moved.replace("curl -sN", f"curl -sN --max-time {STREAM_S}")
    done = subprocess.run(["sh", "-c", moved], capture_output=True, text=True, check=False)
    return done.stdout


def last_data(events: str) -> Any:
    return json.loads(events.rsplit("data: ", maxsplit=1)[-1].split("\n", maxsplit=1)[0])


@pytest.fixture(scope="module")
def answers(mesh: Any) -> list[str]:
    """What each of the README's curl lines of the first page printed, in order."""
    return [paste(line, mesh.url) for line in commands("curl")]


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


def test_every_command_that_the_readme_names_exists() -> None:
    named = {line.split()[1] for line in commands(".venv/bin/sidegate")}
    from sidegate.__main__ import COMMANDS

    assert named
    assert named <= set(COMMANDS)
