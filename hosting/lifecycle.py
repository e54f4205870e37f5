"""The life of a service: ordered start, readiness, drain, stop.

Components start in the order given and are drained and stopped in the reverse of it, so that a
component may rely on those before it from its start to its stop. Standard library and uvloop.
Must never know what a component does.
"""

import asyncio
import gc
import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from hosting.config import ConfigError
from hosting.phases import Event, Phase, next_phase

log = logging.getLogger("sidegate.hosting")

DRAIN_S_MAX: Final = 4.0
"""Ctrl-C has to end everything within 5 s; the last second is for stopping."""
NEW_OBJECTS_MAX: Final = 20_000
"""Objects between two looks for cycles: at most a few megabytes of garbage."""
GRACE_S: Final = 0.1
"""What a component gets for its drain when others have used up the time, and what one gets that
was cancelled and has to clean up."""
STOP_S_MAX: Final = 10.0
"""Per component. Only a stop that hangs comes near it; a last fsync on a slow disk does not."""
EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_CONFIG: Final = 2
EXIT_INTERRUPTED: Final = 130
_STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class StartError(Exception):
    """A failure whose message says it all: shown as one line, without a traceback."""


class Component(Protocol):
    """A part of a service with a life of its own. Each method is called at most once."""

    @property
    def name(self) -> str:
        """What log lines call it."""

    async def start(self) -> None:
        """Begin. When this returns, the component does its work.

        One that fails, or is cancelled by a signal, leaves nothing behind: its `stop` is not
        called.
        """

    async def drain(self) -> None:
        """Refuse new work and finish what was accepted. Cancelled when the time is up."""

    async def stop(self) -> None:
        """End at once, and give everything back. Called also after a drain that was cut."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether one thing can do its work now, and what is worth knowing about it."""

    ready: bool
    detail: Mapping[str, object] = field(default_factory=dict)


Check = Callable[[], Readiness]


class Service:
    """One process's components, run as one. `run` may be called once.

    `fail` may be called from any thread; everything else belongs to the event loop.
    """

    def __init__(
        self,
        name: str,
        *,
        components: Sequence[Component] = (),
        checks: Mapping[str, Check] | None = None,
        drain_s_max: float = DRAIN_S_MAX,
    ) -> None:
        self.name = name
        self.phase = Phase.NEW
        self.started = asyncio.Event()
        """Set when every component has started."""
        self._components = list(components)
        self._checks = dict(checks or {})
        self._drain_s_max = drain_s_max
        self._stop_asked = asyncio.Event()
        self._drain_cut = asyncio.Event()
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._failure: str | None = None

    def add(self, component: Component) -> None:
        """Another component, to be started after those before it. Only before `run`."""
        if self.phase is not Phase.NEW:
            raise RuntimeError(f"{self.name} runs already; add {component.name} before")
        self._components.append(component)

    def add_check(self, name: str, check: Check) -> None:
        """Another readiness check."""
        self._checks[name] = check

    def fail(self, reason: str) -> None:
        """Drain, stop and exit 1, because `reason` leaves no way to go on. The first one counts."""
        with self._lock:
            if self._failure is not None:
                return
            self._failure = reason
            loop = self._loop
        log.critical("service failed", extra={"fields": {"reason": reason}})
        if loop is not None:
            loop.call_soon_threadsafe(self._stop_asked.set)

    def ask_to_stop(self) -> None:
        """Begin the drain, as SIGTERM does."""
        self._stop_asked.set()

    def readiness(self) -> Readiness:
        """Ready only while running and while every check is. A check that raises is not."""
        results = {name: _checked(name, check) for name, check in self._checks.items()}
        ready = self.phase is Phase.RUNNING and all(one.ready for one in results.values())
        checks = {name: {"ready": one.ready, **one.detail} for name, one in results.items()}
        detail: dict[str, object] = {"service": self.name, "phase": self.phase.value}
        if self._failure is not None:
            detail["failure"] = self._failure
        return Readiness(ready, {**detail, "checks": checks})

    async def run(self) -> int:
        """Start, serve until asked to stop, drain, stop. The exit code."""
        if self.phase is not Phase.NEW:
            raise RuntimeError(f"{self.name} has run already; make a new service")
        loop = asyncio.get_running_loop()
        with self._lock:
            self._loop = loop
            if self._failure is not None:
                self._stop_asked.set()
        started: list[Component] = []
        clean = False
        self._move(Event.BEGIN)
        with _Signals(loop, self._on_signal):
            try:
                whole = await self._serve(started)
            finally:
                # Also where `run` itself is cancelled: nothing that was started stays behind.
                self._move(Event.STOP_ASKED)
                self._move(Event.DRAINED)
                clean = await self._stop_all(started)
                self._move(Event.ENDED)
        log.info("stopped")
        return EXIT_OK if whole and clean and self._failure is None else EXIT_FAILED

    async def _serve(self, started: list[Component]) -> bool:
        """From the first start to the last drain. False if a component could not start."""
        began = time.monotonic()
        for component in self._components:
            if self._stop_asked.is_set():
                return True
            outcome = await self._start(component)
            if outcome is None:
                started.append(component)
            elif isinstance(outcome, Exception) or not self._stop_asked.is_set():
                report_failure(f"{component.name} could not start", outcome)
                return False
        if self._stop_asked.is_set():
            return True
        self._move(Event.STARTED)
        self.started.set()
        log.info("started", extra={"fields": {"seconds": round(time.monotonic() - began, 3)}})
        await self._stop_asked.wait()
        self._move(Event.STOP_ASKED)
        await self._drain_all(started)
        return True

    async def _start(self, component: Component) -> BaseException | None:
        """None when started; the error; or CancelledError when a signal came first."""
        return await _until(component.start(), self._stop_asked, None)

    async def _drain_all(self, started: Sequence[Component]) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._drain_s_max
        for component in reversed(started):
            left = max(deadline - loop.time(), GRACE_S)
            outcome = await _until(component.drain(), self._drain_cut, left)
            fields = {"component": component.name, "drain_s_max": self._drain_s_max}
            if isinstance(outcome, asyncio.CancelledError):
                log.warning("drain was cut short", extra={"fields": fields})
            elif outcome is not None:
                log.error("drain failed", exc_info=outcome, extra={"fields": fields})

    async def _stop_all(self, started: Sequence[Component]) -> bool:
        clean = True
        for component in reversed(started):
            outcome = await _until(component.stop(), asyncio.Event(), STOP_S_MAX)
            fields = {"component": component.name, "stop_s_max": STOP_S_MAX}
            if isinstance(outcome, asyncio.CancelledError):
                log.error("stop took too long", extra={"fields": fields})
            elif outcome is not None:
                log.error("stop failed", exc_info=outcome, extra={"fields": fields})
            clean = clean and outcome is None
        return clean

    def _move(self, event: Event) -> None:
        self.phase = next_phase(self.phase, event)

    def _on_signal(self, number: signal.Signals) -> None:
        if not self._stop_asked.is_set():
            log.info("stopping", extra={"fields": {"signal": number.name}})
            self._stop_asked.set()
        elif number is signal.SIGINT:
            # A terminal's Ctrl-C and a supervisor's SIGTERM often come together; only a second
            # Ctrl-C is somebody who does not want to wait.
            self._drain_cut.set()


