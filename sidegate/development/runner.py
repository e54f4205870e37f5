"""Runs the development mesh: starts the services in order, keeps them alive, stops them all.

It reads from the state folder how each service is configured, and must never import one of them:
they are processes of their own, here as in production.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterable
from datetime import UTC, datetime
from typing import Any

from sidegate.development import ca, probe, supervisor
from sidegate.development.addresses import (
    CORE_HEALTH,
    GATEKEEPER_HEALTH,
    ISSUER,
    SIDECAR,
    SIDECAR_TCP,
    Addresses,
    reachable,
    variables,
)
from sidegate.development.console import Console, Event
from sidegate.development.keeper import ASK_AGAIN_S, Keeper, Launch
from sidegate.development.running import BusyError, Running
from sidegate.development.state import State, StateError
from sidegate.public_keys import KeyProblem

# Each service needs those of the waves before it to be of use; so they start one after the other
# and stop the other way round.
WAVES = (("core", "issuer"), ("gatekeeper",), ("sidecar",))
# When a start takes this long, say what it waits for; and again each time as much has passed.
IMPATIENT_S = 5.0
# Certificates live for weeks; a mesh that is left running renews them in time.
RENEW_EVERY_S = 3600.0


STOP_SIGNALS = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})


def hold_signals() -> None:
    """Let signals wait until `Mesh.run` can take them: none may hit a half-made event loop."""
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)


class Mesh:
    """The four services of one state folder. `run` once; belongs to one event loop."""

    def __init__(
        self, state: State, where: Addresses, console: Console, running: Running, lock: int
    ) -> None:
        self._state = state
        self._where = where
        self._console = console
        self._running = running
        self._keepers = {
            name: Keeper(self._launch(name, lock), console, self._write_record)
            for wave in WAVES
            for name in wave
        }
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._stopping = asyncio.Event()
        self._hurrying = asyncio.Event()
        self._ready = False
        self._asked_at_s: float | None = None
        self._started = datetime.now(UTC).isoformat(timespec="milliseconds")

    @property
    def url(self) -> str:
        """Where apps find the sidecar."""
        return f"http://{reachable(self._where[SIDECAR])}"

    @property
    def tcp(self) -> str | None:
        """Where apps find its TCP port, as `host:port`."""
        address = self._where.get(SIDECAR_TCP)
        return None if address is None else reachable(address)

    async def run(self, when_ready: Callable[[], None]) -> int:
        """Start everything, call `when_ready`, keep it running until asked to stop; exit code."""
        for number in STOP_SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, self._asked_to_stop, number)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        self._console.show(
            Event("starting", f"Sidegate starts; its state is in {self._state.root}.")
        )
        renewing = asyncio.create_task(self._renew_certificates())
        renewing.add_done_callback(self._task_ended)
        try:
            if await self._start():
                self._ready = True
                self._write_record()
                when_ready()
            await self._stopping.wait()
            killed = await self._stop()
        finally:
            renewing.cancel()
            results = await asyncio.gather(renewing, *self._tasks.values(), return_exceptions=True)
        failures = [result for result in results if isinstance(result, Exception)]
        for failure in failures:
            self._console.show(Event("failed", str(failure), level="error"))
        return 1 if killed or failures else 0

    async def _start(self) -> bool:
        for wave in WAVES:
            for name in wave:
                task = asyncio.create_task(self._keepers[name].run(), name=name)
                task.add_done_callback(self._task_ended)
                self._tasks[name] = task
            for name in wave:
                if not await self._unless_stopping(self._until_ready(self._keepers[name])):
                    return False
            if "core" in wave:
                await asyncio.to_thread(self._write_public_keys)
        return await self._unless_stopping(self._until_through())

    def _write_public_keys(self) -> None:
        """Only a log that exists has a name, and its key is named as the log is."""
        try:
            if not self._state.write_public_keys():
                self._warn(
                    "core.pub was of another log and is written anew. The gatekeeper remembers "
                    "that log and will raise an alarm; `make reset` forgets both."
                )
        except (KeyProblem, OSError) as error:
            self._warn(f"Public keys could not be written, so proofs can't be checked: {error}")

    async def _until_ready(self, keeper: Keeper) -> None:
        began_s = asyncio.get_running_loop().time()
        while True:
            try:
                async with asyncio.timeout(IMPATIENT_S):
                    await keeper.was_ready.wait()
                    return
            except TimeoutError:
                verdict = await keeper.ask()
                self._say_waiting(f"{keeper.name}: {verdict.reason}", began_s)

    async def _until_through(self) -> None:
        began_s = told_s = asyncio.get_running_loop().time()
        while not (verdict := await asyncio.to_thread(probe.way_through, self.url)).ready:
            if asyncio.get_running_loop().time() - told_s > IMPATIENT_S:
                told_s = asyncio.get_running_loop().time()
                self._say_waiting(verdict.reason, began_s)
            await asyncio.sleep(ASK_AGAIN_S)

    async def _unless_stopping(self, waiting: Coroutine[Any, Any, None]) -> bool:
        """True once `waiting` is over, False when the mesh is to stop before."""
        task = asyncio.create_task(waiting)
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if self._stopping.is_set():
                return False
            await task
            return True
        finally:
            for one in (task, stopping):
                one.cancel()
            await asyncio.gather(task, stopping, return_exceptions=True)

    async def _stop(self) -> list[str]:
        """Stop front to back. Whoever does not end in time is killed; the names of those."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + supervisor.STOP_S_MAX
        self._console.show(Event("stopping", "Stopping."))
        for wave in reversed(WAVES):
            for name in wave:
                self._keepers[name].stop()
            wave_ends_s = min(deadline_s, loop.time() + supervisor.STOP_WAVE_S_MAX)
            await self._until_ended(wave, wave_ends_s)
        await self._until_ended(self._tasks, deadline_s)
        killed = [name for name, task in self._tasks.items() if not task.done()]
        for name in killed:
            self._keepers[name].kill()
            self._console.show(Event("killed", "did not stop in time", name, "error"))
        return killed

    async def _until_ended(self, names: Iterable[str], deadline_s: float) -> None:
        """Wait for services to end, but not past the deadline, nor for an impatient user."""
        hurrying = asyncio.create_task(self._hurrying.wait())
        try:
            while running := {self._tasks[n] for n in names if n in self._tasks} - self._ended():
                left_s = deadline_s - asyncio.get_running_loop().time()
                if left_s <= 0 or self._hurrying.is_set():
                    return
                await asyncio.wait(
                    {*running, hurrying}, timeout=left_s, return_when=asyncio.FIRST_COMPLETED
                )
        finally:
            hurrying.cancel()

    def _ended(self) -> set[asyncio.Task[None]]:
        return {task for task in self._tasks.values() if task.done()}

    async def _renew_certificates(self) -> None:
        while True:
            await asyncio.sleep(RENEW_EVERY_S)
            try:
                renewed = await asyncio.to_thread(self._make_certificates)
            except (OSError, StateError, BusyError) as error:
                # There are days left; the next hour may find room on the disk.
                self._warn(f"Certificates could not be renewed: {error}")
                continue
            if renewed:
                text = f"Renewed certificates: {', '.join(renewed)}."
                self._console.show(Event("renewed", text, facts={"names": renewed}))

    def _make_certificates(self) -> list[str]:
        with self._running.changing():
            return self._state.make_certificates(ca.utc_now())

    def _asked_to_stop(self, number: signal.Signals) -> None:
        now_s = asyncio.get_running_loop().time()
        if self._asked_at_s is None:
            self._asked_at_s = now_s
            self._stopping.set()
        elif supervisor.is_impatient(number, now_s - self._asked_at_s):
            self._hurrying.set()

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        """A task that fails while the mesh runs ends the mesh; `run` reports why."""
        if not task.cancelled() and task.exception() is not None:
            self._stopping.set()

    def _say_waiting(self, reason: str, began_s: float) -> None:
        waited_s = asyncio.get_running_loop().time() - began_s
        text = f"Still waiting after {waited_s:.0f} s. {reason}"
        self._console.show(Event("waiting", text, level="warning"))

    def _write_record(self) -> None:
        record = {
            "pid": os.getpid(),
            "started": self._started,
            "ready": self._ready,
            "url": self.url,
            "addresses": variables(self._where),
            "services": {name: keeper.record() for name, keeper in self._keepers.items()},
        }
        try:
            self._running.write_record(record)
        except OSError as error:
            # `sidegate status` will be out of date; the mesh itself does not need the record.
            self._warn(f"What runs could not be written down: {error}")

    def _warn(self, text: str) -> None:
        self._console.show(Event("warning", text, level="warning"))

    def _launch(self, name: str, lock: int) -> Launch:
        command = [sys.executable, "-P", "-m", "sidegate", name]
        return Launch(
            name=name,
            command=[*command, "--config", str(self._state.config(name)), "--stop-with-stdin"],
            environ={**os.environ, **variables(self._where)},
            inherited=[lock],
            log=self._state.run / f"{name}.log",
            probe=self._probe(name),
        )

    def _probe(self, name: str) -> probe.Probe:
        match name:
            case "core":
                return probe.Probe(f"http://{reachable(self._where[CORE_HEALTH])}")
            case "gatekeeper":
                return probe.Probe(f"http://{reachable(self._where[GATEKEEPER_HEALTH])}")
            case "issuer":
                return probe.Probe(f"https://{reachable(self._where[ISSUER])}", self._state.ca)
            case _:
                return probe.Probe(self.url)
