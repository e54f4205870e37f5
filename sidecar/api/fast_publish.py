"""The fast front of the app-facing site: `POST /publish` without aiohttp's application layer.

A connection begins here. Heads that `fast_head.py` understands are served here; at the first other
one the connection is handed on to aiohttp, with every byte that came, and stays there. What is
published goes the same way as from any other route.
"""

import asyncio
import time
from collections.abc import Callable
from email.utils import formatdate
from typing import Final, cast

import orjson

from hosting.problems import REQUEST_ID_HEADER, SERVER, problem_response
from sidecar.api.fast_head import HEAD_BYTES_MAX, Plan, parse_head
from sidecar.api.guard import Guard
from sidecar.api.problems import PROBLEMS
from sidecar.errors import SidecarError
from sidecar.publish.batch import Committed, Entry, Kept, Outcome
from sidecar.publish.message import parse_publish
from sidecar.publish.publisher import Publisher

PLANS_MAX: Final = 1024
"""Heads whose plan is remembered: a client sends the same one but for its Content-Length."""
PLANNED_HEAD_BYTES_MAX: Final = 1024
"""Longer heads are read anew each time, which bounds what is remembered to a megabyte."""
AHEAD_BYTES_MAX: Final = 64 * 1024
"""What a client may send before its last request is answered."""
IDLE_S: Final = 15.0
"""An idle connection, or one whose request does not arrive, is closed after this."""
SWEEP_S: Final = 1.0
"""How often idle connections are looked for."""
_END: Final = b"\r\n\r\n"