async def _until(
    work: Coroutine[object, object, None], event: asyncio.Event, seconds: float | None
) -> BaseException | None:
    """Do `work` until it ends, `event` is set or time is up. None, its error, or CancelledError.

    Work that does not heed its cancellation is left behind after GRACE_S.
    """
    task = asyncio.ensure_future(work)
    watch = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait({task, watch}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        watch.cancel()
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=GRACE_S)
    if not task.done() or task.cancelled():
        return asyncio.CancelledError()
    return task.exception()


def _checked(name: str, check: Check) -> Readiness:
    try:
        return check()
    except Exception as error:
        log.exception("readiness check failed", extra={"fields": {"check": name}})
        return Readiness(ready=False, detail={"error": type(error).__name__})


class _Signals:
    """SIGTERM and SIGINT go to `receive` meanwhile. Only a main thread can take them."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, receive: Callable[[signal.Signals], None]
    ) -> None:
        self._loop = loop
        self._receive = receive
        self._takes = threading.current_thread() is threading.main_thread()

    def __enter__(self) -> None:
        for number in _STOP_SIGNALS if self._takes else ():
            self._loop.add_signal_handler(number, self._receive, number)

    def __exit__(self, *_: object) -> None:
        for number in _STOP_SIGNALS if self._takes else ():
            self._loop.remove_signal_handler(number)


def _keep(_: signal.Signals) -> None:
    """Stands in while the service is being built, which blocks the loop: the loop looks up who
    takes a signal when it delivers it, and by then `Service.run` has taken this one's place."""


def report_failure(what: str, error: BaseException) -> None:
    """One line for an error that explains itself; a traceback too for any other."""
    explains_itself = isinstance(error, StartError | OSError)
    log.critical(f"{what}: {error}", exc_info=None if explains_itself else error)


def run_service(make: Callable[[], Service]) -> int:
    """Build the service inside the event loop, run it, and return the process's exit code."""

    async def main() -> int:
        with _Signals(asyncio.get_running_loop(), _keep):
            try:
                service = make()
            except ConfigError as error:
                sys.stderr.write(f"{error}\n")
                return EXIT_CONFIG
            except Exception as error:  # noqa: BLE001 - the process ends here, with the cause
                report_failure("the service could not be set up", error)
                return EXIT_FAILED
            _leave_to_live()
            return await service.run()

    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            return runner.run(main())
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _leave_to_live() -> None:
    """Let the collector of cycles look at what is new, and that less often.

    What a service is built of stays until its end, and requests leave few cycles: looking for them
    every 700 objects, the interpreter's default, makes the slowest answers twice as slow.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS_MAX, *gc.get_threshold()[1:])


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's where it is installed (Linux and macOS), else the standard library's."""
    try:
        import uvloop  # noqa: PLC0415 - reading a configuration needs no event loop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
