"""A topic's frames, live, over as many connections as it takes.

Opens `/v1/stream` at a gatekeeper, grants credit as frames are consumed, and after a loss opens
again exactly behind the last frame that was consumed. Knows frames and offsets; how they reach
an app is not its matter.
"""

import asyncio
import logging
import random
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from log_format.frame import Frame
from sidecar.delivery.start import Start, resume
from sidecar.delivery.stream_link import Control, StreamLink
from sidecar.errors import GatekeeperRefused, UplinkDown, retry_after
from sidecar.uplink.backoff import Backoff
from sidecar.uplink.credentials import CredentialSource
from sidecar.uplink.gateway import Gateway, Unreachable

log = logging.getLogger("sidegate.sidecar")


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets that will not come: `code` is `expired` (by retention) or `damaged`."""

    partition: int
    first_offset: int
    next_offset: int
    code: str
    detail: str


class TopicStream:
    """One reader's view of a topic. Not to be shared; belongs to the event loop.

    `positions` holds the next offset of each partition behind what was consumed; it is complete
    once `open` has returned.
    """

    def __init__(
        self,
        gateway: Gateway,
        credentials: CredentialSource,
        topic: str,
        start: Start,
        credit_bytes: int,
    ) -> None:
        self.topic = topic
        self._start = start
        self._ends: dict[int, int] = {}
        self._given: Frame | None = None
        self._backoff = Backoff(max_s=3.0)
        self._link = StreamLink(gateway, credentials, credit_bytes)
        self.positions: dict[int, int] = {}

    async def open(self) -> None:
        """Open for the first time: what is refused here is told to the app at once."""
        try:
            await self._open()
        except Unreachable as error:
            raise UplinkDown(
                f"no gatekeeper can be reached ({error})", headers=retry_after(1.0)
            ) from error

    async def close(self) -> None:
        """Give the connection back."""
        await self._link.close()

    async def events(self) -> AsyncGenerator[Frame | Gap | None, None]:
        """Frames and gaps in order, and None for each heartbeat. Ends by SidecarError if it must.

        A frame counts as consumed when the next one is asked for.
        """
        failures = 0
        while True:
            await self.settle()
            if not self._link.connected:
                chance = random.random()  # noqa: S311 - jitter
                await asyncio.sleep(self._backoff.delay_s(failures, chance))
                try:
                    await self._open()
                except Unreachable as error:
                    failures += 1
                    log.debug("stream not opened", extra={"fields": {"reason": str(error)}})
                    yield None
                    continue
            try:
                message = await self._link.receive()
            except Unreachable as error:
                failures += 1
                log.info("stream lost", extra={"fields": {"reason": str(error)}})
                await self._link.close()
                self._start = resume(self.positions, self._start.partitions)
                continue
            failures = 0
            if isinstance(message, Frame):
                if self._is_new(message):
                    self._given = message
                    yield message
                else:
                    await self._link.consumed(message)
            else:
                yield self._note(message)
            await self._link.renew_token()

    async def settle(self) -> None:
        """What was given last is consumed; for whoever goes on with another `events`."""
        frame, self._given = self._given, None
        if frame is not None:
            self._consumed(frame)
            await self._link.consumed(frame)

    @property
    def caught_up(self) -> bool:
        """Whether everything was consumed that the log is known to hold."""
        return all(self.positions.get(partition, 0) >= end for partition, end in self._ends.items())

    def _is_new(self, frame: Frame) -> bool:
        stamp, producer = frame.envelope.stamp, frame.envelope.producer
        if stamp is None or producer.partition not in self.positions:
            raise GatekeeperRefused("a frame of the stream has no place in it")
        end = stamp.base_offset + producer.count
        return end > self.positions[producer.partition]

    def _consumed(self, frame: Frame) -> None:
        stamp, producer = frame.envelope.stamp, frame.envelope.producer
        if stamp is not None:
            self.positions[producer.partition] = stamp.base_offset + producer.count

    def _note(self, control: Control) -> Gap | None:
        """Take in what the other side says besides frames; a gap is passed on."""
        if control.get("type") == "partitions":
            self._add_partitions(control)
        if control.get("type") != "gap":
            return None
        gap = parse_gap(control)
        self.positions[gap.partition] = max(self.positions.get(gap.partition, 0), gap.next_offset)
        return gap

    async def _open(self) -> None:
        opened = await self._link.open(
            {
                "topic": self.topic,
                "partitions": self._start.partitions,
                "from": self._start.origin,
            }
        )
        self._add_partitions(opened)

    def _add_partitions(self, control: Control) -> None:
        for each in control.get("partitions", ()):
            self.positions.setdefault(int(each["partition"]), int(each["offset"]))
            self._ends[int(each["partition"])] = int(each.get("end_offset", 0))


def parse_gap(control: Control) -> Gap:
    """The gap that a control message tells of."""
    gap = Gap(
        int(control["partition"]),
        int(control["first_offset"]),
        int(control["next_offset"]),
        str(control.get("code", "")),
        str(control.get("detail", "")),
    )
    log.warning("messages are missing in a topic", extra={"fields": control})
    return gap
