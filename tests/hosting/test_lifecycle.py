"""A service starts in order, ends in reverse, and exits with what happened."""

import asyncio
import json
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hosting.config import ConfigError, ConfigProblem, Place
from hosting.lifecycle import Readiness, Service, StartError, run_service
from hosting.phases import Phase


class Part:
    """A component that notes what is asked of it, and fails or hangs where it is told to."""

    def __init__(self, name: str, notes: list[str], **troubles: BaseException | str) -> None:
        self.name = name
        self.hangs = asyncio.Event()
        self._notes = notes
        self._troubles = troubles

    async def start(self) -> None:
        await self._do("start")

    async def drain(self) -> None:
        await self._do("drain")

    async def stop(self) -> None:
        await self._do("stop")

    async def _do(self, what: str) -> None:
        self._notes.append(f"{what} {self.name}")
        trouble = self._troubles.get(what)
        if isinstance(trouble, BaseException):
            raise trouble
        if trouble == "hangs":
            self.hangs.set()
            try:
                await asyncio.Event().wait()
            finally:
                self._notes.append(f"cut {self.name}")


@pytest.fixture
def notes() -> list[str]:
    return []


@pytest.fixture
def parts(notes: list[str]) -> Callable[..., list[Part]]:
    def make(**troubles: dict[str, Any]) -> list[Part]:
        return [Part(name, notes, **troubles.get(name, {})) for name in ("a", "b", "c")]

    return make


async def run_and_stop(service: Service) -> int:
    """Run the service until it has started, then ask it to stop."""
    run = asyncio.create_task(service.run())
    await service.started.wait()
    service.ask_to_stop()
    return await run


Parts = Callable[..., list[Part]]


async def test_components_start_in_order_and_end_in_reverse(parts: Parts, notes: list[str]) -> None:
    service = Service("demo", components=parts())
    assert await run_and_stop(service) == 0
    assert notes == [
        *("start a", "start b", "start c"),
        *("drain c", "drain b", "drain a"),
        *("stop c", "stop b", "stop a"),
    ]
    assert service.phase is Phase.STOPPED


async def test_a_component_that_can_not_start_ends_those_before_it(
    parts: Parts, notes: list[str], logged: pytest.LogCaptureFixture
) -> None:
    service = Service("demo", components=parts(b={"start": StartError("the disk is full")}))
    assert await service.run() == 1
    assert notes == ["start a", "start b", "stop a"]
    [line] = [one for one in logged.records if one.levelname == "CRITICAL"]
    assert line.message == "b could not start: the disk is full"
    assert line.exc_info is None


async def test_an_error_that_explains_nothing_brings_its_traceback(
    parts: Parts, logged: pytest.LogCaptureFixture
) -> None:
    service = Service("demo", components=parts(a={"start": KeyError("x")}))
    assert await service.run() == 1
    assert "Traceback" in logged.text


async def test_a_component_that_cancels_itself_has_not_started(
    parts: Parts, notes: list[str]
) -> None:
    service = Service("demo", components=parts(b={"start": asyncio.CancelledError()}))
    assert await service.run() == 1
    assert notes == ["start a", "start b", "stop a"]


async def test_being_asked_to_stop_ends_a_start_that_takes_long(
    parts: Parts, notes: list[str]
) -> None:
    made = parts(b={"start": "hangs"})
    service = Service("demo", components=made)
    run = asyncio.create_task(service.run())
    await made[1].hangs.wait()
    service.ask_to_stop()
    assert await run == 0
    assert notes == ["start a", "start b", "cut b", "stop a"]


async def test_a_drain_that_takes_too_long_is_cut_and_the_rest_goes_on(
    parts: Parts, notes: list[str], logged: pytest.LogCaptureFixture
) -> None:
    service = Service("demo", components=parts(b={"drain": "hangs"}), drain_s_max=0.02)
    assert await run_and_stop(service) == 0
    assert notes[3:] == ["drain c", "drain b", "cut b", "drain a", "stop c", "stop b", "stop a"]
    [line] = [one for one in logged.records if one.message == "drain was cut short"]
    assert line.fields["component"] == "b"  # type: ignore[attr-defined]


async def test_a_drain_that_fails_does_not_keep_the_others_from_theirs(
    parts: Parts, notes: list[str], logged: pytest.LogCaptureFixture
) -> None:
    service = Service("demo", components=parts(c={"drain": RuntimeError("no")}))
    assert await run_and_stop(service) == 0
    assert "stop a" in notes
    assert "drain failed" in logged.text


