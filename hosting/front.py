"""A front before a site's connections: it answers the requests that have to be fast by itself.

A connection begins here. Requests whose heads a front understands are served here, one after the
other; at the first other one the connection is handed on to the site, with every byte that came,
and stays there. So a front may be as strict as it likes: what it does not understand exactly is
judged by the site. Must never know what is served.
"""

import asyncio
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from email.utils import formatdate
from typing import Any, Final, Generic, Protocol, TypeVar, cast

from aiohttp import web

from hosting.problems import REQUEST_ID_HEADER, SERVER, Problem, problem_response

HEAD_BYTES_MAX: Final = 8 * 1024
"""Longer heads are aiohttp's to judge."""
AHEAD_BYTES_MAX: Final = 64 * 1024
"""What a caller may send before its last request is answered."""
IDLE_S: Final = 15.0
"""A connection is closed after this without a whole head, since its begin or its last answer."""
BODY_S_MAX: Final = 30.0
"""For a whole request body, as on the site."""
SWEEP_S: Final = 1.0
"""How often such connections are looked for, or more often where their time is short."""
_END: Final = b"\r\n\r\n"
_TOO_SLOW: Final = Problem(408, "request_timeout", "The body took too long")


class Plan(Protocol):
    """What a front knows of a request before its body has come."""

    @property
    def content_length(self) -> int: ...


P = TypeVar("P", bound=Plan)
Protocols = Callable[[], asyncio.Protocol]


class Front(ABC, Generic[P]):
    """Makes the connections of a site: a component, to be started and drained after it.

    `begins` is how the first line of every request for this front begins; `draining` is the site's
    own event, since the site refuses what is handed on once it is set.
    """

    name = "front"

    def __init__(
        self,
        *,
        begins: bytes,
        connections_max: int,
        draining: asyncio.Event,
        body_s_max: float = BODY_S_MAX,
        idle_s_max: float = IDLE_S,
    ) -> None:
        self.begins = begins
        self.body_s_max = body_s_max
        self.idle_s_max = idle_s_max
        self._sweep_s = min(SWEEP_S, idle_s_max / 4)
        self.connections: set[FrontConnection[P]] = set()
        self.connections_max = connections_max
        self._draining = draining
        self._sweeper: asyncio.TimerHandle | None = None
        self._quiet = asyncio.Event()
        self._date = (0, b"")
        self._tasks: set[asyncio.Task[None]] = set()

    @abstractmethod
    def plan(self, head: bytes, connection: "FrontConnection[P]") -> P | None:
        """What to do with a head without its empty line; None where the site has to do it."""

    @abstractmethod
    def serve(self, connection: "FrontConnection[P]", plan: P, body: bytes) -> None:
        """Begin to serve a request; ends with one call of `connection.answer`."""

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Do what `serve` can't end at once on a task of its own: it goes on without the caller."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def dropped(self, plan: P) -> None:
        """The body of a planned request will not come."""

    def lost(self, caller: object) -> None:
        """The connection of such a caller is gone, and was not handed on."""

    def admits(self, transport: asyncio.Transport) -> object | None:  # noqa: ARG002 - the caller's
        """What is known of the caller, kept with the connection; None is for the site to judge."""
        return True

    @property
    def draining(self) -> bool:
        """Whether new requests are refused."""
        return self._draining.is_set()

    def wrap(self, protocols: Protocols) -> Protocols:
        """Stand before the site's own connections."""
        return lambda: FrontConnection(self, protocols)

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

    def encode(
        self, status: bytes, media: bytes, body: bytes, identity: str, *, last: bool = False
    ) -> bytes:
        """A whole answer that says only what most answers say, or also that it is the last."""
        return (
            b"HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n%sDate: %s\r\n"
            b"%s: %s\r\nServer: %s\r\n\r\n%s"
        ) % (
            status,
            media,
            len(body),
            b"Connection: close\r\n" if last else b"",
            self._http_date(),
            REQUEST_ID_HEADER.encode(),
            identity.encode(),
            SERVER.encode(),
            body,
        )

    def encode_response(self, response: web.Response) -> bytes:
        """An answer that was made for aiohttp, such as a refusal."""
        lines = "".join(f"{name}: {value}\r\n" for name, value in response.headers.items())
        body = cast(bytes, response.body or b"")
        head = f"HTTP/1.1 {response.status} {response.reason}\r\n{lines}".encode()
        return b"%sContent-Length: %d\r\nDate: %s\r\n\r\n%s" % (
            head,
            len(body),
            self._http_date(),
            body,
        )

    def _http_date(self) -> bytes:
        """The time as a header has it, made anew once a second."""
        second = int(time.time())
        if self._date[0] != second:
            self._date = (second, formatdate(second, usegmt=True).encode())
        return self._date[1]

    def _sweep(self) -> None:
        now = time.monotonic()
        for connection in list(self.connections):
            if connection.too_slow(now):
                text = (
                    f"the whole body must arrive within {self.body_s_max:g} s; send less, or faster"
                )
                connection.answer(self.encode_response(_too_slow(text)))
                connection.close()
            elif connection.idle(now):
                connection.close()
        self._sweeper = asyncio.get_running_loop().call_later(self._sweep_s, self._sweep)


