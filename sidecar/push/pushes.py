"""Carries out the owner's push subscriptions: watches the definitions, runs a worker for each.

Every sidecar of an owner does this and joins each subscription as a member, so that they share
the work; which message goes to which of them is the log's decision. A worker that ends is begun
again after a wait.
"""

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from sidecar.errors import SidecarError, UnknownSubscription
from sidecar.push.push_plan import Plan, Tally, plan_of
from sidecar.push.push_worker import PushWorker
from sidecar.push.reruns import parent_of
from sidecar.push.subscription_wire import SubscriptionWire
from sidecar.uplink.backoff import Backoff

log = logging.getLogger("sidegate.sidecar")

AGAIN: Final = Backoff(first_s=0.5, max_s=15.0)
"""Before definitions are asked for again, and before a worker that ended is begun again."""
FINISH_LOOK_S: Final = 1.0
"""How often a rerun looks whether it has reached its end."""

MakeWorker = Callable[[Plan], PushWorker]


@dataclass(slots=True)
class Running:
    """One subscription that is carried out, and why it is not if it is not."""

    plan: Plan
    definition: dict[str, Any]
    task: asyncio.Task[None] | None = None
    worker: PushWorker | None = None
    error: str | None = None
    tally: Tally = field(default_factory=Tally)
    """Of workers that have ended."""


class Pushes:
    """A hosting component. Belongs to the event loop."""

    name = "pushes"

    def __init__(self, wire: SubscriptionWire, make_worker: MakeWorker) -> None:
        self._wire = wire
        self._make_worker = make_worker
        self._watching: asyncio.Task[None] | None = None
        self.running: dict[str, Running] = {}
        self.known: list[dict[str, Any]] = []
        """The owner's definitions as they were when a gatekeeper last told them."""
        self.error: str | None = None
        self._totals = Tally()

    async def start(self) -> None:
        """Begin to watch."""
        self._watching = asyncio.create_task(self._watch(), name="watch push subscriptions")

    async def drain(self) -> None:
        """Stop taking messages; what is on its way arrives, and is acknowledged."""
        if self._watching is not None:
            self._watching.cancel()
        await asyncio.gather(*(self._stop(name) for name in list(self.running)))

    async def stop(self) -> None:
        """End the rest."""
        tasks = [each.task for each in self.running.values() if each.task is not None]
        if self._watching is not None:
            tasks.append(self._watching)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def tally(self) -> Tally:
        """What all workers have counted, those that have ended included."""
        total = Tally()
        parts = [self._totals]
        for running in self.running.values():
            parts.append(running.tally)
            if running.worker is not None:
                parts.append(running.worker.tally)
        for part in parts:
            total.add(part)
        return total

    async def _watch(self) -> None:
        version, failures = -1, 0
        while True:
            try:
                found = await (self._wire.list() if version < 0 else self._wire.changes(version))
                version = int(found["version"])
                self.known = found["subscriptions"]
                self.error = None
                failures = 0
                await self._take(found["subscriptions"])
            except (SidecarError, KeyError, TypeError, ValueError) as error:
                if failures == 0:
                    fields = {"reason": str(error)}
                    log.info("push subscriptions not known", extra={"fields": fields})
                self.error = str(error)
                failures += 1
                await asyncio.sleep(AGAIN.delay_s(failures, 0.5 + random.random() / 2))  # noqa: S311

    async def _take(self, definitions: list[dict[str, Any]]) -> None:
        names = {None, *(each["name"] for each in definitions)}
        orphans = [each["name"] for each in definitions if parent_of(each) not in names]
        wanted: dict[str, dict[str, Any]] = {
            each["name"]: each
            for each in definitions
            if each.get("push") and each["name"] not in orphans
        }
        gone = [
            name
            for name, running in self.running.items()
            if name not in wanted or _essence(wanted[name]) != _essence(running.definition)
        ]
        await asyncio.gather(*(self._stop(name) for name in gone))
        for name, definition in wanted.items():
            if name in self.running:
                self.running[name].definition = definition
            else:
                self._begin(definition)
        for name in orphans:
            # A rerun ends with the subscription that it is for.
            with contextlib.suppress(SidecarError):
                await self._wire.delete(name)

    def _begin(self, definition: dict[str, Any]) -> None:
        name = definition["name"]
        try:
            plan = plan_of(definition)
        except SidecarError as error:
            fields = {"subscription": name, "reason": str(error)}
            log.warning("a push subscription is not understood", extra={"fields": fields})
            return
        running = Running(plan, definition)
        running.task = asyncio.create_task(self._carry_out(running), name=f"push {name}")
        self.running[name] = running

    async def _stop(self, name: str) -> None:
        running = self.running[name]
        if running.task is not None:
            running.task.cancel()
            await asyncio.gather(running.task, return_exceptions=True)
        if self.running.pop(name, None) is None:
            return
        self._totals.add(running.tally)
        if running.worker is not None:
            self._totals.add(running.worker.tally)

    async def _carry_out(self, running: Running) -> None:
        """Run a worker, again and again, until the definition is gone or changed."""
        failures = 0
        while True:
            running.worker = self._make_worker(running.plan)
            finishing = self._finishing(running.plan)
            began_s = time.monotonic()
            try:
                await running.worker.run()
            except SidecarError as error:
                running.error = str(error)
                fields = {"subscription": running.plan.name, "reason": str(error)}
                log.info("push ended; it begins again", extra={"fields": fields})
            except Exception as error:
                # A defect of ours must not end one subscription's deliveries in silence.
                running.error = f"internal error: {type(error).__name__}"
                log.exception("push failed", extra={"fields": {"subscription": running.plan.name}})
            finally:
                if finishing is not None:
                    finishing.cancel()
            running.tally.add(running.worker.tally)
            running.worker = None
            failures = 1 if time.monotonic() - began_s > AGAIN.max_s else failures + 1
            await asyncio.sleep(AGAIN.delay_s(failures, 0.5 + random.random() / 2))  # noqa: S311

    def _finishing(self, plan: Plan) -> asyncio.Task[None] | None:
        if plan.settings.rerun is None:
            return None
        return asyncio.create_task(self._finish(plan), name=f"finish {plan.name}")

    async def _finish(self, plan: Plan) -> None:
        """Delete a rerun once everything up to its end is done."""
        while True:
            with contextlib.suppress(SidecarError, KeyError, TypeError, ValueError):
                if await self._is_finished(plan):
                    await self._wire.delete(plan.name)
                    fields = {"subscription": plan.name}
                    log.info("a rerun is complete", extra={"fields": fields})
                    return
            await asyncio.sleep(FINISH_LOOK_S)

    async def _is_finished(self, plan: Plan) -> bool:
        try:
            found = await self._wire.get(plan.name)
        except UnknownSubscription:
            return False
        until = {} if plan.settings.rerun is None else plan.settings.rerun.until
        return all(
            int(row["low"]) >= until.get(str(row["partition"]), 0) for row in found["cursors"]
        )


def _essence(definition: dict[str, Any]) -> tuple[object, ...]:
    """What a worker depends on. A pause or a seek reaches it through its session, and how far
    letters were put back is nothing to it."""
    names = ("topic", "mode", "lease_ms", "created_us")
    settings = dict(definition.get("settings") or {})
    settings.pop("redriven", None)
    return settings, *(definition.get(name) for name in names)
