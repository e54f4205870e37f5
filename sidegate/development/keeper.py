"""Keeps one service running: starts it, watches it become ready, starts it again when it dies.

A thin shell around `supervisor`'s decisions. Must never know which services there are.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sidegate.development import supervisor
from sidegate.development.console import Console, Event, Lines
from sidegate.development.probe import Probe, Verdict
from sidegate.development.process import LogFile, ServiceProcess

# Between two questions to a service that is starting: far below what a person notices.
ASK_AGAIN_S = 0.05
# Two of these per service are kept: an hour of debug lines under load.
LOG_BYTES_MAX = 16 * 1024 * 1024


class GaveUpError(Exception):
    """The service can't run, and starting it again can't help."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How a service is started."""

    name: str
    command: Sequence[str]
    environ: Mapping[str, str]
    inherited: Sequence[int]
    log: Path
    probe: Probe


class Keeper:
    """One service's life. `run` once, in one event loop; `changed` is called at every change."""

    def __init__(self, launch: Launch, console: Console, changed: Callable[[], None]) -> None:
        self.name = launch.name
        self.state = "waiting"
        self.restarts = 0
        self.was_ready = asyncio.Event()
        self._launch = launch
        self._console = console
        self._changed = changed
        self._since = _now()
        self._deaths = 0
        self._log_failed = False
        self._ready_at_s: float | None = None
        self._process: ServiceProcess | None = None
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """Keep the service running until `stop`. Raises GaveUpError when it never can."""
        with closing(LogFile(self._launch.log, LOG_BYTES_MAX)) as log:
            while True:
                exit_code = await self._run_once(log)
                if self._stopping.is_set():
                    self._set("stopped")
                    return
                delay_s = self._after_death(exit_code)
                try:
                    async with asyncio.timeout(delay_s):
                        await self._stopping.wait()
                except TimeoutError:
                    continue
                self._set("stopped")
                return

    def stop(self) -> None:
        """Ask the service to end, and let it stay ended."""
        self._stopping.set()
        if self._process is not None:
            self._process.send(signal.SIGTERM)

    def kill(self) -> None:
        """End the service at once."""
        self._stopping.set()
        if self._process is not None:
            self._process.send(signal.SIGKILL)

    async def ask(self) -> Verdict:
        """Whether the service is ready now."""
        return await asyncio.to_thread(self._launch.probe.ask)

    def record(self) -> dict[str, Any]:
        """What `sidegate status` needs to know."""
        return {
            "state": self.state,
            "pid": self._process.pid if self._process is not None else None,
            "since": self._since,
            "restarts": self.restarts,
            "health": self._launch.probe.url,
            "log": str(self._launch.log),
        }

    async def _run_once(self, log: LogFile) -> int:
        lines = Lines(lambda line: self._console.log_line(self.name, line))

        def output(piece: bytes) -> None:
            self._keep_output(log, piece)
            lines.feed(piece)

        self._ready_at_s = None
        self._process = await ServiceProcess.start(
            self._launch.command,
            environ=self._launch.environ,
            inherited=self._launch.inherited,
            output=output,
        )
        if self._stopping.is_set():
            self._process.send(signal.SIGTERM)
        self._set("starting")
        watching = asyncio.create_task(self._watch(self._process.pid))
        try:
            exit_code = await self._process.wait()
        finally:
            self._process = None
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        lines.end()
        return exit_code

    def _keep_output(self, log: LogFile, piece: bytes) -> None:
        """A full disk costs the log's lines, never the service: its pipe must be read."""
        try:
            log.write(piece)
        except OSError as error:
            if not self._log_failed:
                text = f"its log {self._launch.log} can't be written: {error.strerror}"
                self._console.show(Event("log_failed", text, self.name, "warning"))
            self._log_failed = True
        else:
            self._log_failed = False

    async def _watch(self, pid: int) -> None:
        """Note when the fresh process has become ready."""
        while not (await self.ask()).ready:  # noqa: ASYNC110 - another process's state has no event
            await asyncio.sleep(ASK_AGAIN_S)
        self._ready_at_s = asyncio.get_running_loop().time()
        self._set("ready")
        if self.was_ready.is_set():
            self._console.show(Event("restarted", "runs again", self.name, facts={"pid": pid}))
        self.was_ready.set()

    def _after_death(self, exit_code: int) -> float:
        healthy_s = 0.0
        if self._ready_at_s is not None:
            healthy_s = asyncio.get_running_loop().time() - self._ready_at_s
        decision = supervisor.after_death(
            exit_code,
            deaths=self._deaths,
            healthy_s=healthy_s,
            was_ready=self.was_ready.is_set(),
        )
        ended = supervisor.how_it_ended(exit_code)
        if isinstance(decision, supervisor.GiveUp):
            self._set("stopped")
            raise GaveUpError(f"{self.name} {ended}: {decision.reason}")
        self._deaths = decision.deaths
        self.restarts += 1
        self._set("restarting")
        text = f"{ended}; starts again in {decision.delay_s * 1000:.0f} ms"
        facts = {"exit_code": exit_code, "delay_s": decision.delay_s}
        self._console.show(
            Event("died", f"{text}; its log is {self._launch.log}", self.name, "error", facts)
        )
        return decision.delay_s

    def _set(self, state: str) -> None:
        self.state = state
        self._since = _now()
        self._changed()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