class FastFront:
    """Makes the connections of the site. A hosting component, to be added after the site."""

    name = "fast publish"

    def __init__(
        self,
        publisher: Publisher,
        guard: Guard,
        *,
        message_bytes_max: int,
        body_bytes_max: int,
        patience: Callable[[int | None], float],
        connections_max: int,
        draining: asyncio.Event,
    ) -> None:
        """`draining` is the site's own event: once set, the site refuses what is handed on."""
        self.publisher = publisher
        self.message_bytes_max = message_bytes_max
        self.body_bytes_max = body_bytes_max
        self.connections: set[FastConnection] = set()
        self.connections_max = connections_max
        self.requests = 0
        self._draining = draining
        self._guard = guard
        self._patience = patience
        self._plans: dict[bytes, Plan] = {}
        self._sweeper: asyncio.TimerHandle | None = None
        self._quiet = asyncio.Event()
        self._date = (0, b"")
        self._id_prefix = f"{time.time_ns() & 0xFFFFFFFF:08x}"

    @property
    def draining(self) -> bool:
        """Whether new requests are refused."""
        return self._draining.is_set()

    def wrap(self, protocols: Callable[[], asyncio.Protocol]) -> Callable[[], asyncio.Protocol]:
        """Stand before the site's own connections."""
        return lambda: FastConnection(self, protocols)

    async def start(self) -> None:
        """Begin to look for idle connections."""
        self._sweep()

    async def drain(self) -> None:
        """Hand every further request on to the site, which refuses it; finish those taken.

        The site's own turn comes only when this one ends: its event is set here, else it would
        go on accepting until then.
        """
        self._draining.set()
        while any(connection.busy for connection in self.connections):
            self._quiet.clear()
            await self._quiet.wait()

    async def stop(self) -> None:
        """Close what is open."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in list(self.connections):
            connection.close()

    def finished(self) -> None:
        """A request was answered, or its connection is gone."""
        self._quiet.set()

    def plan(self, head: bytes) -> Plan | None:
        """What to do with a head; None where aiohttp has to do it."""
        known = self._plans.get(head)
        if known is not None:
            return known
        plan = parse_head(head, self._guard, self.body_bytes_max, self._patience)
        if plan is not None and len(head) <= PLANNED_HEAD_BYTES_MAX:
            if len(self._plans) >= PLANS_MAX:
                self._plans.clear()
            self._plans[head] = plan
        return plan

    def encode(self, outcome: Outcome) -> bytes:
        """The whole HTTP answer."""
        self.requests += 1
        identity = f"{self._id_prefix}{self.requests:08x}"
        if isinstance(outcome, Committed):
            topic, partition, offset, own, durability = outcome
            body = b'{"topic":"%s","partition":%d,"offset":%d,"id":%s,"durability":"%s"}' % (
                topic.encode("ascii"),
                partition,
                offset,
                orjson.dumps(own),
                durability.encode("ascii"),
            )
            return self._response(b"200 OK", b"application/json", body, identity)
        if isinstance(outcome, Kept):
            return self._response(
                b"202 Accepted", b"application/json", orjson.dumps(outcome._asdict()), identity
            )
        return self._problem(outcome, identity)

    def _problem(self, error: SidecarError, identity: str) -> bytes:
        problem = PROBLEMS.find(error)
        if problem is None:
            raise error
        response = problem_response(
            problem, str(error), request_id=identity, members=error.members, headers=error.headers
        )
        status = f"{response.status} {response.reason}".encode()
        more = "".join(f"{name}: {value}\r\n" for name, value in error.headers.items())
        body = cast(bytes, response.body)
        return self._response(status, b"application/problem+json", body, identity, more.encode())

    def _response(
        self, status: bytes, media: bytes, body: bytes, identity: str, more: bytes = b""
    ) -> bytes:
        second = int(time.time())
        if self._date[0] != second:
            self._date = (second, formatdate(second, usegmt=True).encode())
        return (
            b"HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n%sDate: %s\r\n"
            b"%s: %s\r\nServer: %s\r\n\r\n%s"
        ) % (
            status,
            media,
            len(body),
            more,
            self._date[1],
            REQUEST_ID_HEADER.encode(),
            identity.encode(),
            SERVER.encode(),
            body,
        )

    def _sweep(self) -> None:
        now = time.monotonic()
        for connection in list(self.connections):
            if not connection.busy and now - connection.heard_at > IDLE_S:
                connection.close()
        self._sweeper = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)


class FastConnection(asyncio.Protocol):
    """One connection until it is handed on. Requests are answered one after the other."""

    __slots__ = (
        "_buffer", "_front", "_missing", "_parts", "_paused", "_plan", "_protocols", "_transport",
        "busy", "heard_at",
    )  # fmt: skip

    def __init__(self, front: FastFront, protocols: Callable[[], asyncio.Protocol]) -> None:
        self._front = front
        self._protocols = protocols
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._plan: Plan | None = None
        self._parts: list[bytes] = []
        self._missing = 0
        self._paused = False
        self.busy = False
        self.heard_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, or leave it to aiohttp to say that there are too many."""
        self._transport = cast(asyncio.Transport, transport)
        self.heard_at = time.monotonic()
        if len(self._front.connections) >= self._front.connections_max:
            self._hand_on()
            return
        self._front.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's form
        """Whoever waited is gone; what was accepted goes on."""
        self._transport = None
        self._front.connections.discard(self)
        self._front.finished()

    def data_received(self, data: bytes) -> None:
        """Take what came; serve what is whole."""
        self.heard_at = time.monotonic()
        if self._missing > 0:
            # A body in many pieces is put together once, not at each of them.
            self._parts.append(data)
            self._missing -= len(data)
            if self._missing > 0:
                return
            data = b"".join(self._parts)
            self._parts.clear()
        self._buffer = self._buffer + data if self._buffer else data
        if not self.busy:
            self._serve()
        elif len(self._buffer) > AHEAD_BYTES_MAX and not self._paused and self._transport:
            self._paused = True
            self._transport.pause_reading()

    def close(self) -> None:
        """End the connection."""
        if self._transport is not None:
            self._transport.close()

    def _serve(self) -> None:
        """Serve the request at the front of the buffer, if it is whole."""
        front = self._front
        plan = self._plan
        if plan is None:
            end = self._buffer.find(_END)
            if end < 0:
                if len(self._buffer) > HEAD_BYTES_MAX or not _may_be_fast(self._buffer):
                    self._hand_on()
                return
            plan = None if front.draining else front.plan(self._buffer[:end])
            if plan is None:
                self._hand_on()
                return
            self._buffer = self._buffer[end + 4 :]
            self._plan = plan
        if len(self._buffer) < plan.content_length:
            self._missing = plan.content_length - len(self._buffer)
            return
        body = self._buffer[: plan.content_length]
        self._buffer = self._buffer[plan.content_length :]
        self._plan = None
        self.busy = True
        try:
            message = parse_publish(body, time.time_ns() // 1000, front.message_bytes_max)
        except SidecarError as error:
            self._answered(error)
        else:
            front.publisher.submit(Entry(message, plan.ack, self._answered), plan.timeout_s)

    def _answered(self, outcome: Outcome) -> None:
        transport = self._transport
        self.busy = False
        if transport is None:
            return
        transport.write(self._front.encode(outcome))
        if self._front.draining:
            self._front.finished()
        if self._paused:
            self._paused = False
            transport.resume_reading()
        if self._buffer:
            # Later, so that a client which sends ahead cannot nest the calls without end.
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        if self._transport is not None and self._buffer and not self.busy:
            self._serve()

    def _hand_on(self) -> None:
        transport = self._transport
        if transport is None:
            return
        self._front.connections.discard(self)
        self._transport = None
        protocol = self._protocols()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        if self._buffer:
            protocol.data_received(self._buffer)
            self._buffer = b""


def _may_be_fast(begin: bytes) -> bool:
    """Whether bytes that are no whole head yet may become one for this path."""
    wanted = b"POST /publish"
    return begin[: len(wanted)] == wanted[: len(begin)]