async def test_a_stop_that_fails_shows_in_the_exit_code_and_the_others_stop(
    parts: Parts, notes: list[str], logged: pytest.LogCaptureFixture
) -> None:
    service = Service("demo", components=parts(b={"stop": RuntimeError("no")}))
    assert await run_and_stop(service) == 1
    assert notes[-3:] == ["stop c", "stop b", "stop a"]
    assert "stop failed" in logged.text


async def test_a_failure_at_work_drains_stops_and_exits_1(parts: Parts, notes: list[str]) -> None:
    service = Service("demo", components=parts())
    run = asyncio.create_task(service.run())
    await service.started.wait()
    service.fail("the log can't be synced")
    service.fail("a second reason does not count")
    assert await run == 1
    assert "drain a" in notes
    assert service.readiness().detail["failure"] == "the log can't be synced"


async def test_a_failure_may_come_from_any_thread(parts: Parts) -> None:
    service = Service("demo", components=parts())
    run = asyncio.create_task(service.run())
    await service.started.wait()
    thread = threading.Thread(target=service.fail, args=("broken",))
    thread.start()
    assert await run == 1
    thread.join()


async def test_a_failure_before_the_run_starts_nothing(parts: Parts, notes: list[str]) -> None:
    service = Service("demo", components=parts())
    service.fail("broken")
    assert await service.run() == 1
    assert notes == []


async def test_a_run_that_is_cancelled_leaves_nothing_running(
    parts: Parts, notes: list[str]
) -> None:
    service = Service("demo", components=parts())
    run = asyncio.create_task(service.run())
    await service.started.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert notes[3:] == ["stop c", "stop b", "stop a"]


async def test_a_service_runs_once(parts: Parts) -> None:
    service = Service("demo", components=parts())
    await run_and_stop(service)
    with pytest.raises(RuntimeError, match="run already"):
        await service.run()
    with pytest.raises(RuntimeError, match="before"):
        service.add(Part("late", []))


async def test_a_service_is_ready_while_it_runs_and_every_check_is() -> None:
    good, bad = Readiness(ready=True), Readiness(ready=False, detail={"why": "behind"})
    service = Service("demo", checks={"one": lambda: good})
    run = asyncio.create_task(service.run())
    assert not service.readiness().ready
    await service.started.wait()
    assert service.readiness().ready
    service.add_check("two", lambda: bad)
    readiness = service.readiness()
    assert not readiness.ready
    assert readiness.detail["checks"] == {
        "one": {"ready": True},
        "two": {"ready": False, "why": "behind"},
    }
    service.ask_to_stop()
    await run


async def test_a_check_that_raises_is_not_ready_and_harms_nothing(
    logged: pytest.LogCaptureFixture,
) -> None:
    def broken() -> Readiness:
        raise ZeroDivisionError

    readiness = Service("demo", checks={"broken": broken}).readiness()
    assert readiness.detail["checks"] == {"broken": {"ready": False, "error": "ZeroDivisionError"}}
    assert "readiness check failed" in logged.text


