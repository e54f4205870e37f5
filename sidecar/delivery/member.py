"""One member's session of a durable subscription, over as many connections as it takes.

Opens `/v1/stream` as a member, takes what the log assigns or leases, says what became of it, and
keeps the leases alive. After a loss it opens again by itself; what it had not acknowledged then
comes again, from this session or to another member. Which messages are whose is decided in
`holdings.py`; how they reach an app is not its matter.
"""

import asyncio
import logging
import random
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

from log_format.frame import Frame
from sidecar.delivery.holdings import Delivery, Hold, Holdings
from sidecar.delivery.member_events import Changed, Event, Membership, Paused, Revoked
from sidecar.delivery.offset_set import OffsetSet, Range
from sidecar.delivery.stream_link import Control, Misunderstood, StreamLink
from sidecar.delivery.topic_stream import parse_gap
from sidecar.delivery.tries import Try
from sidecar.errors import GatekeeperRefused, SidecarError, UplinkDown, retry_after
from sidecar.uplink.backoff import Backoff
from sidecar.uplink.credentials import CredentialSource
from sidecar.uplink.gateway import Gateway, Unreachable

__all__ = ["Changed", "Event", "MemberSession", "Membership", "Paused", "Revoked"]

log = logging.getLogger("sidegate.sidecar")

_Item = TypeVar("_Item")
SAID_MAX: Final = 1_000
"""Ranges or offsets that the wire takes in one message."""
LEASE_MS_DEFAULT: Final = 30_000
"""Of a subscription that does not say."""
FLUSH_S_MAX: Final = 1.0
"""How long a close waits until the last acknowledgements are known to be durable."""


