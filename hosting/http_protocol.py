"""One HTTP connection: aiohttp's, with our answers to what is not HTTP, and counted.

May import aiohttp. What a caller sent in place of a request is neither repeated to it nor
logged, because a mistyped header may hold a token.
"""

import asyncio
import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final, cast

from aiohttp import web
from aiohttp.http_exceptions import LineTooLong

from hosting.problems import (
    HEADERS_TOO_LARGE,
    MALFORMED,
    Problem,
    ProblemTable,
    begin_request,
    problem_response,
    response_for,
)

log = logging.getLogger("sidegate.hosting")

_NO_TABLE: Final = ProblemTable({})


class Connections:
    """How many connections a site has, and may have."""

    def __init__(self, at_most: int, refused: Callable[[], None]) -> None:
        self.count = 0
        self._at_most = at_most
        self._refused = refused

    def admit(self) -> bool:
        """Count one more, or refuse it."""
        if self.count >= self._at_most:
            self._refused()
            return False
        self.count += 1
        return True

    def release(self) -> None:
        """One that was admitted has ended."""
        self.count -= 1


class SiteProtocol(web.RequestHandler):
    """A connection of a site."""

    __slots__ = ("_admitted", "_connections", "gone")

    def __init__(self, server: web.Server, connections: Connections, **settings: Any) -> None:
        super().__init__(server, **settings)
        self._connections = connections
        self._admitted = False
        self.gone = asyncio.Event()
        """Set when the caller has left, or the connection was lost."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Serve the connection, or end it where there are too many."""
        self._admitted = self._connections.admit()
        if self._admitted:
            super().connection_made(transport)
        else:
            self.force_close()
            cast(asyncio.Transport, transport).abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Give the place to another."""
        if self._admitted:
            self._connections.release()
            self._admitted = False
        self.gone.set()
        super().connection_lost(exc)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """aiohttp's own refusals as problem+json: of what is not HTTP, and of what got past us."""
        if status == HTTPStatus.BAD_REQUEST:
            fields = {"remote": request.remote, "kind": type(exc).__name__}
            log.debug("malformed request refused", extra={"fields": fields})
            problem, detail = _refusal_of(exc)
            identity = begin_request(request)
            response: web.StreamResponse = problem_response(problem, detail, request_id=identity)
        else:
            error = exc if isinstance(exc, Exception) else RuntimeError(message or "no answer")
            response = response_for(error, request, _NO_TABLE)
        response.force_close()
        return response


def caller_gone(request: web.BaseRequest) -> asyncio.Event:
    """Set when nobody is there any more to read the answer: for answers that take their time."""
    return cast(SiteProtocol, request.protocol).gone


def _refusal_of(error: BaseException | None) -> tuple[Problem, str]:
    if isinstance(error, LineTooLong):
        return HEADERS_TOO_LARGE, "shorten the URL or the headers"
    return MALFORMED, "what was sent is not an HTTP/1.1 request"
