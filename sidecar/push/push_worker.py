"""One push subscription carried out by this sidecar: from the member's session to the app.

Takes what the log gives this member, lets `push_queue.py` decide what goes out, sends, and says
back what became of it. It is the thin part: it awaits and writes. What is in hand is bounded; a
member that holds too much simply asks for no more.
"""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from log_format.errors import FormatError
from log_format.frame import Frame
from sidecar.delivery.ack_book import AckBook
from sidecar.delivery.holdings import Delivery, Hold
from sidecar.delivery.member import MemberSession, Paused, Revoked
from sidecar.delivery.offset_set import OffsetSet
from sidecar.delivery.record import Record, records_of
from sidecar.delivery.tries import Try, bounded, tries_not_told
from sidecar.errors import GatekeeperRefused, SidecarError
from sidecar.publish.message import Message
from sidecar.push.dead_letter import Undelivered, dead_letter, is_letter_of, original_of
from sidecar.push.parcel import Effect, Parcel, State
from sidecar.push.push_plan import Plan, Tally
from sidecar.push.push_queue import PushQueue, Verdict
from sidecar.push.push_settings import Push
from sidecar.push.webhook_request import (
    Occasion,
    delivery_body,
    delivery_headers,
    signature_headers,
)
from sidecar.push.webhook_secrets import SecretUnusable

log = logging.getLogger("sidegate.sidecar")

ACK_S: Final = 0.01
"""Acknowledgements that become due within this time travel together."""
LOOK_S: Final = 0.5
"""How often a member that holds too much looks whether its holds are still its own."""
LEAVE_S_MAX: Final = 1.5
"""For what is on its way when the sidecar stops."""

Send = Callable[[Record, Push, dict[str, str], bytes], Awaitable[Verdict]]
Bury = Callable[[Message], Awaitable[None]]
Select = Callable[[Frame, Sequence[int]], Sequence[int]]


@dataclass(frozen=True, slots=True)
class Means:
    """What a worker works with."""

    session: MemberSession
    send: Send
    bury: Bury
    select: Select | None
    """The filter; None where every message fits."""
    keys: Callable[[Push], list[bytes]]
    held_messages_max: int
    held_bytes_max: int
    clock: Callable[[], float] = time.monotonic


