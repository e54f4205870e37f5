"""A durable subscription by the wire's rules."""

import asyncio
import contextlib
import json
from typing import Any

from aiohttp import web

from log_format.frame import iter_frames
from tests.sidecar.fakes.log import FakeLog


class FakeSubscription:
    """A durable subscription by the wire's rules; the member that came last has everything.

    `ordered` assigns each partition, `fcfs` leases each frame. `said` is what members say.
    """

    def __init__(self, log: FakeLog, definition: dict[str, Any], low: dict[int, int]) -> None:
        self.log = log
        self.definition = {
            "owner": "app",
            "mode": "ordered",
            "lease_ms": 30_000,
            "paused": False,
            "settings": {},
            **definition,
        }
        self.low = low
        self.acked: dict[int, set[int]] = {partition: set() for partition in low}
        self.attempts: dict[tuple[int, int], int] = {}
        self.history: dict[tuple[int, int], list[dict[str, Any]]] = {}
        self.generation = 0
        self.leases = 0
        self.members: list[tuple[web.WebSocketResponse, str]] = []
        self.openings: list[dict[str, Any]] = []
        self.said: list[dict[str, Any]] = []
        self.credit = 0
        self.silent_acks = False
        """Take acknowledgements without a word, as a link that breaks before the answer does."""
        self.quiet = False
        """Send no heartbeats."""
        self._sent: dict[int, set[int]] = {}
        self._leased: dict[int, tuple[int, set[int]]] = {}
        self._nacked: set[tuple[int, int]] = set()

    async def serve(self, socket: web.WebSocketResponse, opening: dict[str, Any]) -> None:
        self.openings.append(opening)
        self.credit = opening["credit_bytes"]
        self.members.append((socket, opening["member"]))
        await socket.send_json(
            {
                "type": "opened",
                "topic": self.definition["topic"],
                "subscription": self.definition,
            }
        )
        self._sent = {partition: set() for partition in self.low}
        if self.definition["mode"] == "ordered":
            await self.assign_all()
        feeding = asyncio.create_task(self._feed(socket))
        try:
            async for message in socket:
                await self._heard(socket, json.loads(message.data))
                async with self.log.appended:
                    self.log.appended.notify_all()
        finally:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)
            self.members = [each for each in self.members if each[0] is not socket]
            for partition, sent in self._sent.items():
                for offset in sent - self.acked[partition]:
                    if offset >= self.low[partition]:
                        self._tried(partition, offset)
            self._leased.clear()

    async def assign_all(self) -> None:
        """Give every partition to the last member, under a new generation."""
        self.generation += 1
        socket = self.members[-1][0]
        for partition, low in self.low.items():
            await socket.send_json(
                {
                    "type": "assign",
                    "partition": partition,
                    "generation": self.generation,
                    "low": low,
                    "acked": [[each, each] for each in sorted(self.acked[partition])],
                    "attempts": {
                        str(offset): tries
                        for (at, offset), tries in self.attempts.items()
                        if at == partition
                    },
                    "end_offset": self.log.ends.get((self.definition["topic"], partition), 0),
                    **self._history_of(partition, {at for _, at in self.history}),
                }
            )
        self._sent = {partition: set() for partition in self.low}

    async def say(self, **control: Any) -> None:
        """Send a control message to every member."""
        for socket, _ in list(self.members):
            await socket.send_json(control)

    def _history_of(self, partition: int, offsets: set[int]) -> dict[str, Any]:
        known = {
            str(each): self.history[partition, each]
            for each in offsets
            if (partition, each) in self.history
        }
        return {"history": known} if known else {}

    def _tried(self, partition: int, offset: int) -> None:
        self.attempts[partition, offset] = self.attempts.get((partition, offset), 0) + 1

    async def _heard(self, socket: web.WebSocketResponse, said: dict[str, Any]) -> None:
        self.said.append(said)
        match said["type"]:
            case "credit":
                self.credit += said["bytes"]
            case "ack":
                await self._ack(socket, said)
            case "nack":
                for offset in said["offsets"]:
                    self._sent[said["partition"]].discard(offset)
                    self._nacked.add((said["partition"], offset))
                    self._tried(said["partition"], offset)
            case "attempts":
                for offset, tries in said["attempts"].items():
                    self.attempts[said["partition"], int(offset)] = tries
                for offset, tries in said.get("history", {}).items():
                    self.history.setdefault((said["partition"], int(offset)), []).extend(tries)

    async def _ack(self, socket: web.WebSocketResponse, said: dict[str, Any]) -> None:
        partition = said["partition"]
        if self.silent_acks:
            return
        stale = (
            said["generation"] != self.generation
            if "generation" in said
            else said["lease"] not in self._leased
        )
        if stale:
            kept = {name: said[name] for name in ("generation", "lease") if name in said}
            await socket.send_json({"type": "fenced", "partition": partition, **kept})
            return
        for first, last in said["ranges"]:
            for each in range(first, last + 1):
                known = self._sent[partition] | self.acked[partition]
                if each >= self.low[partition] and each not in known:
                    detail = f"{each} was not given"
                    await socket.send_json({"type": "end", "code": "bad_message", "detail": detail})
                    await socket.close()
                    return
            self.acked[partition] |= set(range(first, last + 1))
        while self.low[partition] in self.acked[partition]:
            self.acked[partition].discard(self.low[partition])
            self.low[partition] += 1
        await socket.send_json(
            {
                "type": "acked",
                "partition": partition,
                "low": self.low[partition],
                "ranges": said["ranges"],
            }
        )

    async def _feed(self, socket: web.WebSocketResponse) -> None:
        topic = self.definition["topic"]
        while True:
            for partition in self.low:
                for base, whole in list(self.log.frames.get((topic, partition), ())):
                    (frame,) = iter_frames(whole)
                    due = set(range(base, base + frame.envelope.producer.count))
                    due = {each for each in due if each >= self.low[partition]}
                    due -= self.acked[partition] | self._sent[partition]
                    if due and self.credit > 0:
                        self._sent[partition] |= due
                        self.credit -= len(whole)
                        await self._give(socket, partition, base, frame, due, whole)
            async with self.log.appended:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.2):
                        await self.log.appended.wait()
                        continue
            if not self.quiet:
                await socket.send_json({"type": "heartbeat", "end_offsets": {}})

    async def _give(
        self,
        socket: web.WebSocketResponse,
        partition: int,
        base: int,
        frame: Any,
        due: set[int],
        whole: bytes,
    ) -> None:
        if self.definition["mode"] == "fcfs":
            self.leases += 1
            self._leased[self.leases] = (partition, due)
            count = frame.envelope.producer.count
            taken = set(range(base, base + count)) - due
            await socket.send_json(
                {
                    "type": "lease",
                    "partition": partition,
                    "lease": self.leases,
                    "first_offset": base,
                    "count": count,
                    "acked": [[each, each] for each in sorted(taken)],
                    "attempts": {
                        str(each): self.attempts[partition, each]
                        for each in due
                        if (partition, each) in self.attempts
                    },
                    **self._history_of(partition, due),
                }
            )
        elif again := {each for each in due if (partition, each) in self._nacked}:
            self._nacked -= {(partition, each) for each in again}
            await socket.send_json(
                {
                    "type": "redeliver",
                    "partition": partition,
                    "generation": self.generation,
                    "first_offset": base,
                    "count": frame.envelope.producer.count,
                    "offsets": sorted(again),
                    "attempts": {str(each): self.attempts[partition, each] for each in again},
                    **self._history_of(partition, again),
                }
            )
        await socket.send_bytes(whole)
