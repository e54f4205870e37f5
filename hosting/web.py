"""An HTTP site as a component: listens, answers within limits, drains, closes.

    site = HttpSite("api", app, Address.parse("127.0.0.1:9000"), ssl=contexts.server)

May import aiohttp. Must never know what the application serves.
"""

import asyncio
import logging
import ssl as tls
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from aiohttp import web

from hosting import problems
from hosting.health import ALWAYS_SERVED, add_health_routes, health_app
from hosting.http_protocol import Connections, SiteProtocol
from hosting.listener import CannotListen, Listener, PortTaken, TlsListening, listen
from hosting.metrics import HttpMetrics
from hosting.problems import (
    REQUEST_ID,
    REQUEST_ID_HEADER,
    SERVER,
    BodyTooSlow,
    ProblemTable,
    begin_request,
    problem_response,
    response_for,
)
from hosting.units import Address

__all__ = [
    "DRAINING",
    "CannotListen",
    "HttpLimits",
    "HttpSite",
    "PortTaken",
    "add_health_routes",
    "health_app",
    "peer_certificate",
    "transport_certificate",
]

log = logging.getLogger("sidegate.hosting")

DRAINING: Final = web.AppKey("sidegate.draining", asyncio.Event)
"""Set when the site begins to drain: streams end themselves then, before they are cut."""
KEEPALIVE_S_MAX: Final = 15.0
"""aiohttp's own default is an hour, for which one caller could hold a socket by sending nothing."""
RETRY_AFTER_S: Final = 1
"""Another instance, or this one after its restart, is worth asking then."""

WARNING_S_MIN: Final = 10.0
"""A flood of connections must not become a flood of log lines; the metric counts them all."""

_NO_TABLE: Final = ProblemTable({})
_ENCODED: Final = problems.Problem(415, "unsupported_media_type", "Unsupported content coding")
_Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """What one site allows its callers. The largest body is the application's own limit."""

    request_line_bytes_max: int = 8 * 1024
    """What proxies and browsers commonly allow a URL."""
    header_bytes_max: int = 16 * 1024
    """One header field. An access token with many claims comes to about half of it."""
    headers_max: int = 64
    """Browsers send about twenty."""
    keepalive_s: float = KEEPALIVE_S_MAX
    """For an idle connection, and for one whose request's headers do not arrive."""
    body_s_max: float = 30.0
    """For a whole request body: 32 MiB at about 1 MiB/s."""
    linger_s: float = 2.0
    """How long a refused body is still read away, so that the client gets to see the refusal."""
    tls_handshake_s: float = 5.0
    """Two round trips; five seconds reach around the world many times."""
    tls_shutdown_s: float = 1.0
    """For the peer's farewell; one that is gone never says it."""
    connections_max: int = 4096
    """Keeps a flood of connections from using up the process's file descriptors."""
    backlog: int = 512
    """Connections that wait to be accepted, as a burst of restarting clients makes them."""
    close_s: float = 0.25
    """For handlers that have outlived the drain, before they are cancelled."""

    def __post_init__(self) -> None:
        if not 0 < self.keepalive_s <= KEEPALIVE_S_MAX:
            raise ValueError(f"keepalive_s must be above 0 and at most {KEEPALIVE_S_MAX}")


Protocols = Callable[[], asyncio.Protocol]
"""Makes the protocol of a new connection."""


