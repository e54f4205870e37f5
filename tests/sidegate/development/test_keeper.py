"""One service's life, with a small program in a service's place."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sidegate.development.console import Console
from sidegate.development.keeper import GaveUpError, Keeper, Launch
from sidegate.development.probe import Probe

WAITS = "import sys, signal; signal.signal(15, lambda *_: sys.exit(0)); sys.stdin.read()"


class Watched:
    """A keeper with what it reported, and a way to wait for its states."""

    def __init__(self, code: str, folder: Path, probe: Probe) -> None:
        self.changes: list[str] = []
        self._news = asyncio.Condition()
        self.log = folder / "service.log"
        launch = Launch(
            name="service",
            command=[sys.executable, "-c", code],
            environ=os.environ,
            inherited=[],
            log=self.log,
            probe=probe,
        )
        self.keeper = Keeper(launch, Console(as_json=True), self._changed)

    def _changed(self) -> None:
        self.changes.append(self.keeper.state)

    async def until(self, met: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not met():  # noqa: ASYNC110 - the keeper tells nobody but its record
                await asyncio.sleep(0.01)


@pytest.fixture
def ready(peer: Any) -> Probe:
    peer.answer("GET /readyz", 200, {"ready": True})
    return Probe(peer.url)


async def test_a_service_becomes_ready_and_stops_when_asked(tmp_path: Path, ready: Probe) -> None:
    watched = Watched(WAITS, tmp_path, ready)
    running = asyncio.create_task(watched.keeper.run())
    await watched.keeper.was_ready.wait()
    assert watched.keeper.record()["pid"] is not None
    watched.keeper.stop()
    await running
    assert watched.changes == ["starting", "ready", "stopped"]
    assert watched.keeper.record()["pid"] is None


async def test_a_killed_service_is_named_and_started_again(
    tmp_path: Path, ready: Probe, capsys: pytest.CaptureFixture[str]
) -> None:
    watched = Watched(WAITS, tmp_path, ready)
    running = asyncio.create_task(watched.keeper.run())
    await watched.keeper.was_ready.wait()
    first = watched.keeper.record()["pid"]
    os.kill(first, signal.SIGKILL)
    await watched.until(lambda: watched.changes.count("ready") == 2)
    assert watched.keeper.restarts == 1
    assert watched.keeper.record()["pid"] != first
    watched.keeper.stop()
    await running
    died, again = map(json.loads, capsys.readouterr().out.splitlines())
    assert (died["event"], died["service"], died["exit_code"]) == ("died", "service", -9)
    assert died["delay_s"] == pytest.approx(0.2)
    assert again["event"] == "restarted"


async def test_a_service_that_was_never_ready_and_can_not_run_is_given_up(
    tmp_path: Path,
) -> None:
    watched = Watched("import sys; sys.exit(2)", tmp_path, Probe("http://127.0.0.1:1"))
    with pytest.raises(GaveUpError, match="service ended with exit code 2"):
        await watched.keeper.run()
    assert watched.keeper.state == "stopped"


async def test_a_stop_during_the_pause_before_a_restart_ends_at_once(tmp_path: Path) -> None:
    watched = Watched("import sys; sys.exit(1)", tmp_path, Probe("http://127.0.0.1:1"))
    running = asyncio.create_task(watched.keeper.run())
    await watched.until(lambda: "restarting" in watched.changes)
    watched.keeper.stop()
    await running
    assert watched.keeper.state == "stopped"


async def test_a_service_that_ignores_the_request_can_be_killed(
    tmp_path: Path, ready: Probe
) -> None:
    code = "import signal, sys; signal.signal(15, signal.SIG_IGN); print('x', flush=True)\n"
    watched = Watched(code + "while True: signal.pause()", tmp_path, ready)
    running = asyncio.create_task(watched.keeper.run())
    await watched.until(watched.log.exists)
    await watched.until(lambda: watched.log.stat().st_size > 0)
    watched.keeper.stop()
    watched.keeper.kill()
    await running


async def test_its_output_is_in_its_log_and_its_warnings_are_shown(
    tmp_path: Path, ready: Probe, capsys: pytest.CaptureFixture[str]
) -> None:
    line = json.dumps({"level": "warning", "event": "something is wrong"})
    watched = Watched(f"print({line!r}, flush=True)\n{WAITS}", tmp_path, ready)
    running = asyncio.create_task(watched.keeper.run())
    await watched.until(watched.log.exists)
    await watched.until(lambda: watched.log.stat().st_size > 0)
    watched.keeper.stop()
    await running
    assert "something is wrong" in watched.log.read_text()
    assert "something is wrong" in capsys.readouterr().out


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, an ever full disk")
async def test_a_log_that_can_not_be_written_is_said_once_and_costs_nothing_else(
    tmp_path: Path, ready: Probe, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "service.log").symlink_to("/dev/full")
    printed = tmp_path / "printed"
    code = f"for n in range(100): print(n, flush=True)\nopen({str(printed)!r}, 'w').close()\n"
    watched = Watched(code + WAITS, tmp_path, ready)
    running = asyncio.create_task(watched.keeper.run())
    await watched.until(printed.exists)
    watched.keeper.stop()
    await running
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["event"] for line in lines].count("log_failed") == 1
