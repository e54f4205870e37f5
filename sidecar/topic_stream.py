"""A topic's frames, live, over as many connections as it takes.

Opens `/v1/stream` at a gatekeeper, grants credit as frames are consumed, and after a loss opens
again exactly behind the last frame that was consumed. Knows frames and offsets; how they reach
an app is not its matter.
"""

import asyncio
import logging
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
import orjson

from log_format.errors import FormatError
from log_format.frame import Frame, decode_frame
from sidecar.backoff import Backoff
from sidecar.credentials import CredentialSource
from sidecar.errors import (
    Denied,
    GatekeeperRefused,
    OverQuota,
    SidecarError,
    UnknownTopic,
    UplinkDown,
    retry_after,
)
from sidecar.gateway import Gateway, Unreachable
from sidecar.start import Start, resume

log = logging.getLogger("sidegate.sidecar")

SILENCE_S_MAX: Final = 15.0
"""The other side says something every 5 s: three times nothing is a dead connection."""
OPEN_S_MAX: Final = 10.0
"""For the answer to the open message."""
PERMANENT_ENDS: Final = frozenset(
    {"denied", "unknown_topic", "unknown_partition", "bad_request", "deleted", "topic_deleted"}
)
"""Ends after which opening again cannot help."""


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
        self._gateway = gateway
        self._credentials = credentials
        self._topic = topic
        self._start = start
        self._credit_bytes = credit_bytes
        self._backoff = Backoff(max_s=3.0)
        self._consumed_bytes = 0
        self._token = ""
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._exit: Any = None
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
        manager, self._exit, self._socket = self._exit, None, None
        if manager is not None:
            await manager.__aexit__(None, None, None)

    async def events(self) -> AsyncIterator[Frame | Gap | None]:
        """Frames and gaps in order, and None for each heartbeat. Ends by SidecarError if it must.

        A frame counts as consumed when the next one is asked for.
        """
        failures = 0
        while True:
            if self._socket is None:
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
                message = await self._receive()
            except Unreachable as error:
                failures += 1
                log.info("stream lost", extra={"fields": {"reason": str(error)}})
                await self.close()
                self._start = resume(self.positions, self._start.partitions)
                continue
            failures = 0
            if isinstance(message, Frame):
                for frame in self._unseen(message):
                    yield frame
                    self._consumed(frame)
                await self._grant(message)
            else:
                yield self._note(message)
            await self._renew_token()

    def _unseen(self, frame: Frame) -> list[Frame]:
        stamp, producer = frame.envelope.stamp, frame.envelope.producer
        if stamp is None or producer.partition not in self.positions:
            raise GatekeeperRefused("a frame of the stream has no place in it")
        end = stamp.base_offset + producer.count
        return [frame] if end > self.positions[producer.partition] else []

    def _consumed(self, frame: Frame) -> None:
        stamp, producer = frame.envelope.stamp, frame.envelope.producer
        if stamp is not None:
            self.positions[producer.partition] = stamp.base_offset + producer.count

    def _note(self, control: dict[str, Any]) -> Gap | None:
        """Take in what the other side says besides frames; a gap is passed on."""
        if control.get("type") == "partitions":
            self._add_partitions(control)
        if control.get("type") != "gap":
            return None
        gap = Gap(
            int(control["partition"]),
            int(control["first_offset"]),
            int(control["next_offset"]),
            str(control.get("code", "")),
            str(control.get("detail", "")),
        )
        self.positions[gap.partition] = max(self.positions.get(gap.partition, 0), gap.next_offset)
        log.warning("messages are missing in a topic", extra={"fields": control})
        return gap

    async def _open(self) -> None:
        self._exit = self._gateway.stream()
        try:
            socket = await self._exit.__aenter__()
        except BaseException:
            self._exit = None
            raise
        self._socket = socket
        pair = self._credentials.current
        self._token = pair.token if pair else ""
        self._consumed_bytes = 0
        try:
            await self._send(
                {
                    "type": "open",
                    "topic": self._topic,
                    "partitions": self._start.partitions,
                    "from": self._start.origin,
                    "credit_bytes": self._credit_bytes,
                }
            )
            async with asyncio.timeout(OPEN_S_MAX):
                opened = await self._receive()
            self._take_positions(opened)
        except TimeoutError as error:
            await self.close()
            raise Unreachable("the stream was not opened in time", sent=True) from error
        except BaseException:
            await self.close()
            raise

    def _take_positions(self, opened: Frame | dict[str, Any]) -> None:
        if isinstance(opened, Frame) or opened.get("type") != "opened":
            raise Unreachable("the stream began without being opened", sent=True)
        self._add_partitions(opened)

    def _add_partitions(self, control: dict[str, Any]) -> None:
        for each in control.get("partitions", ()):
            self.positions.setdefault(int(each["partition"]), int(each["offset"]))

    async def _receive(self) -> Frame | dict[str, Any]:
        """The next frame or control message; Unreachable where the connection is lost."""
        if self._socket is None:
            raise Unreachable("the stream is closed", sent=True)
        try:
            async with asyncio.timeout(SILENCE_S_MAX):
                message = await self._socket.receive()
        except TimeoutError as error:
            raise Unreachable(f"nothing was heard for {SILENCE_S_MAX:.0f} s", sent=True) from error
        if message.type is aiohttp.WSMsgType.BINARY:
            try:
                return decode_frame(message.data)
            except FormatError as error:
                raise Unreachable(f"a broken frame arrived: {error}", sent=True) from error
        if message.type is not aiohttp.WSMsgType.TEXT:
            raise Unreachable(f"the connection ended ({message.type.name})", sent=True)
        try:
            control = orjson.loads(message.data)
        except orjson.JSONDecodeError as error:
            raise Unreachable("a control message is not JSON", sent=True) from error
        if not isinstance(control, dict):
            raise Unreachable("a control message is not an object", sent=True)
        if control.get("type") == "end":
            raise stream_end(control)
        return control

    async def _grant(self, frame: Frame) -> None:
        self._consumed_bytes += frame.envelope.frame_len
        if self._consumed_bytes * 4 >= self._credit_bytes:
            granted, self._consumed_bytes = self._consumed_bytes, 0
            await self._send({"type": "credit", "bytes": granted})

    async def _renew_token(self) -> None:
        """An open stream outlives its token: hand the fresh one over before the old one ends."""
        pair = self._credentials.current
        if pair is not None and self._token and pair.token != self._token:
            self._token = pair.token
            await self._send({"type": "token", "token": pair.token})

    async def _send(self, control: dict[str, object]) -> None:
        if self._socket is None:
            return
        try:
            await self._socket.send_str(orjson.dumps(control).decode())
        except (aiohttp.ClientError, ConnectionError) as error:
            # The next receive finds the connection lost and opens again.
            log.debug("stream send failed", extra={"fields": {"reason": str(error)}})


def stream_end(control: dict[str, Any]) -> SidecarError | Unreachable:
    """What the other side's end means: an error for the app, or a reason to open again."""
    code, detail = str(control.get("code", "")), str(control.get("detail", ""))
    if code == "denied":
        members: dict[str, object] = {
            name: control[name] for name in ("decision_id", "reason") if name in control
        }
        return Denied(detail, members=members)
    if code in ("unknown_topic", "unknown_partition", "deleted", "topic_deleted"):
        return UnknownTopic(detail)
    if code == "over_quota":
        return OverQuota(detail, headers=retry_after(1.0))
    if code in PERMANENT_ENDS:
        return GatekeeperRefused(f"the stream was ended: {code}: {detail}")
    return Unreachable(f"{code}: {detail}", sent=True)