class HttpSite:
    """One application at one address: a component. An application belongs to one site only.

    Draining: the site stops listening, answers new requests on open connections with 503, sets
    `app[DRAINING]`, and waits for the requests that it had accepted.
    """

    def __init__(
        self,
        name: str,
        app: web.Application,
        address: Address,
        *,
        ssl: tls.SSLContext | None = None,
        limits: HttpLimits | None = None,
        setting: str = "listen",
        metrics: HttpMetrics | None = None,
        serves_while_draining: bool = False,
        socket_mode: int = 0o600,
        front: Callable[[Protocols], Protocols] | None = None,
    ) -> None:
        """`setting` is the configuration key that the message of a taken address names.

        `serves_while_draining` is for a site that only tells about the service. `front` may stand
        before the site's connections, to answer some requests itself and hand the others on.
        """
        self.name = name
        self._app = app
        self._address = address
        self._ssl = ssl
        self._limits = limits or HttpLimits()
        self._setting = setting
        self._metrics = metrics
        self._serves_while_draining = serves_while_draining
        self._socket_mode = socket_mode
        self._front = front
        self._connections = Connections(self._limits.connections_max, self._too_many)
        self._next_warning = 0.0
        self._in_flight = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._runner: web.AppRunner | None = None
        self._listener: Listener | None = None
        self._draining = app.setdefault(DRAINING, asyncio.Event())
        app.on_response_prepare.append(_sign)

    @property
    def address(self) -> Address:
        """Where the site listens; after `start`, with the port that port 0 became."""
        return self._address if self._listener is None else self._listener.address

    @property
    def port(self) -> int:
        """The port of `address`. There is none at a Unix socket."""
        if self.address.port is None:
            raise RuntimeError(f"{self.name} listens at {self.address}, which has no port")
        return self.address.port

    @property
    def in_flight(self) -> int:
        """Requests that were accepted and have no answer yet."""
        return self._in_flight

    async def start(self) -> None:
        """Listen. Raises PortTaken or CannotListen."""
        runner = web.AppRunner(self._app, access_log=None, shutdown_timeout=self._limits.close_s)
        try:
            await runner.setup()
            self._listener = await listen(
                self._protocols(runner),
                self._address,
                setting=self._setting,
                backlog=self._limits.backlog,
                tls=self._tls(),
                socket_mode=self._socket_mode,
            )
        except BaseException:
            await runner.cleanup()
            raise
        self._runner = runner
        log.info("listening", extra={"fields": {"site": self.name, "address": str(self.address)}})

    async def drain(self) -> None:
        """Refuse new requests; wait for those that were accepted."""
        if self._serves_while_draining:
            return
        self._draining.set()
        self._close_listener()
        await self._idle.wait()

    async def stop(self) -> None:
        """Close every connection. Handlers that still run get `close_s`, then are cancelled."""
        self._draining.set()
        self._close_listener()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def _close_listener(self) -> None:
        if self._listener is not None:
            self._address = self._listener.address
            self._listener.close()
            self._listener = None

    def _tls(self) -> TlsListening | None:
        if self._ssl is None:
            return None
        limits = self._limits
        return TlsListening(self._ssl, limits.tls_handshake_s, limits.tls_shutdown_s)

    def _protocols(self, runner: web.AppRunner) -> Protocols:
        server = runner.server
        if server is None:
            raise RuntimeError("aiohttp made no server")
        server.request_handler = self._gate(server.request_handler)
        loop = asyncio.get_running_loop()
        limits = self._limits

        def make() -> SiteProtocol:
            return SiteProtocol(
                server,
                self._connections,
                loop=loop,
                access_log=None,
                keepalive_timeout=limits.keepalive_s,
                max_line_size=limits.request_line_bytes_max,
                max_field_size=limits.header_bytes_max,
                max_headers=limits.headers_max,
                lingering_time=limits.linger_s,
                auto_decompress=False,
            )

        return make if self._front is None else self._front(make)

    def _too_many(self) -> None:
        if self._metrics is not None:
            self._metrics.connection_refused(self.name)
        now = time.monotonic()
        if now >= self._next_warning:
            self._next_warning = now + WARNING_S_MIN
            fields = {"site": self.name, "connections_max": self._limits.connections_max}
            log.warning("connections refused, there are too many", extra={"fields": fields})

    def _gate(self, handle: _Handle) -> _Handle:
        """`handle` behind the site's own rules, around everything that the application does."""

        async def gate(request: web.BaseRequest) -> web.StreamResponse:
            identity = begin_request(request)
            refusal = self._refusal(request, identity)
            if refusal is not None:
                return refusal
            self._accept()
            began = time.monotonic()
            status = HTTPStatus.INTERNAL_SERVER_ERROR.value
            try:
                response = await self._answer(handle, request)
                status = response.status
                if self._draining.is_set() and not response.prepared:
                    response.force_close()
                return response
            finally:
                self._finish(request, status, time.monotonic() - began)

        return gate

    def _accept(self) -> None:
        self._in_flight += 1
        self._idle.clear()

    def _finish(self, request: web.BaseRequest, status: int, seconds: float) -> None:
        self._in_flight -= 1
        if self._in_flight == 0:
            self._idle.set()
        if self._metrics is not None:
            self._metrics.observe(self.name, request, status, seconds)
        if log.isEnabledFor(logging.DEBUG):
            fields = {
                "site": self.name,
                "method": request.method,
                "path": request.path,
                "status": status,
                "ms": round(seconds * 1000, 3),
            }
            log.debug("answered", extra={"fields": fields})

    def _refusal(self, request: web.BaseRequest, identity: str) -> web.Response | None:
        """The site's own answer to a request that the application does not get to see."""
        if self._draining.is_set() and request.path not in self._app.get(ALWAYS_SERVED, ()):
            response = problem_response(
                problems.NO_NEW_WORK,
                f"this instance takes no new work; ask again in {RETRY_AFTER_S} s",
                request_id=identity,
                headers={"Retry-After": str(RETRY_AFTER_S)},
            )
            response.force_close()
            return response
        if request.headers.get("Content-Encoding", "identity").lower() != "identity":
            return problem_response(
                _ENCODED,
                "bodies are read as they are; send yours without a Content-Encoding",
                request_id=identity,
                headers={"Accept-Encoding": "identity"},
            )
        return None

    async def _answer(self, handle: _Handle, request: web.BaseRequest) -> web.StreamResponse:
        timer = None
        if not request.content.is_eof():
            loop = asyncio.get_running_loop()
            timer = loop.call_later(self._limits.body_s_max, self._give_up_on_body, request)
        try:
            return await handle(request)
        except Exception as error:  # noqa: BLE001 - also for what comes before the middlewares
            return response_for(error, request, _NO_TABLE)
        finally:
            if timer is not None:
                timer.cancel()

    def _give_up_on_body(self, request: web.BaseRequest) -> None:
        if not request.content.is_eof():
            limit = self._limits.body_s_max
            request.content.set_exception(
                BodyTooSlow(f"the whole body must arrive within {limit:g} s; send less, or faster")
            )


async def _sign(request: web.Request, response: web.StreamResponse) -> None:
    """The headers that every answer has, also one that begins before its handler ends."""
    response.headers["Server"] = SERVER
    identity = request.get(REQUEST_ID)
    if identity is not None:
        response.headers.setdefault(REQUEST_ID_HEADER, identity)


def peer_certificate(request: web.BaseRequest) -> bytes | None:
    """The certificate that the caller's connection was made with, in DER; None without one."""
    return None if request.transport is None else transport_certificate(request.transport)


def transport_certificate(transport: asyncio.BaseTransport) -> bytes | None:
    """The certificate of whoever is at the other end, in DER; None without one."""
    secured = transport.get_extra_info("ssl_object")
    return None if secured is None else secured.getpeercert(binary_form=True)
