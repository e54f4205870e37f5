"""`sidegate audit` as a command: exit codes and sentences. tests/spark is about the checks."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from sidegate.commands.audit import Since, audit, finding_line


def run(*arguments: str, cwd: Path, **environ: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "sidegate", "audit", *arguments],
        cwd=cwd,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_report_without_a_place_is_told_before_the_work(command: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = command("audit", "report", "--out", str(tmp_path / "file" / "report"))
    assert result.returncode == 2
    assert result.stderr.startswith("Error: the report can't be written to")
    assert "--out" in result.stderr


def test_no_log_is_exit_2_with_what_to_do(tmp_path: Path) -> None:
    result = CliRunner().invoke(audit, ["report", "--state", str(tmp_path)])
    assert result.exit_code == 2
    assert "make up" in result.output


def test_without_spark_the_command_says_how_to_get_it(tmp_path: Path) -> None:
    (tmp_path / "pyspark.py").write_text("raise ImportError('hidden')\n")
    result = run("report", cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert result.returncode == 2
    assert "make audit" in result.stderr


@pytest.mark.parametrize("value", ["30d", "24h", "2026-01-31", "2026-01-31T12:00:00+01:00"])
def test_since_takes_times_and_spans(value: str) -> None:
    assert Since().convert(value, None, None)[10] == "T"


@pytest.mark.parametrize("value", ["much", "2", "100m", "2gb", "-1g"])
def test_memory_that_spark_cannot_have_is_refused_before_the_work(value: str) -> None:
    result = CliRunner().invoke(audit, ["report", f"--memory={value}"])
    assert result.exit_code == 2
    assert "2g" in result.output or "512m" in result.output


def test_a_time_that_is_none_is_refused() -> None:
    result = CliRunner().invoke(audit, ["report", "--since", "yesterday"])
    assert result.exit_code == 2
    assert "30d" in result.output


def test_a_finding_is_one_line_with_its_place() -> None:
    row: dict[str, Any] = {
        "kind": "body_hash", "topic": "a", "partition": 0, "first_offset": 1, "last_offset": 2,
        "file": "0.seg", "position": 64, "text": "differs",
    }  # fmt: skip
    assert finding_line(row) == "body_hash: a/0, offsets 1 to 2, 0.seg at byte 64: differs"
    empty = dict.fromkeys(row) | {"kind": "cut_off", "text": "ends"}
    assert finding_line(empty) == "cut_off: the log: ends"


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_running_mesh_is_sound_and_a_changed_byte_is_not(start_mesh: Any, tmp_path: Path) -> None:
    mesh = start_mesh()
    mesh.wait_for("ready")
    for number in range(5):
        assert mesh.publish("audited", {"needle": number})[0] == 200
    first = run("report", "--out", "a", "--cores", "2", "--memory", "1g", cwd=tmp_path)
    assert first.returncode == 0, first.stderr + first.stdout
    assert (tmp_path / "a" / "report.html").is_file()
    mesh.close()
    for path in (mesh.state / "data" / "core").glob("*.seg"):
        path.write_bytes(re.sub(rb'"needle":( ?)3', rb'"neEdle":\g<1>3', path.read_bytes()))
    second = run("report", "--out", "b", "--memory", "1g", "--ocsf", cwd=tmp_path)
    assert second.returncode == 1, second.stderr + second.stdout
    assert "body_hash: audited/0, offsets 3 to 3" in second.stdout
    assert list((tmp_path / "b" / "ocsf").glob("*.json"))


@pytest.mark.long
@pytest.mark.timeout(600)
def test_what_fails_within_java_is_exit_2_and_a_sentence(start_mesh: Any, tmp_path: Path) -> None:
    mesh = start_mesh()
    mesh.wait_for("ready")
    assert mesh.publish("audited", 1)[0] == 200
    # Spark runs `chmod` when it writes a file.
    programs = tmp_path / "programs"
    programs.mkdir()
    for folder in reversed(os.environ["PATH"].split(os.pathsep)):
        for program in Path(folder).glob("*"):
            link = programs / program.name
            link.unlink(missing_ok=True)
            link.symlink_to(program)
    (programs / "chmod").unlink()
    result = run("report", "--memory", "1g", cwd=tmp_path, PATH=str(programs))
    assert result.returncode == 2, result.stderr + result.stdout
    assert "Error: the audit could not run: " in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_watch_publishes_what_it_finds(start_mesh: Any, tmp_path: Path) -> None:
    mesh = start_mesh()
    mesh.wait_for("ready")
    for number in range(3):
        assert mesh.publish("watched", {"needle": number})[0] == 200
    mesh.close()
    for path in (mesh.state / "data" / "core").glob("*.seg"):
        path.write_bytes(re.sub(rb'"needle":( ?)1', rb'"neEdle":\g<1>1', path.read_bytes()))
    again = start_mesh()
    again.wait_for("ready")
    for _ in range(2):
        result = run("watch", "--once", "--memory", "1g", cwd=tmp_path)
        assert result.returncode == 0, result.stderr
    (finding,) = again.messages("findings")
    assert finding["message"]["kind"] == "body_hash"
    assert finding["message"]["topic"] == "watched"


def test_an_archive_of_a_mesh_that_has_sealed_nothing_is_empty(tmp_path: Path) -> None:
    log = tmp_path / "data" / "core"
    log.mkdir(parents=True)
    (log / f"{0:020d}.seg").touch()
    result = CliRunner().invoke(audit, ["archive", "--state", str(tmp_path), "--no-publish"])
    assert result.exit_code == 0, result.output
    assert "0 segments archived" in result.output
