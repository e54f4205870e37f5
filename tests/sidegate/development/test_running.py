import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from sidegate.development.running import AlreadyUpError, Running

HOLD = """
import sys, pathlib, os
from sidegate.development.running import Running
running = Running(pathlib.Path(sys.argv[1]))
with running.held() as lock:
    running.write_record({"pid": os.getpid()})
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def running(tmp_path: Path) -> Running:
    return Running(tmp_path)


def holder(running: Running) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(running.folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    return process


def end(process: "subprocess.Popen[bytes]") -> None:
    process.communicate(b"")


def test_nothing_runs_in_a_fresh_folder(running: Running) -> None:
    assert not running.is_up()
    assert not running.is_in_use()
    assert running.record() is None


def test_what_runs_is_seen_by_others_and_gone_when_it_ends(running: Running) -> None:
    process = holder(running)
    try:
        assert running.is_up()
        assert running.record() == {"pid": process.pid}
        assert stat.S_IMODE(running.record_file.stat().st_mode) == 0o600
    finally:
        end(process)
    assert not running.is_in_use()
    assert not running.record_file.exists()


def test_a_second_one_is_refused_while_the_first_runs(running: Running) -> None:
    process = holder(running)
    try:
        with pytest.raises(AlreadyUpError), running.held():
            pytest.fail("held twice")
    finally:
        end(process)
    with running.held():
        assert running.is_up()


def test_a_killed_one_leaves_nothing_behind_that_is_in_the_way(running: Running) -> None:
    process = holder(running)
    process.kill()
    end(process)
    assert not running.is_up()
    assert running.record() is None
    with running.held():
        assert running.is_up()


def test_a_service_that_outlives_its_parent_is_still_in_use_but_not_up(running: Running) -> None:
    with running.held() as lock:
        child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=[lock])
    try:
        assert not running.is_up()
        assert running.is_in_use()
    finally:
        child.communicate(b"")
    assert not running.is_in_use()


def test_whoever_changes_the_files_second_waits_for_the_first(running: Running) -> None:
    order = []
    inside = threading.Event()

    def first() -> None:
        with running.changing():
            inside.set()
            order.append("first in")
            waiting.wait()
            order.append("first out")

    waiting = threading.Event()
    thread = threading.Thread(target=first)
    thread.start()
    inside.wait()
    threading.Timer(0.1, waiting.set).start()
    with running.changing():
        order.append("second in")
    thread.join()
    assert order == ["first in", "first out", "second in"]


def test_stop_asks_the_recorded_process_and_waits_for_its_end(running: Running) -> None:
    process = holder(running)
    assert running.stop(10)
    assert process.wait(10) != 0
    end(process)


def test_stop_says_when_it_does_not_end(running: Running) -> None:
    with running.held():
        running.write_record({"pid": _harmless_pid()})
        assert not running.stop(0.1)


def _harmless_pid() -> int:
    """A process that is over, but not reaped: a signal to it does nothing."""
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    return pid
