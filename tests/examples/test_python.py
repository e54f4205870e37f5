"""The example app does what its page says, against the mesh, as processes of its own."""

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "python"


def environ(url: str) -> dict[str, str]:
    # A proxy that nobody runs: whatever goes there is lost.
    return {**os.environ, "SIDEGATE_URL": url, "http_proxy": "http://127.0.0.1:1"}


def publish(url: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-I", str(FOLDER / "publish.py"), *arguments],
        env=environ(url),
        capture_output=True,
        text=True,
        check=False,
    )


class Subscriber:
    """A running `subscribe.py`."""

    def __init__(self, url: str, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-I", str(FOLDER / "subscribe.py"), *arguments],
            env=environ(url),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def message(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found


@pytest.fixture
def subscriber(mesh: Any, topic: str) -> Iterator[Subscriber]:
    running = Subscriber(mesh.url, topic, "earliest")
    yield running
    running.process.kill()
    running.process.communicate()


def test_what_one_publishes_the_other_receives(
    mesh: Any, topic: str, subscriber: Subscriber
) -> None:
    done = publish(mesh.url, topic, '{"order_id": 104}')
    assert done.returncode == 0, done.stderr
    published = json.loads(done.stdout)
    assert (published["offset"], published["durability"]) == (0, "committed")
    assert publish(mesh.url, topic, "no JSON").returncode == 0
    first, second = subscriber.message(), subscriber.message()
    assert (first["message"], first["principal"]) == ({"order_id": 104}, "dev-app")
    assert first["id"] == published["id"]
    assert second["message"] == "no JSON"


def test_a_subscriber_goes_on_after_a_break_without_a_gap_or_a_repeat(
    mesh: Any, topic: str, subscriber: Subscriber
) -> None:
    assert publish(mesh.url, topic, "0").returncode == 0
    assert subscriber.message()["message"] == 0
    mesh.kill("sidecar")
    for number in ("1", "2"):
        assert publish(mesh.url, topic, number).returncode == 0
    assert [subscriber.message()["message"] for _ in range(2)] == [1, 2]


def test_a_refusal_is_told_with_its_decision(mesh: Any) -> None:
    done = publish(mesh.url, "forbidden.fruit", "1")
    assert done.returncode == 1
    assert re.search(r"D1 denies it .*\(decision [0-9a-f-]{36}\)", done.stderr)
    refused = Subscriber(mesh.url, "forbidden.fruit")
    refused.process.communicate(timeout=30)
    assert refused.process.returncode == 1


def test_without_a_sidecar_or_arguments_they_say_so() -> None:
    done = publish("http://127.0.0.1:1", "orders", "1")
    assert done.returncode == 2
    assert "no sidecar answers at http://127.0.0.1:1" in done.stderr
    assert publish("http://127.0.0.1:1").returncode == 2


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.py")), ids=lambda file: file.name)
def test_nothing_but_the_standard_library_is_imported(file: Path) -> None:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [str(node.module)]
        else:
            continue
        assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names


def test_the_page_shows_the_members_that_there_are(
    mesh: Any, topic: str, subscriber: Subscriber
) -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    placed, envelope = map(json.loads, re.findall(r"```json\n(.*?)```", text, re.DOTALL))
    assert set(json.loads(publish(mesh.url, topic, "1").stdout)) == set(placed)
    assert set(subscriber.message()) == set(envelope)