class MemberSession:
    """Not to be shared by readers; anybody may acknowledge. Belongs to the event loop.

    `on_event` is called when something happens, for those who wait for more than `events`.

    `definition` is the subscription as the log described it at the last opening.
    """

    def __init__(
        self,
        gateway: Gateway,
        credentials: CredentialSource,
        membership: Membership,
        credit_bytes: int,
        backoff: Backoff | None = None,
    ) -> None:
        self.membership = membership
        self.definition: dict[str, Any] = {}
        self.topic = ""
        self.paused = False
        self.redelivered = 0
        self.on_acked: Callable[[int, int, list[Range]], None] = lambda *_: None
        """Told of each partition's low mark and of ranges that are durable now."""
        self.on_event: Callable[[], None] = lambda: None
        self._link = StreamLink(gateway, credentials, credit_bytes)
        self._backoff = Backoff(max_s=3.0) if backoff is None else backoff
        self._holdings = Holdings()
        self._connection = 0
        self._ready: deque[Event | SidecarError] = deque()
        self._arrived = asyncio.Event()
        self._acks: dict[Hold, OffsetSet] = {}
        self._outgoing: deque[Control] = deque()
        self._to_send = asyncio.Event()
        self._answered = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def lease_s(self) -> float:
        """How long the log waits for a sign of life."""
        return float(self.definition.get("lease_ms", LEASE_MS_DEFAULT)) / 1000

    @property
    def connected(self) -> bool:
        """True while a connection is open, as far as one knows."""
        return self._link.connected

    async def open(self) -> None:
        """Open for the first time: what is refused here is told to the app at once."""
        membership = self.membership
        create = None if membership.create is None else dict(membership.create)
        try:
            await self._open(create)
        except Misunderstood as error:
            raise GatekeeperRefused(str(error)) from error
        except Unreachable as error:
            raise UplinkDown(
                f"no gatekeeper can be reached ({error})", headers=retry_after(1.0)
            ) from error
        self._task = asyncio.create_task(self._run(), name=f"member of {membership.subscription}")

    async def close(self) -> None:
        """Say what is still to be said, and leave; what is in hand is given out again."""
        if self._link.connected and self._task is not None and not self._task.done():
            self._release_idle()
            try:
                async with asyncio.timeout(FLUSH_S_MAX):
                    await self.flush()
            except TimeoutError:
                log.info("left with acknowledgements unanswered", extra={"fields": self._fields()})
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._link.close()

    def _release_idle(self) -> None:
        """Whoever gets these next need not wait, and nothing of them counts as tried."""
        for event in self._ready:
            if isinstance(event, Delivery):
                self._holdings.undelivered(event.hold, event.offsets)
        for hold in self._holdings.holds:
            if not self._holdings.in_hand(hold):
                self.release(hold)

    async def events(self) -> AsyncGenerator[Event, None]:
        """What happens, in order. Ends by SidecarError if it must.

        A delivery's bytes are free for the log to send more when the next event is asked for.
        """
        while True:
            while not self._ready:
                self._arrived.clear()
                await self._arrived.wait()
            event = self._ready.popleft()
            if isinstance(event, SidecarError):
                self._ready.append(event)
                raise event
            if isinstance(event, Delivery):
                connection = self._connection
                left = self._holdings.still(event)
                if left is not None:
                    self.redelivered += len(left.attempts)
                    yield left
                if connection == self._connection:
                    await self._link.consumed(event.frame)
            else:
                yield event

    def is_current(self, hold: Hold) -> bool:
        """False once it was revoked or lost: what is not delivered yet must not be."""
        return self._holdings.may_deliver(hold)

    def holder(self, partition: int, offset: int) -> Hold | None:
        """The hold under which a message is in hand; for apps that name only its offset."""
        return self._holdings.holder(partition, offset)

    def in_hand(self, hold: Hold) -> OffsetSet:
        """What was delivered under it and is neither acknowledged nor given back."""
        return self._holdings.in_hand(hold)

    def ack(self, hold: Hold, ranges: Iterable[Range]) -> int:
        """Processed for good. Returns how many of them count: none of a hold that was lost."""
        under, taken = self._holdings.ack(hold, ranges)
        self._acknowledge(under, taken)
        if self._holdings.is_finished(hold):
            self.release(hold)
        return sum(last - first + 1 for first, last in taken)

    def nack(self, hold: Hold, offsets: Iterable[int], delay_ms: int = 0) -> int:
        """Not processed: to be given out again after the delay, with one attempt more."""
        taken = self._holdings.nack(hold, offsets)
        for piece in _pieces(taken):
            self._say("nack", hold, offsets=piece, delay_ms=delay_ms)
        return len(taken)

    def report(self, hold: Hold, offset: int, attempts: int, tries: Sequence[Try] = ()) -> None:
        """A try that failed here, to be kept with the cursor for whoever gets it next.

        `attempts` is their total, and `tries` has those that the log does not know yet.
        """
        if self._holdings.failed(hold, {offset: attempts}):
            history = {"history": {str(offset): tries}} if tries else {}
            self._say("attempts", hold, attempts={str(offset): attempts}, **history)

    def release(self, hold: Hold) -> None:
        """After `Revoked`: nothing more of this hold will be acknowledged."""
        self._flush_acks()
        if self._holdings.release(hold) and hold.generation is not None:
            self._say("released", hold)

    def give_up(self, hold: Hold, offsets: Sequence[int]) -> None:
        """What was taken from `events` and not delivered is not in hand."""
        self._holdings.undelivered(hold, offsets)
        if self._holdings.is_finished(hold):
            self.release(hold)

    async def flush(self) -> None:
        """Wait until everything that was acknowledged is durable, or the connection is lost."""
        while self._link.connected and not self._holdings.all_confirmed:
            self._answered.clear()
            await self._answered.wait()

    def _say(self, kind: str, hold: Hold, **members: object) -> None:
        # What was acknowledged before this must also be heard before it.
        self._flush_acks()
        self._outgoing.append({"type": kind, **hold.names(), **members})
        self._to_send.set()

    def _flush_acks(self) -> None:
        for hold, offsets in self._acks.items():
            for ranges in _pieces(offsets.ranges()):
                self._outgoing.append({"type": "ack", **hold.names(), "ranges": ranges})
        self._acks.clear()
        self._to_send.set()

    def _put(self, event: Event | SidecarError) -> None:
        if event is None and self._ready:
            return
        self._ready.append(event)
        self._arrived.set()
        self.on_event()

    async def _open(self, create: dict[str, object] | None) -> None:
        membership = self.membership
        opened = await self._link.open(
            {
                "subscription": membership.subscription,
                "owner": membership.owner,
                "member": membership.member,
                "create": create,
            }
        )
        definition = opened.get("subscription")
        if not isinstance(definition, dict) or not isinstance(opened.get("topic"), str):
            await self._link.close()
            raise GatekeeperRefused("a member's stream was opened without its subscription")
        self.definition, self.topic = definition, opened["topic"]
        self.paused = bool(definition.get("paused"))
        self._connection += 1

    async def _run(self) -> None:
        """Read and write until the session is closed, or ended by the other side for good."""
        failures = 0
        try:
            while True:
                if not self._link.connected:
                    chance = random.random()  # noqa: S311 - jitter
                    await asyncio.sleep(self._backoff.delay_s(failures, chance))
                    try:
                        await self._open(None)
                    except Unreachable as error:
                        failures += 1
                        fields = {**self._fields(), "reason": str(error)}
                        log.debug("member not opened", extra={"fields": fields})
                        self._put(None)
                        continue
                try:
                    await self._serve()
                except Unreachable as error:
                    failures += 1
                    fields = {**self._fields(), "reason": str(error)}
                    log.info("member lost its connection", extra={"fields": fields})
                    await self._disconnected()
                else:
                    failures = 0
        except SidecarError as error:
            await self._disconnected()
            self._put(error)

    async def _serve(self) -> None:
        """One connection's life: what is read is noted at once, whoever else is slow."""
        writing = asyncio.create_task(self._write())
        try:
            while True:
                message = await self._link.receive()
                if isinstance(message, Frame):
                    taken = self._holdings.take(message)
                    if taken.hold is not None:
                        self._acknowledge(taken.hold, taken.done)
                    if taken.delivery is None:
                        await self._link.consumed(message)
                    else:
                        self._put(taken.delivery)
                else:
                    self._note(message)
        finally:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)

    def _note(self, control: Control) -> None:
        try:
            self._take_in(control)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            kind = str(control.get("type"))[:32]
            raise Unreachable(f"a message of type {kind} is not understood", sent=True) from error

    def _take_in(self, control: Control) -> None:
        match control.get("type"):
            case "assign":
                self._holdings.assign(control)
            case "redeliver":
                self._holdings.redeliver(control)
            case "lease":
                self._holdings.lease(control)
            case "acked":
                self._holdings.confirmed(control)
                self._answered.set()
                done = [(int(first), int(last)) for first, last in control.get("ranges", ())]
                self.on_acked(int(control["partition"]), int(control["low"]), done)
            case "revoke":
                self._revoked(control)
            case "fenced":
                self._answered.set()
                fenced = self._holdings.fenced(control)
                if fenced is not None:
                    self._acks.pop(fenced, None)
                    self._put(Revoked(fenced, may_finish=False))
            case "gap":
                self._put(parse_gap(control))
            case "changed":
                self.definition = dict(control["subscription"])
                self._put(Changed())
            case "paused" | "resumed" as kind:
                self.paused = kind == "paused"
                self._put(Paused(self.paused))
            case "heartbeat":
                self._put(None)

    def _revoked(self, control: Control) -> None:
        hold = self._holdings.revoke(control)
        if hold is None:
            return
        for event in self._ready:
            if isinstance(event, Delivery) and event.hold == hold:
                self._holdings.undelivered(hold, event.offsets)
        may_finish = bool(self._holdings.in_hand(hold))
        if hold.lease is not None:
            self._acks.pop(hold, None)
        elif not may_finish:
            self.release(hold)
        self._put(Revoked(hold, may_finish=may_finish))

    def _acknowledge(self, hold: Hold, ranges: Iterable[Range]) -> None:
        for first, last in ranges:
            self._acks.setdefault(hold, OffsetSet()).add(first, last)
            self._to_send.set()

    async def _disconnected(self) -> None:
        await self._link.close()
        self._acks.clear()
        self._outgoing.clear()
        self._answered.set()
        # Frames of the lost connection that wait here take credit of no new one.
        self._ready = deque(event for event in self._ready if not isinstance(event, Delivery))
        for hold in self._holdings.lost():
            self._put(Revoked(hold, may_finish=False))

    async def _write(self) -> None:
        """Send what is to be said, and a heartbeat often enough to keep the leases."""
        loop = asyncio.get_running_loop()
        beat_s = self.lease_s / 3
        next_beat = loop.time() + beat_s
        while True:
            try:
                async with asyncio.timeout_at(next_beat):
                    await self._to_send.wait()
            except TimeoutError:
                next_beat = loop.time() + beat_s
                await self._link.send({"type": "heartbeat"})
                await self._link.renew_token()
            self._flush_acks()
            self._to_send.clear()
            while self._outgoing:
                await self._link.send(self._outgoing.popleft())
            self._answered.set()

    def _fields(self) -> dict[str, object]:
        return {
            "subscription": self.membership.subscription,
            "member": self.membership.member,
        }


def _pieces(items: list[_Item]) -> Iterator[list[_Item]]:
    return (items[at : at + SAID_MAX] for at in range(0, len(items), SAID_MAX))
