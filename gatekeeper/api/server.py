"""The mTLS listener of :8443: accepts, bounds the handshakes, and hands requests to one handler.

It has its own accept loop, because `loop.create_server` has no bound on handshakes in progress, and
a plain bound would let a flood of half-open connections lock honest callers out. Knows nothing of
routes, tokens and policy.
"""

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from gatekeeper.api.connections import Connections
from gatekeeper.api.handshakes import Handshakes, source_of
from hosting.front import Protocols
from hosting.http_protocol import Connections as Places
from hosting.http_protocol import SiteProtocol
from hosting.lifecycle import StartError
from hosting.listener import CannotListen, PortTaken
from hosting.units import Address

log = logging.getLogger("sidegate.gatekeeper.server")

BACKLOG: Final = 1024
"""Connections that the kernel holds for us between two turns of the event loop."""
ACCEPTS_PER_TURN: Final = 64
"""Accepted in one turn, so that a flood of connections does not keep requests waiting."""
ACCEPT_PAUSE_S: Final = 0.2
"""Wait after the process has run out of file descriptors: some must be closed first."""
LINGER_S: Final = 1.0
"""How long the rest of a refused body is read and dropped, so that its sender sees the answer."""

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Bounds that the listener itself holds; see `LimitsConfig` for the reasons."""

    handshake_timeout_s: float
    handshakes_max: int
    header_timeout_s: float
    header_bytes_max: int
    headers_max: int


class Listener:
    """A hosting component. Not thread-safe; lives in one event loop."""

    name = "listener"

    def __init__(
        self,
        handler: Handler,
        address: Address,
        *,
        context: ssl.SSLContext,
        connections: Connections,
        limits: ServerLimits,
        front: Callable[[Protocols], Protocols] | None = None,
    ) -> None:
        """`front` may stand before the connections, to answer some requests itself."""
        self._handler = handler
        self._front = front
        self._address = address
        self._context = context
        self._connections = connections
        self._limits = limits
        self._sockets: list[socket.socket] = []
        self._handshakes: Handshakes[socket.socket] = Handshakes(limits.handshakes_max)
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: _Server | None = None
        self.handshakes_dropped = 0
        self.handshakes_failed = 0
        self.connections_refused = 0

    @property
    def port(self) -> int:
        """The port that is served: the one the system chose where the address says 0."""
        return int(self._sockets[0].getsockname()[1])

    @property
    def handshakes(self) -> int:
        """Handshakes in progress."""
        return len(self._handshakes)

    async def start(self) -> None:
        """Bind and serve, or raise PortTaken or CannotListen."""
        loop = asyncio.get_running_loop()
        self._server = _Server(self._handler, self._connections, self._limits)
        try:
            found = await loop.getaddrinfo(
                self._address.host or None,
                self._address.port,
                type=socket.SOCK_STREAM,
                flags=socket.AI_PASSIVE,
            )
            for family, kind, protocol, _name, address in dict.fromkeys(found):
                self._sockets.append(_bound(family, kind, protocol, address))
        except OSError as error:
            self._close_sockets()
            raise _explained(error, self._address) from error
        for listening in self._sockets:
            loop.add_reader(listening.fileno(), self._accept, listening)
        log.info("listening", extra={"fields": {"address": str(self._address)}})

    def close(self) -> None:
        """Take no new connection."""
        self._close_sockets()

    async def drain(self) -> None:
        """Take no new connection; let the open ones finish the request they are at."""
        self._close_sockets()
        for accepted in self._handshakes:
            self._drop(accepted)
        if self._server is not None:
            self._server.pre_shutdown()

    async def stop(self) -> None:
        """End what is still open."""
        self._close_sockets()
        for accepted in self._handshakes:
            self._drop(accepted)
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._server is not None:
            await self._server.shutdown(LINGER_S)

    def _close_sockets(self) -> None:
        loop = asyncio.get_running_loop()
        for listening in self._sockets:
            if listening.fileno() != -1:
                loop.remove_reader(listening.fileno())
                listening.close()

    def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(ACCEPTS_PER_TURN):
            try:
                accepted, peer = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                log.warning(
                    "no connection can be accepted for now",
                    extra={"fields": {"error": error.strerror, "open": len(self._connections)}},
                )
                loop.remove_reader(listening.fileno())
                loop.call_later(ACCEPT_PAUSE_S, self._resume, listening)
                return
            accepted.setblocking(False)
            if self._connections.full:
                self.connections_refused += 1
                accepted.close()
                continue
            victim = self._handshakes.victim()
            if victim is not None:
                self.handshakes_dropped += 1
                self._drop(victim)
            self._handshakes.begin(accepted, source_of(peer))
            task = loop.create_task(self._shake_hands(accepted))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _resume(self, listening: socket.socket) -> None:
        if listening.fileno() != -1:
            asyncio.get_running_loop().add_reader(listening.fileno(), self._accept, listening)

    async def _shake_hands(self, accepted: socket.socket) -> None:
        server = self._server
        try:
            if server is not None:
                await asyncio.get_running_loop().connect_accepted_socket(
                    server if self._front is None else self._front(server),
                    accepted,
                    ssl=self._context,
                    ssl_handshake_timeout=self._limits.handshake_timeout_s,
                    ssl_shutdown_timeout=LINGER_S,
                )
        except (OSError, ssl.SSLError) as error:
            # A peer that fails its handshake is not an event of ours; it is counted, not logged.
            self.handshakes_failed += 1
            log.debug("handshake failed", extra={"fields": {"error": str(error)}})
        finally:
            self._handshakes.end(accepted)

    def _drop(self, accepted: socket.socket) -> None:
        if self._handshakes.end(accepted) and accepted.fileno() != -1:
            # Not a cancellation: the event loop notices the closed socket and ends the handshake
            # with its own clean-up, in asyncio and in uvloop alike.
            try:
                accepted.shutdown(socket.SHUT_RDWR)
            except OSError as error:
                log.debug("already closed", extra={"fields": {"error": error.strerror}})


class _Server(web.Server):
    """aiohttp's server, which also tells the registry of each connection's begin and end."""

    def __init__(self, handler: Handler, connections: Connections, limits: ServerLimits) -> None:
        super().__init__(handler, handler_cancellation=True)
        self._registry = connections
        self._transports: dict[RequestHandler, asyncio.Transport] = {}
        self._limits = limits
        self._places = Places(connections.connections_max, self._refuse)
        self.refused = 0

    def __call__(self) -> SiteProtocol:
        limits = self._limits
        return SiteProtocol(
            self,
            self._places,
            loop=self._loop,
            keepalive_timeout=limits.header_timeout_s,
            lingering_time=LINGER_S,
            max_line_size=limits.header_bytes_max,
            max_field_size=limits.header_bytes_max,
            max_headers=limits.headers_max,
            auto_decompress=False,
            access_log=None,
        )

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        self._transports[handler] = transport
        self._registry.opened(transport, self._loop.time())

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        transport = self._transports.pop(handler, None)
        if transport is not None:
            self._registry.closed(transport)
        super().connection_lost(handler, exc)

    def _refuse(self) -> None:
        self.refused += 1


def _bound(family: int, kind: int, protocol: int, address: Any) -> socket.socket:
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.setblocking(False)
        listening.bind(address)
        listening.listen(BACKLOG)
    except OSError:
        listening.close()
        raise
    return listening


def _explained(error: OSError, address: Address) -> StartError:
    if error.errno == errno.EADDRINUSE:
        return PortTaken(
            f"{address} is already in use; stop what uses it, or set `listen` in the configuration "
            "to another address"
        )
    reason = error.strerror or str(error)
    return CannotListen(f"{address} can't be listened at ({reason}); set `listen` to another")
