"""A backup is taken in the order that makes it a state that the core could have crashed in."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from log_format.layout import segment_name
from sidegate.checker.backup import Backup, CannotBackUpError, back_up


@pytest.fixture
def data(write_log: Callable[[], Path]) -> Path:
    folder = write_log() / "data" / "core"
    (folder / "control").mkdir()
    (folder / "control" / segment_name(0)).write_bytes(b"control")
    for half in ("a", "b"):
        (folder / "cursors" / half).mkdir(parents=True)
        (folder / "cursors" / half / segment_name(0)).write_bytes(half.encode())
    (folder / "cursors" / "current").write_text("b")
    (folder / "tree" / "tile" / "0").mkdir(parents=True)
    (folder / "tree" / "tile" / "0" / "000").write_bytes(b"tile")
    (folder / "tree" / "checkpoint").write_bytes(b"note")
    (folder / "checkpoint").write_bytes(b"index")
    return folder


def test_all_but_indexes_is_copied_byte_for_byte(data: Path, tmp_path: Path) -> None:
    seen: list[int] = []
    done = back_up(data, tmp_path / "copy", seen.append)
    copied = {path.relative_to(tmp_path / "copy") for path in (tmp_path / "copy").rglob("*.*")}
    assert {path for path in copied if path.suffix == ".seg"} == {
        path.relative_to(data) for path in data.rglob("*.seg") if "a" not in path.parts
    }
    assert not (tmp_path / "copy" / "checkpoint").exists()
    for path in (tmp_path / "copy").rglob("*"):
        if path.is_file():
            assert path.read_bytes() == (data / path.relative_to(tmp_path / "copy")).read_bytes()
    assert done == Backup(8, sum(seen))


def test_what_refers_to_messages_is_copied_before_them(data: Path, tmp_path: Path) -> None:
    order: list[str] = []
    target = tmp_path / "copy"
    back_up(data, target, lambda _: order.append(_newest(target, order)))
    assert order[0].startswith("control/")
    assert order[1].startswith("cursors/b/")
    assert any(name.startswith("tree/") for name in order[2:-3])
    assert order[-3:] == [segment_name(0), segment_name(4), segment_name(8)]


def _newest(target: Path, known: list[str]) -> str:
    files = {str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()}
    return next(iter(files - set(known)))


def test_a_segment_that_begins_meanwhile_is_left_out(data: Path, tmp_path: Path) -> None:
    def begin_another(_: int) -> None:
        if (tmp_path / "copy" / segment_name(0)).exists():
            (data / segment_name(12)).write_bytes(b"x")

    back_up(data, tmp_path / "copy", begin_another)
    assert (data / segment_name(12)).exists()
    assert not (tmp_path / "copy" / segment_name(12)).exists()


def test_a_segment_that_the_copied_tree_may_cover_is_copied(data: Path, tmp_path: Path) -> None:
    def begin_another(_: int) -> None:
        (data / segment_name(12)).write_bytes(b"x")

    back_up(data, tmp_path / "copy", begin_another)
    assert (tmp_path / "copy" / segment_name(12)).exists()


def test_a_partial_tile_that_goes_meanwhile_is_passed_over(data: Path, tmp_path: Path) -> None:
    partial = data / "tree" / "tile" / "0" / "001.p" / "7"
    partial.parent.mkdir()
    partial.write_bytes(b"partial")

    back_up(data, tmp_path / "copy", lambda _: partial.unlink(missing_ok=True))
    assert not (tmp_path / "copy" / "tree/tile/0/001.p/7").exists()


def test_a_folder_that_holds_something_is_not_written_to(data: Path, tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "mine").touch()
    with pytest.raises(CannotBackUpError, match="is not empty"):
        back_up(data, tmp_path / "copy", lambda _: None)


def test_a_folder_without_a_log_is_named(tmp_path: Path) -> None:
    with pytest.raises(CannotBackUpError, match="holds no log"):
        back_up(tmp_path, tmp_path / "copy", lambda _: None)


def test_a_backup_under_load_restores_all_that_was_acknowledged_before_it(
    start_mesh: Callable[..., Any], tmp_path: Path
) -> None:
    mesh = start_mesh()
    mesh.wait_for("ready")
    stop, acknowledged = threading.Event(), []

    def load() -> None:
        while not stop.is_set():
            status, answer, _ = mesh.request(
                "POST", "/publish?ack=core", {"topic": "orders", "message": len(acknowledged)}
            )
            assert status == 200, answer
            acknowledged.append(answer["offset"])

    loading = threading.Thread(target=load)
    loading.start()
    try:
        while len(acknowledged) < 50:
            stop.wait(0.01)
        before = len(acknowledged)
        elsewhere = tmp_path / "elsewhere"
        done = run("log", "backup", str(mesh.state / "data" / "core"), str(elsewhere / "data/core"))
        assert done.returncode == 0, done.stdout + done.stderr
    finally:
        stop.set()
        loading.join()
    mesh.close()
    restored = restore(mesh.state, elsewhere)
    again = start_mesh(state=restored)
    again.wait_for("ready")
    status, page, _ = again.request("GET", "/messages/orders?offset=0&limit=10000")
    assert status == 200, page
    got = [one["message"] for one in page["messages"]]
    assert got == list(range(len(got)))
    assert len(got) >= before
    again.close()
    verified = run("log", "verify", str(restored / "data" / "core"), "--json")
    assert verified.returncode == 0, verified.stdout
    assert json.loads(verified.stdout)["logs"]


def restore(original: Path, elsewhere: Path) -> Path:
    """Another machine: the copy of the data, and the identities from where they are kept."""
    state = elsewhere / "machine" / ".sidegate"
    state.parent.mkdir()
    subprocess.run(["cp", "-a", original, state], check=True)
    subprocess.run(["rm", "-rf", state / "data", state / "run"], check=True)
    subprocess.run(["cp", "-a", elsewhere / "data", state / "data"], check=True)
    return state


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "sidegate", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_a_log_of_cursors_that_begins_anew_meanwhile_is_copied_again(
    data: Path, tmp_path: Path
) -> None:
    current = data / "cursors" / "current"

    def begin_anew(_: int) -> None:
        if current.read_text() == "b" and (tmp_path / "copy" / "cursors").exists():
            (data / "cursors" / "b" / segment_name(0)).unlink()
            current.write_text("a")

    back_up(data, tmp_path / "copy", begin_anew)
    copied = tmp_path / "copy" / "cursors"
    assert (copied / "current").read_text() == "a"
    assert (copied / "a" / segment_name(0)).read_bytes() == b"a"
    assert not (copied / "b").exists()


def test_a_log_of_cursors_that_never_rests_is_an_error(data: Path, tmp_path: Path) -> None:
    current = data / "cursors" / "current"

    def turn(_: int) -> None:
        current.write_text("a" if current.read_text() == "b" else "b")

    with pytest.raises(CannotBackUpError, match="changes too often"):
        back_up(data, tmp_path / "copy", turn)