def test_a_bad_configuration_exits_2_with_every_problem(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def make() -> Service:
        places = [ConfigProblem(Place("x.yaml", line), "key", "is bad") for line in (1, 2)]
        raise ConfigError(places)

    assert run_service(make) == 2
    assert capsys.readouterr().err == "x.yaml:1: key: is bad\nx.yaml:2: key: is bad\n"


def test_a_service_that_can_not_be_set_up_exits_1(logged: pytest.LogCaptureFixture) -> None:
    def make() -> Service:
        raise StartError("no certificate; run make up")

    assert run_service(make) == 1
    assert "could not be set up: no certificate; run make up" in logged.text


PROGRAM = """
    import asyncio, signal, sys, time
    from aiohttp import web
    from hosting.lifecycle import Service, run_service
    from hosting.logs import configure_logging
    from hosting.units import Address
    from hosting.web import HttpSite

    configure_logging("demo", "info", sys.stdout)

    class Slow:
        name = "slow"
        async def start(self): {start}
        async def drain(self): {drain}
        async def stop(self): pass

    async def hold(request):
        print("holding", flush=True)
        await asyncio.sleep(0.3)
        return web.Response(text="finished")

    def make():
        {make}
        app = web.Application()
        app.router.add_get("/hold", hold)
        site = HttpSite("api", app, Address("127.0.0.1", 0))
        return Service("demo", components=[Slow(), site])

    sys.exit(run_service(make))
"""


class Process:
    """A real process of a small service, and its log lines."""

    def __init__(self, folder: Path, **code: str) -> None:
        code = {"start": "pass", "drain": "pass", "make": "pass"} | code
        program = folder / "service.py"
        program.write_text(textwrap.dedent(PROGRAM).format(**code))
        self.popen = subprocess.Popen(
            [sys.executable, str(program)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def until(self, event: str) -> dict[str, Any]:
        """The line of `event`; the output's end before it is a failure."""
        assert self.popen.stdout is not None
        for line in self.popen.stdout:
            if not line.startswith("{"):
                if line.strip() == event:
                    return {}
                continue
            parsed: dict[str, Any] = json.loads(line)
            if parsed["event"] == event:
                return parsed
        raise AssertionError(f"{event!r} did not come: {self.popen.communicate()[1]}")

    def send(self, number: signal.Signals) -> None:
        self.popen.send_signal(number)

    def end(self) -> int:
        self.popen.communicate(timeout=60)
        return self.popen.returncode


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    processes: list[Process] = []

    def start(**code: str) -> Process:
        processes.append(Process(tmp_path, **code))
        return processes[-1]

    yield start
    for one in processes:
        one.popen.kill()
        one.popen.communicate()


Start = Callable[..., Process]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_a_process_cleanly(number: signal.Signals, process: Start) -> None:
    one = process()
    one.until("started")
    one.send(number)
    assert one.until("stopping")["signal"] == number.name
    one.until("stopped")
    assert one.end() == 0


async def test_a_process_finishes_the_request_that_it_had_accepted(process: Start) -> None:
    one = process()
    port = int((await asyncio.to_thread(one.until, "listening"))["address"].rpartition(":")[2])
    await asyncio.to_thread(one.until, "started")
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /hold HTTP/1.1\r\nHost: x\r\n\r\n")
    await asyncio.to_thread(one.until, "holding")
    one.send(signal.SIGTERM)
    assert (await reader.read()).endswith(b"finished")
    writer.close()
    assert await asyncio.to_thread(one.end) == 0


def test_a_second_interrupt_cuts_the_drain(process: Start) -> None:
    one = process(drain='print("draining", flush=True); await asyncio.Event().wait()')
    one.until("started")
    one.send(signal.SIGINT)
    one.until("draining")
    one.send(signal.SIGINT)
    one.until("drain was cut short")
    assert one.end() == 0


def test_a_supervisors_signal_after_an_interrupt_does_not_cut_the_drain(process: Start) -> None:
    drain = 'print("draining", flush=True); await asyncio.sleep(0.3); print("drained", flush=True)'
    one = process(drain=drain)
    one.until("started")
    one.send(signal.SIGINT)
    one.until("draining")
    one.send(signal.SIGTERM)
    one.until("drained")
    assert one.end() == 0


def test_a_signal_ends_a_start_that_takes_long(process: Start) -> None:
    one = process(start='print("starting", flush=True); await asyncio.Event().wait()')
    one.until("starting")
    one.send(signal.SIGTERM)
    assert one.end() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_the_service_is_being_built_is_not_lost(
    number: signal.Signals, process: Start
) -> None:
    one = process(make='print("building", flush=True); time.sleep(0.3)')
    one.until("building")
    one.send(number)
    assert one.until("stopping")["signal"] == number.name
    assert one.end() == 0


def test_a_process_that_can_not_start_exits_1_with_one_line(process: Start) -> None:
    one = process(start='raise OSError(28, "no space left")')
    line = one.until("slow could not start: [Errno 28] no space left")
    assert (line["level"], "exception" in line) == ("critical", False)
    assert one.end() == 1


def test_a_process_runs_on_uvloop(process: Start) -> None:
    one = process(start="print(type(asyncio.get_running_loop()).__module__, flush=True)")
    one.until("uvloop")
    one.send(signal.SIGTERM)
    assert one.end() == 0


def test_a_service_looks_for_cycles_seldom_and_only_among_what_is_new() -> None:
    code = (
        "import gc, asyncio\n"
        "from hosting.lifecycle import NEW_OBJECTS_MAX, Service, run_service\n"
        "class Look:\n"
        "    name = 'look'\n"
        "    async def start(self):\n"
        "        print(gc.get_threshold()[0] == NEW_OBJECTS_MAX, gc.get_freeze_count() > 1000)\n"
        "        service.ask_to_stop()\n"
        "    async def drain(self): pass\n"
        "    async def stop(self): pass\n"
        "def make():\n"
        "    global service\n"
        "    service = Service('x', components=[Look()])\n"
        "    return service\n"
        "raise SystemExit(run_service(make))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "True True\n"), done.stderr
