"""The cleaner's timer: applies every topic's retention, again and again, in a thread."""

import asyncio
import logging

from core_log.storage import Storage

log = logging.getLogger("sidegate.core")


class Cleaning:
    """A component that cleans every `interval_s` seconds, one pass at a time."""

    name = "cleaning"

    def __init__(self, storage: Storage, interval_s: float) -> None:
        self._storage = storage
        self._interval_s = interval_s
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin; the first pass comes after one interval."""
        self._task = asyncio.create_task(self._run(), name="cleaning")

    async def drain(self) -> None:
        """Begin no further pass."""
        self._stopping.set()

    async def stop(self) -> None:
        """Wait for the pass that runs: the log must not be closed under it."""
        self._stopping.set()
        if self._task is not None:
            await self._task

    async def clean(self) -> None:
        """One pass over the main log and the control log."""
        report = await self._storage.disk.clean(self._storage.catalog.retention())
        await self._storage.control.clean()
        if report.segments_rewritten or report.bytes_freed:
            fields = {
                "segments_rewritten": report.segments_rewritten,
                "bodies_removed": report.bodies_removed,
                "bytes_freed": report.bytes_freed,
            }
            log.info("cleaned", extra={"fields": fields})
        for note in report.notes:
            log.warning("cleaning note", extra={"fields": {"note": note}})

    async def _run(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._interval_s):
                    await self._stopping.wait()
            except TimeoutError:
                pass
            else:
                return
            try:
                await self.clean()
            except Exception:
                # Retention that lags harms nobody at once; the next pass tries again.
                log.exception("cleaning failed")
