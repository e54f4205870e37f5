"""`sidegate log` on the log of a real mesh, while it runs."""

import json
import os
import subprocess
import sys
from typing import Any

from click.testing import CliRunner, Result

from sidegate.commands.log import log


def run(*arguments: str) -> Result:
    return CliRunner().invoke(log, arguments)


def test_the_log_of_a_running_mesh_is_sound(mesh: Any, topic: str) -> None:
    assert mesh.publish(topic, {"n": 1})[0] == 200
    done = run("verify", str(mesh.state))
    assert done.exit_code == 0, done.output
    assert "sound" in done.output
    document = json.loads(run("verify", str(mesh.state), "--json").stdout)
    assert all(report["sound"] for report in document["logs"])
    assert any(topic in report["topics"] for report in document["logs"])


def test_a_message_can_be_found_in_the_files_with_its_sender(mesh: Any, topic: str) -> None:
    for number in range(3):
        assert mesh.publish(topic, {"n": number})[0] == 200
    done = run("dump", str(mesh.state), "--topic", topic, "--offset", "1", "--json")
    assert done.exit_code == 0, done.output
    batches = [json.loads(line) for line in done.stdout.splitlines()]
    assert [record["value"] for batch in batches for record in batch["records"]] == [
        {"n": 1},
        {"n": 2},
    ]
    assert {batch["principal"] for batch in batches} == {"dev-app"}
    readable = run("dump", str(mesh.state), "--topic", topic)
    assert f"{topic}/0 offsets 0 to 0" in readable.output
    assert "by dev-app" in readable.output


def test_a_folder_without_a_log_says_what_to_do(tmp_path: Any) -> None:
    for command in ("verify", "dump"):
        done = run(command, str(tmp_path / "none"))
        assert done.exit_code == 2
        assert "make up" in done.output


def test_a_reader_that_has_seen_enough_ends_a_dump_quietly(mesh: Any, topic: str) -> None:
    assert mesh.publish(topic, {"n": 1})[0] == 200
    command = [sys.executable, "-m", "sidegate", "log", "dump", str(mesh.state)]
    # A pipe whose reader is gone before the first line is written.
    reading, writing = os.pipe()
    os.close(reading)
    try:
        result = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(writing)
    assert result.returncode == 1
    assert result.stderr == b""
