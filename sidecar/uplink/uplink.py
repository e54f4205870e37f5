"""Carries batches to the gatekeepers: collects what is due, sends it, tells the lanes the outcome.

One request carries batches of many partitions, and a busy partition is in several requests at a
time. Decisions about a batch are the lane's, the meaning of an answer is in `results.py`; this
module waits, sends, and keeps the state of the link.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from hosting.tracing import Tracing
from sidecar.publish.batch import Batch
from sidecar.publish.flight import Flight
from sidecar.publish.lane import Lane
from sidecar.publish.message_trace import traces_of
from sidecar.publish.results import AppendResult, BadAnswer, Verdict, parse_results, refusal
from sidecar.publish.settlement import Settled
from sidecar.uplink.backoff import Backoff
from sidecar.uplink.gateway import Answer, Gateway, Unreachable
from sidecar.uplink.link_state import LinkState

log = logging.getLogger("sidegate.sidecar")

PROBE_IDLE_S: Final = 2.0
"""An idle link is asked this often whether it still holds, so that `/status` tells the truth."""
PROBE_TIMEOUT_S: Final = 3.0
"""A gatekeeper that takes longer to say how it is counts as down."""
CALM_S: Final = 30.0
"""After so long without a failure, the next one counts as the first again."""
FRAMES_MAX: Final = 1024
"""Frames in one request, as the wire says."""


@dataclass(frozen=True, slots=True)
class Shipment:
    """The batches of one request, by lane."""

    loads: Sequence[tuple[Lane, Flight]]

    @property
    def batches(self) -> list[Batch]:
        """In the order in which they are sent."""
        return [batch for _lane, flight in self.loads for batch in flight.batches]


class Uplink:
    """A hosting component. Belongs to the event loop.

    `on_settled` is told of batches whose fate is known, `on_lost` of lanes whose answer was lost,
    `on_state` of every change of the link.
    """

    name = "uplink"

    def __init__(
        self,
        gateway: Gateway,
        *,
        request_bytes_max: int,
        requests_in_flight_max: int,
        backoff: Backoff | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        self._gateway = gateway
        self._request_bytes_max = request_bytes_max
        self._requests_max = requests_in_flight_max
        self._tracing = tracing or Tracing("sidecar", None)
        self.on_settled: Callable[[Lane, list[Settled]], None] = lambda *_: None
        self.on_state: Callable[[LinkState], None] = lambda _: None
        self.on_lost: Callable[[Lane], None] = lambda _: None
        self._backoff = backoff or Backoff(max_s=2.0)
        self._waiting: dict[Lane, None] = {}
        self._requests: set[asyncio.Task[None]] = set()
        self._watch: asyncio.Task[None] | None = None
        self._pump_scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        self._down = asyncio.Event()
        self._up = asyncio.Event()
        self._look = asyncio.Event()
        self._quiet = asyncio.Event()
        self._failures = 0
        self._last_failure = 0.0
        self._last_answer = 0.0
        self._stopping = False
        gateway.on_lost = self.doubt
        self.state = LinkState(False, time.time_ns() // 1000, "not connected yet")

    @property
    def connected(self) -> bool:
        """Whether a message that is sent now is likely to arrive."""
        return self.state.connected

    def doubt(self) -> None:
        """Somebody else's request failed: ask now whether the link still holds."""
        self._up.clear()
        self._look.set()

    async def wait_connected(self, seconds: float) -> bool:
        """Wait for the link, at most so long; whether it is there."""
        try:
            async with asyncio.timeout(seconds):
                await self._up.wait()
        except TimeoutError:
            return self.connected
        return True

    async def start(self) -> None:
        """Begin to look for a gatekeeper; none needs to be there yet."""
        self._down.set()
        self._watch = asyncio.create_task(self._keep_watch(), name="uplink watch")

    async def drain(self) -> None:
        """Wait until everything that was accepted is settled, or the link or the time ends."""
        self._schedule()
        if self.connected:
            waits = {
                asyncio.create_task(self._quiet.wait()),
                asyncio.create_task(self._down.wait()),
            }
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()

    async def stop(self) -> None:
        """Send nothing more."""
        self._stopping = True
        if self._timer is not None:
            self._timer.cancel()
        tasks = [*self._requests, *([self._watch] if self._watch else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def wake(self, lane: Lane) -> None:
        """`lane` has something to send: now, or when its time comes."""
        self._waiting[lane] = None
        self._quiet.clear()
        self._schedule()

    def _schedule(self) -> None:
        # Once for everything that this turn of the loop brings: that is what fills the batches.
        if not self._pump_scheduled:
            self._pump_scheduled = True
            asyncio.get_running_loop().call_soon(self._pump)

    def _pump(self) -> None:
        self._pump_scheduled = False
        while not self._stopping and self.connected and len(self._requests) < self._requests_max:
            shipment = self._collect()
            if shipment is None:
                break
            task = asyncio.create_task(self._ship(shipment), name="append")
            self._requests.add(task)
            task.add_done_callback(self._shipped)
        if not self._waiting and not self._requests:
            self._quiet.set()

    def _shipped(self, task: asyncio.Task[None]) -> None:
        self._requests.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("an append's answer could not be acted upon", exc_info=error)
        self._schedule()

    def _collect(self) -> Shipment | None:
        """Load what is due; remember when the next lane will be."""
        now = time.monotonic()
        loads: list[tuple[Lane, Flight]] = []
        room, frames, later = self._request_bytes_max, FRAMES_MAX, 0.0
        for lane in list(self._waiting):
            due_at = lane.due_at()
            if due_at is None:
                # Nothing to send, or under way: it comes back with its answer.
                del self._waiting[lane]
            elif due_at > now:
                later = min(later or due_at, due_at)
            elif room > 0 and frames > 0 and not (lane.single and loads):
                by_itself = lane.single
                flight = lane.load(room)
                if flight is None:
                    # It has to be stored first, or waits for marks: the outbox wakes it.
                    del self._waiting[lane]
                    continue
                # It stays among those who wait: there may be enough for another request.
                room -= sum(len(batch.frame) for batch in flight.batches)
                frames -= len(flight.batches)
                loads.append((lane, flight))
                if by_itself:
                    break
        if later and not loads:
            self._wake_at(later)
        return Shipment(loads) if loads else None

    def _wake_at(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        delay = max(0.0, when - time.monotonic())
        self._timer = asyncio.get_running_loop().call_later(delay, self._schedule)

    async def _ship(self, shipment: Shipment) -> None:
        """One request, to the end of which its lanes have their batches back or settled."""
        batches = shipment.batches
        try:
            traces = traces_of(batches)
            parent = traces[0] if traces else None
            with self._tracing.span("append", "client", parent, links=traces[1:]) as context:
                answer = await self._gateway.append([batch.frame for batch in batches], context)
            results = self._read(answer, len(batches))
        except (Unreachable, BadAnswer) as error:
            sent = not isinstance(error, Unreachable) or error.sent
            self._take_back(shipment, sent=sent)
            self._mark_down(str(error))
        except asyncio.CancelledError:
            self._take_back(shipment, sent=True)
            raise
        except Exception as error:
            # Whatever it is, a lane that waits for its answer for ever would be worse.
            log.exception("append failed unexpectedly; it is tried again")
            self._take_back(shipment, sent=True)
            self._mark_down(f"append failed unexpectedly: {type(error).__name__}")
        else:
            if results is None:
                # One frame spoils the whole request: each goes by itself, to find which.
                for lane, _ in shipment.loads:
                    lane.single = True
                self._take_back(shipment, sent=False)
            else:
                self._settle(shipment, results)

    def _take_back(self, shipment: Shipment, *, sent: bool) -> None:
        """No answer that says anything: the lanes have their batches again."""
        verdict = Verdict.DOUBT if sent else Verdict.UNSENT
        for lane, flight in shipment.loads:
            self._tell(lane, flight, [AppendResult(verdict)] * len(flight.batches))
            self._waiting[lane] = None

    def _tell(self, lane: Lane, flight: Flight, results: Sequence[AppendResult]) -> None:
        """Give a lane its results, and whoever listens what they settle."""
        settled = lane.settle(flight, results, time.monotonic())
        if any(result.verdict is Verdict.DOUBT for result in results):
            self.on_lost(lane)
        if lane.due_at() is not None:
            self._waiting[lane] = None
        if self._stopping and not settled:
            return
        try:
            self.on_settled(lane, settled)
        except Exception:
            # The request's other lanes have to hear of theirs.
            log.exception("settled batches could not be answered for")

    def _read(self, answer: Answer, frames: int) -> list[AppendResult] | None:
        """One result for each frame; None where they have to be sent one by one."""
        document = answer.document()
        if answer.status == 200:
            return parse_results(document, frames)
        members = document if isinstance(document, dict) else {}
        code = str(members.get("code", f"status_{answer.status}"))
        if answer.status in (400, 413):
            if frames > 1:
                return None
            return [refusal("bad_frame" if answer.status == 400 else "too_large", members)]
        if answer.status == 403:
            return [refusal("denied", members)] * frames
        if answer.status == 429:
            wait = answer.headers.get("retry-after", "")
            sound = wait.isascii() and wait.isdigit() and len(wait) < 10
            members = {"retry_after_ms": int(wait) * 1000 if sound else None, **members}
            return [refusal("over_quota", members)] * frames
        detail = members.get("detail") or code
        raise Unreachable(
            f"{self._gateway.url} answers {answer.status}: {detail}", sent=answer.status != 401
        )

    def _settle(self, shipment: Shipment, results: list[AppendResult]) -> None:
        position = 0
        for lane, flight in shipment.loads:
            share = results[position : position + len(flight.batches)]
            position += len(flight.batches)
            self._tell(lane, flight, share)
        doubt = next((each for each in results if each.verdict is Verdict.DOUBT), None)
        if doubt is not None:
            self._mark_down(f"{self._gateway.url}: {doubt.detail}")
        else:
            self._failures = 0
            self._last_answer = time.monotonic()

    def _mark_down(self, reason: str) -> None:
        now = time.monotonic()
        self._failures = self._failures + 1 if now - self._last_failure < CALM_S else 1
        self._last_failure = now
        self._down.set()
        self._look.set()
        self._up.clear()
        changed = self.state.connected
        if changed or self.state.reason != reason:
            log.warning("uplink down", extra={"fields": {"reason": reason}})
        since = time.time_ns() // 1000 if changed else self.state.since_us
        self.state = LinkState(False, since, reason)
        self.on_state(self.state)

    def _mark_up(self) -> None:
        self._last_answer = time.monotonic()
        self._up.set()
        if self.state.connected:
            return
        log.info("uplink connected", extra={"fields": {"gatekeeper": self._gateway.url}})
        self.state = LinkState(True, time.time_ns() // 1000)
        self._down.clear()
        self.on_state(self.state)
        self._schedule()

    async def _keep_watch(self) -> None:
        """While down: try until somebody answers. While up and idle: ask now and then."""
        while True:
            if self.state.connected and not await self._should_look():
                continue
            if not self.state.connected:
                chance = random.random()  # noqa: S311 - jitter
                await asyncio.sleep(self._backoff.delay_s(self._failures, chance))
            self._look.clear()
            try:
                answer = await self._gateway.ask("GET", "/v1/status", timeout_s=PROBE_TIMEOUT_S)
            except Unreachable as error:
                self._mark_down(str(error))
                continue
            if answer.status >= 500 or answer.status == 401:
                document = answer.document()
                detail = document.get("detail") if isinstance(document, dict) else None
                self._mark_down(f"{self._gateway.url} answers {answer.status}: {detail}")
            else:
                self._mark_up()

    async def _should_look(self) -> bool:
        """While connected: wait for a reason to ask the gatekeeper how it is."""
        try:
            async with asyncio.timeout(PROBE_IDLE_S):
                await self._look.wait()
        except TimeoutError:
            idle = time.monotonic() - self._last_answer >= PROBE_IDLE_S
            return not self.state.connected or (idle and not self._requests)
        return True