class FrontConnection(asyncio.Protocol, Generic[P]):
    """One connection until it is handed on. Requests are answered one after the other."""

    __slots__ = (
        "_buffer", "_front", "_missing", "_parts", "_paused", "_plan", "_protocols",
        "_since", "_transport", "busy", "caller",
    )  # fmt: skip

    def __init__(self, front: Front[P], protocols: Protocols) -> None:
        self._front = front
        self._protocols = protocols
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._plan: P | None = None
        self._parts: list[bytes] = []
        self._missing = 0
        self._paused = False
        self._since = 0.0
        self.busy = False
        self.caller: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, or leave it to the site to say that there are too many, or who this is."""
        self._transport = cast(asyncio.Transport, transport)
        self._since = time.monotonic()
        if len(self._front.connections) < self._front.connections_max:
            self.caller = self._front.admits(self._transport)
        if self.caller is None:
            self._hand_on()
            return
        self._front.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's form
        """Whoever waited is gone; what was accepted goes on."""
        self._transport = None
        self._drop_plan()
        self._front.connections.discard(self)
        self._front.lost(self.caller)
        self._front.finished()

    def data_received(self, data: bytes) -> None:
        """Take what came; serve what is whole."""
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

    def idle(self, now: float) -> bool:
        """Whether no request came since the last answer, or only a part of its head."""
        waits = not self.busy and self._plan is None
        return waits and now - self._since > self._front.idle_s_max

    def too_slow(self, now: float) -> bool:
        """Whether a body has not come in its time."""
        return self._plan is not None and now - self._since > self._front.body_s_max

    def close(self) -> None:
        """End the connection, once what was written has gone."""
        self._buffer = b""
        if self._transport is not None:
            self._transport.close()

    def answer(self, whole: bytes) -> None:
        """Answer the request that is being served, and begin with the next."""
        transport = self._transport
        self.busy = False
        self._since = time.monotonic()
        if self._front.draining:
            self._front.finished()
        if transport is None:
            return
        transport.write(whole)
        if self._paused:
            self._paused = False
            transport.resume_reading()
        if self._buffer:
            # Later, so that a caller which sends ahead cannot nest the calls without end.
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        if self._transport is not None and self._buffer and not self.busy:
            self._serve()

    def _serve(self) -> None:
        """Serve the request at the begin of the buffer, if it is whole."""
        front = self._front
        plan = self._plan
        if plan is None:
            end = self._buffer.find(_END)
            if end < 0 and self._may_be_planned():
                return
            if 0 <= end <= HEAD_BYTES_MAX and not front.draining:
                plan = front.plan(self._buffer[:end], self)
            if plan is None:
                self._hand_on()
                return
            self._buffer = self._buffer[end + len(_END) :]
            self._plan = plan
            self._since = time.monotonic()
        if len(self._buffer) < plan.content_length:
            self._parts = [self._buffer]
            self._missing = plan.content_length - len(self._buffer)
            self._buffer = b""
            return
        body = self._buffer[: plan.content_length]
        self._buffer = self._buffer[plan.content_length :]
        self._plan = None
        self.busy = True
        front.serve(self, plan, body)

    def _may_be_planned(self) -> bool:
        """Whether bytes that are no whole head yet may become one for this front."""
        wanted, begin = self._front.begins, self._buffer
        return len(begin) <= HEAD_BYTES_MAX and begin[: len(wanted)] == wanted[: len(begin)]

    def _drop_plan(self) -> None:
        if self._plan is not None:
            self._front.dropped(self._plan)
            self._plan = None

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


def _too_slow(text: str) -> web.Response:
    return problem_response(
        _TOO_SLOW, text, request_id=secrets.token_hex(8), headers={"Connection": "close"}
    )