class PushWorker:
    """Runs until it is cancelled, or its session ends. Belongs to the event loop."""

    def __init__(self, plan: Plan, means: Means) -> None:
        self.plan = plan
        self.tally = Tally()
        self._means = means
        self._session = means.session
        self.queue = PushQueue(
            concurrency=plan.push.concurrency,
            ordered=plan.ordered,
            patience=plan.settings.patience,
        )
        self.paused = False
        self._leaving: set[Hold] = set()
        self._acks = AckBook()
        self._acking: asyncio.TimerHandle | None = None
        self._pending: dict[tuple[int, int], Record] = {}
        self._sends: set[asyncio.Task[None]] = set()
        self._stir = asyncio.Event()
        self._room = asyncio.Event()
        self._stopping = False

    @property
    def connected(self) -> bool:
        """Whether the log can give it anything now."""
        return self._session.connected

    async def run(self) -> None:
        """Open the session and work until it ends; the error that ended it is raised."""
        await self._session.open()
        self.paused = self._session.paused
        self._session.on_acked = self._acknowledged
        pumping = asyncio.create_task(self._pump(), name=f"push {self.plan.name}")
        try:
            async for event in self._session.events():
                if isinstance(event, Delivery):
                    try:
                        self._take(event)
                    except FormatError as error:
                        raise GatekeeperRefused(f"a damaged frame arrived: {error}") from error
                    await self._wait_for_room()
                elif isinstance(event, Revoked):
                    self._revoked(event.hold, may_finish=event.may_finish)
                elif isinstance(event, Paused):
                    self.paused = event.paused
                    self._stir.set()
        finally:
            pumping.cancel()
            await asyncio.gather(pumping, return_exceptions=True)
            await self._leave()

    async def _leave(self) -> None:
        """Let what is on its way arrive, say so, and give the rest back."""
        self._stopping = True
        if self._sends:
            await asyncio.wait(self._sends, timeout=LEAVE_S_MAX)
        for task in self._sends:
            task.cancel()
        await asyncio.gather(*self._sends, return_exceptions=True)
        self._flush_acks()
        await self._session.close()

    # What the log gives.

    def _take(self, delivery: Delivery) -> None:
        plan, rerun = self.plan, self.plan.settings.rerun
        partition = delivery.hold.partition
        until = None if rerun is None else rerun.until.get(str(partition), 0)
        self._acks.begin(delivery.hold, delivery.offsets[0])
        self.tally.redelivered += len(delivery.attempts)
        skipped: list[int] = []
        for record in records_of(delivery.frame, self._fitting(delivery, skipped)):
            place = record.offset
            history: Sequence[Try] = ()
            if until is not None and place >= until:
                skipped.append(place)
                continue
            if rerun is not None and rerun.kind == "redrive":
                if not is_letter_of(record, plan.owner, rerun.of):
                    skipped.append(place)
                    continue
                record, history = original_of(record)  # noqa: PLW2901 - the letter is unwrapped
            if plan.settings.fire_and_forget:
                self._pending[partition, place] = record
                self._ack_later(delivery.hold, place)
            else:
                parcel = self._add(delivery.hold, partition, place, record)
                parcel.history = history
                if place in delivery.attempts:
                    _tried_before(parcel, delivery)
        for place in skipped:
            self._ack_later(delivery.hold, place)
        self._stir.set()

    def _fitting(self, delivery: Delivery, skipped: list[int]) -> Sequence[int]:
        """The offsets that the filter lets through; the others are `skipped`.

        Letters have passed it when they were messages.
        """
        select, rerun = self._means.select, self.plan.settings.rerun
        if select is None or (rerun is not None and rerun.kind == "redrive"):
            return delivery.offsets
        delivery.frame.check_hash()
        fitting = select(delivery.frame, delivery.offsets)
        kept = set(fitting)
        skipped += [offset for offset in delivery.offsets if offset not in kept]
        self.tally.filtered += len(skipped)
        return fitting

    def _add(self, hold: Hold | None, partition: int, offset: int, record: Record) -> Parcel:
        parcel = Parcel(
            hold,
            partition,
            offset,
            key=record.key,
            size=record.size,
            tries=0,
            record=record,
        )
        self.queue.add(parcel)
        return parcel

    def _acknowledged(self, partition: int, low: int, ranges: list[tuple[int, int]]) -> None:
        """The log will never give these out again: now they may be sent, once.

        What lies below the low mark was acknowledged too, but perhaps by another member, who then
        has sent it.
        """
        self._acks.durable(partition, low)
        self._ack_soon()
        if not self._pending:
            return
        durable = OffsetSet(ranges)
        for offset in sorted(at for of, at in self._pending if of == partition):
            if offset in durable:
                record = self._pending.pop((partition, offset))
                self._add(None, partition, offset, record)
            elif offset < low:
                del self._pending[partition, offset]
        self._stir.set()
        self._room.set()

    async def _wait_for_room(self) -> None:
        """Ask for no more while too much is in hand; a stuck key must not fill the memory."""
        while not self._has_room():
            self._room.clear()
            try:
                async with asyncio.timeout(LOOK_S):
                    await self._room.wait()
            except TimeoutError:
                for hold in {each.hold for each in self.queue if each.hold is not None}:
                    if not self._session.is_current(hold) and hold not in self._leaving:
                        self._revoked(hold, may_finish=True)

    def _has_room(self) -> bool:
        means, queue = self._means, self.queue
        return (
            queue.held + len(self._pending) < means.held_messages_max
            and queue.held_bytes < means.held_bytes_max
        )

    def _revoked(self, hold: Hold, *, may_finish: bool) -> None:
        if not may_finish:
            self.queue.lose(hold)
            self._leaving.discard(hold)
            self._acks.drop(hold)
        else:
            self.queue.lose_idle(hold)
            self._leaving.add(hold)
            self._release_if_done(hold)
        self._room.set()

    def _release_if_done(self, hold: Hold) -> None:
        if hold in self._leaving and not self.queue.holds(hold):
            self._leaving.discard(hold)
            self._flush_acks()
            self._acks.drop(hold)
            self._session.release(hold)

    # What goes out.

    async def _pump(self) -> None:
        while True:
            now_s = self._means.clock()
            if not self.paused:
                for parcel, effect in self.queue.due(now_s):
                    self._do(parcel, effect)
            next_s = None if self.paused else self.queue.next_s(now_s)
            try:
                async with asyncio.timeout(None if next_s is None else max(0.0, next_s - now_s)):
                    await self._stir.wait()
            except TimeoutError:
                continue
            self._stir.clear()

    def _do(self, parcel: Parcel, effect: Effect) -> None:
        """What a step of the parcel's table asks for."""
        match effect:
            case Effect.POST:
                self._begin(self._post(parcel))
            case Effect.BURY:
                self._report(parcel)
                self._begin(self._bury(parcel))
            case Effect.ACK:
                if parcel.hold is not None:
                    self._ack_later(parcel.hold, parcel.offset)
            case Effect.COUNT:
                self._report(parcel)
            case Effect.PUT_BACK | Effect.BURY_LATER | Effect.FORGET | Effect.NONE:
                pass
        self._stir.set()
        if not self._room.is_set() and self._has_room():
            self._room.set()
        if parcel.hold in self._leaving:
            self.queue.lose_idle(parcel.hold)
            self._release_if_done(parcel.hold)

    def _begin(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._sends.add(task)
        task.add_done_callback(self._sends.discard)

    async def _post(self, parcel: Parcel) -> None:
        plan, record = self.plan, parcel.record
        try:
            body, content_type = delivery_body(record, plan.push.body)
            occasion = Occasion(plan.on_behalf_of, parcel.tries + 1, self._mark(parcel))
            headers = {
                **delivery_headers(record, plan.push.body, occasion),
                "Content-Type": content_type,
                **signature_headers(record, self._means.keys(plan.push), int(time.time()), body),
            }
            verdict = await self._means.send(record, plan.push, headers, body)
        except (SecretUnusable, SidecarError) as error:
            # Nothing was sent: it is this sidecar that has to be put right.
            verdict = Verdict(delivered=False, reached=False, error=str(error))
        except Exception as error:
            # A defect of ours over one message must not hold up the others behind it.
            log.exception("delivery failed", extra={"fields": {"subscription": plan.name}})
            reason = f"internal error: {type(error).__name__}"
            verdict = Verdict(delivered=False, reached=True, error=reason)
        now_us = time.time_ns() // 1000
        gone = parcel.state is State.GONE
        chance = random.random()  # noqa: S311 - jitter
        effect = self.queue.tried(parcel, verdict, self._means.clock(), now_us, chance)
        if verdict.delivered:
            self.tally.delivered += 1
            self.tally.last_delivered_us = now_us
            if gone and parcel.hold is not None:
                # The connection was lost meanwhile; where the partition came back to us, this
                # spares the app a second delivery.
                self._session.ack(parcel.hold, [(parcel.offset, parcel.offset)])
        else:
            self.tally.failed += 1
            self.tally.last_error = self.queue.last_failure
        self._do(parcel, effect)

    def _mark(self, parcel: Parcel) -> dict[str, str]:
        rerun = self.plan.settings.rerun
        if rerun is None:
            return {}
        if rerun.kind == "replay":
            return {"Sidegate-Replay": "true"}
        return {"Sidegate-Redrive": f"{self.plan.topic}/{parcel.partition}/{parcel.offset}"}

    async def _bury(self, parcel: Parcel) -> None:
        plan, error = self.plan, None
        letters = plan.settings.dead_letter
        if letters is None:
            self.tally.dropped += 1
        else:
            undelivered = Undelivered(
                plan.owner,
                plan.on_behalf_of,
                parcel.tries,
                parcel.history,
                "max_attempts",
            )
            try:
                await self._means.bury(dead_letter(letters.topic, parcel.record, undelivered))
                self.tally.dead += 1
            except SidecarError as refusal:
                error = f"the dead letter could not be written to {letters.topic}: {refusal}"
                log.warning(
                    "dead letter not written",
                    extra={"fields": {"subscription": plan.name, "reason": str(refusal)}},
                )
        self.tally.bury_error = error
        chance = random.random()  # noqa: S311 - jitter
        self._do(parcel, self.queue.buried(parcel, error, self._means.clock(), chance))

    # What the log is told.

    def _report(self, parcel: Parcel) -> None:
        if parcel.hold is not None:
            self._session.report(parcel.hold, parcel.offset, parcel.tries, parcel.untold)
            parcel.untold = ()

    def _ack_later(self, hold: Hold, offset: int) -> None:
        self._acks.add(hold, offset)
        self._ack_soon()

    def _ack_soon(self) -> None:
        if self._acking is None:
            self._acking = asyncio.get_running_loop().call_later(ACK_S, self._flush_acks)

    def _flush_acks(self) -> None:
        if self._acking is not None:
            self._acking.cancel()
            self._acking = None
        for hold, ranges in self._acks.take():
            self._session.ack(hold, ranges)
            if hold.lease is not None and not self.queue.holds(hold):
                self._acks.finish(hold)


def _tried_before(parcel: Parcel, delivery: Delivery) -> None:
    """Go on where the members before this one have ended."""
    parcel.tries = delivery.attempts[parcel.offset]
    told = delivery.history.get(parcel.offset, ())
    parcel.untold = tries_not_told(told, parcel.tries, time.time_ns() // 1000)
    parcel.history = bounded((*parcel.history, *told, *parcel.untold))
