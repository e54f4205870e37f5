"""The core's storage as a component: opens the control log, the main log and that of cursors.

What is above it (routes, timers) starts after it and stops before it.
"""

import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import asdict
from typing import Final

from core_log.api.streams import Broadcast
from core_log.clock import Clock
from core_log.config import CoreConfig
from core_log.control.catalog import Catalog, Engines
from core_log.control.control import ControlDamaged, ControlLog
from core_log.control.control_state import BadRecord
from core_log.control.memory_topics import MemoryTopics
from core_log.log.embedded import EmbeddedEngine
from core_log.log.files import Files
from core_log.log.log_errors import LogError
from core_log.log.results import RecoveryReport
from core_log.subscriptions.cursor_log import CursorLog, CursorsDamaged
from core_log.subscriptions.subscribing import Subscribing
from hosting.lifecycle import Readiness, StartError

log = logging.getLogger("sidegate.core")

CONTROL_FOLDER: Final = "control"
CURSORS_FOLDER: Final = "cursors"


class Storage:
    """Everything that is kept. Its parts exist from `start` on."""

    name = "storage"

    control: ControlLog
    disk: EmbeddedEngine
    memory: MemoryTopics
    catalog: Catalog
    broadcast: Broadcast
    cursors: CursorLog
    subscribing: Subscribing

    def __init__(
        self,
        config: CoreConfig,
        *,
        clock: Clock,
        files: Files,
        on_failure: Callable[[Exception], None],
    ) -> None:
        self._config = config
        self._clock = clock
        self._files = files
        self._on_failure = on_failure
        self._open: list[ControlLog | EmbeddedEngine | CursorLog] = []
        self._began = False

    async def start(self) -> None:
        """Open the logs, recover what there is, and make the system's topics."""
        try:
            await self._start()
        except (LogError, ControlDamaged, CursorsDamaged, BadRecord) as error:
            await self.stop()
            raise StartError(f"the log in {self._config.data} can't be opened: {error}") from error
        except BaseException:
            await self.stop()
            raise

    async def drain(self) -> None:
        """Nothing to do: what was accepted is finished by whoever accepted it."""

    async def stop(self) -> None:
        """Close the logs, the main one first; also the second where the first one fails."""
        if self._began:
            self.subscribing.close()
        self._began = False
        async with AsyncExitStack() as stack:
            for each in self._open:
                stack.push_async_callback(each.close)
            self._open = []

    def readiness(self) -> Readiness:
        """Ready while batches can be appended."""
        if not self._began:
            return Readiness(ready=False, detail={"state": "opening"})
        status = self.disk.status()
        return Readiness(
            ready=not (status.failed or status.disk_full),
            detail={
                "leaves": status.leaves,
                "disk_full": status.disk_full,
                "failed": status.failed,
                "free_bytes": status.free_bytes,
                "lost_leaves": status.lost_leaves,
                "topics": len(self.catalog),
            },
        )

    async def _start(self) -> None:
        data = self._config.data
        self.control = await ControlLog.open(
            data / CONTROL_FOLDER,
            on_failure=self._on_failure,
            clock=self._clock,
            files=self._files,
        )
        self._open.append(self.control)
        self.disk = await EmbeddedEngine.open(
            data,
            self._config.log.options(),
            on_failure=self._on_failure,
            clock=self._clock,
            files=self._files,
        )
        self._open.append(self.disk)
        self.memory = MemoryTopics(
            tail_bytes_max=self._config.limits.memory_topic_bytes, clock=self._clock
        )
        self.broadcast = Broadcast()
        self.disk.tail(self.broadcast.publish)
        self.memory.tail(self.broadcast.publish)
        self.catalog = Catalog(
            self.control,
            Engines(self.disk, self.memory),
            auto_create=self._config.auto_create_topics,
            clock=self._clock,
        )
        await self.catalog.prepare()
        self.cursors = await CursorLog.open(
            data / CURSORS_FOLDER,
            on_failure=self._on_failure,
            clock=self._clock,
            files=self._files,
        )
        self._open.append(self.cursors)
        self.subscribing = Subscribing(
            self.control, self.catalog, self.cursors, self.broadcast, clock=self._clock
        )
        self._began = True
        _report(self.disk.log.recovery)


def _report(recovery: RecoveryReport) -> None:
    """Tell the operator what opening the main log found."""
    fields = {
        "clean": recovery.clean,
        "scanned_bytes": recovery.scanned_bytes,
        "seconds": round(recovery.seconds, 3),
        "cuts": len(recovery.cuts),
        "quarantined": len(recovery.quarantined),
    }
    log.info("log opened", extra={"fields": fields})
    for note in recovery.notes:
        log.warning("recovery note", extra={"fields": {"note": note}})
    for lost in recovery.lost:
        known = {name: value for name, value in asdict(lost).items() if value is not None}
        log.error("messages lost to damage; run `sidegate log verify`", extra={"fields": known})
