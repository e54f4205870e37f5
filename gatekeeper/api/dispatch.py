"""From a request to its handler: the one way in, the same for every route.

In this order: a plain path, a route of the table, known parameters, a proven caller, the handler;
then the answer to whatever went wrong, by the one list in `problems.py`. Knows no handler's work.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from aiohttp import web

from gatekeeper.api.call import Call
from gatekeeper.api.connections import Connections
from gatekeeper.api.gate import Gate
from gatekeeper.api.parameters import known_query
from gatekeeper.api.problems import PROBLEMS
from gatekeeper.api.routes import ROUTES, Route, find_route, plain_path
from gatekeeper.errors import BadPath, Draining, NoSuchRoute, WrongMethod
from gatekeeper.metrics import GateMetrics
from hosting.problems import REQUEST_ID_HEADER, begin_request, response_for

SERVER: Final = "sidegate"
"""Which versions answer is nobody's business."""
SWITCHED: Final = 101
"""A stream, whose life is no answer's latency."""

Handler = Callable[[Call], Awaitable[web.StreamResponse]]


class Dispatch:
    """The request handler of the listener. Lives in one event loop.

    Made with exactly one handler for each route of the table, or ValueError.
    """

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        *,
        gate: Gate,
        connections: Connections,
        metrics: GateMetrics,
    ) -> None:
        if handlers.keys() != {route.name for route in ROUTES}:
            raise ValueError("the handlers are not those of the table of routes")
        self._handlers = dict(handlers)
        self._gate = gate
        self._connections = connections
        self._metrics = metrics
        self._idle = asyncio.Event()
        self.in_flight = 0
        self.draining = False

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        began = time.perf_counter()
        request_id = begin_request(request)
        route: Route | None = None
        self.in_flight += 1
        try:
            try:
                route, name = self._route(request)
                response = await self._answer(request, route, name)
            except Exception as error:  # noqa: BLE001 - this is where every error ends
                response = response_for(error, request, PROBLEMS)
                self._finish_refusal(request, response)
            if not response.prepared:
                response.headers.setdefault(REQUEST_ID_HEADER, request_id)
                response.headers["Server"] = SERVER
                self._close_if_due(request, response)
            if response.status != SWITCHED:
                self._metrics.answered(
                    "none" if route is None else route.name,
                    response.status,
                    time.perf_counter() - began,
                )
            return response
        finally:
            self.in_flight -= 1
            if self.in_flight == 0:
                self._idle.set()

    async def drained(self) -> None:
        """Refuse what comes from now on and wait until what was accepted is answered."""
        self.draining = True
        while self.in_flight:
            self._idle.clear()
            await self._idle.wait()

    def _route(self, request: web.BaseRequest) -> tuple[Route, str]:
        if not plain_path(request.raw_path):
            raise BadPath(
                "a path here has no percent-encoding, no empty and no dot segments; send it plainly"
            )
        path = request.raw_path.partition("?")[0]
        try:
            return find_route(request.method, path)
        except KeyError as error:
            if not error.args:
                raise NoSuchRoute(f"nothing is served at {path}") from error
            allowed = ", ".join(error.args)
            raise WrongMethod(
                f"{path} takes {allowed}, not {request.method}", headers={"Allow": allowed}
            ) from error

    async def _answer(
        self, request: web.BaseRequest, route: Route, name: str
    ) -> web.StreamResponse:
        if self.draining:
            raise Draining("this gatekeeper takes no new work; ask another one", 1.0)
        query = known_query(request.query, route.query) if "?" in request.raw_path else {}
        caller = await self._gate.admit(request)
        return await self._handlers[route.name](Call(request, route, caller, name, query))

    def _finish_refusal(self, request: web.BaseRequest, response: web.StreamResponse) -> None:
        if response.status == 401:
            # RFC 9110, section 15.5.2: a 401 names a way to authenticate.
            response.headers.setdefault("WWW-Authenticate", "Bearer")
            connection = self._connections.of(request.transport)
            if connection is not None and connection.owner is None:
                # Nobody proven holds this connection, so nobody's limit would count it.
                response.force_close()
        elif response.status in (400, 408, 413):
            # What is left of such a request is not worth reading.
            response.force_close()

    def _close_if_due(self, request: web.BaseRequest, response: web.StreamResponse) -> None:
        if self.draining:
            response.force_close()
            return
        connection = self._connections.of(request.transport)
        now_s = asyncio.get_running_loop().time()
        if connection is not None and self._connections.too_old(connection, now_s):
            response.force_close()
