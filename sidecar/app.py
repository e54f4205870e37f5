"""The application: the guard in front of every route, and the operations bound to handlers."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from hosting.problems import error_middleware
from sidecar import docs_page
from sidecar.guard import Guard
from sidecar.openapi import openapi_json
from sidecar.operations import OPERATIONS
from sidecar.problems import PROBLEMS

Handlers = Mapping[str, Callable[[web.Request], Awaitable[web.StreamResponse]]]
_DOCS_HEADERS: Final = {"Content-Security-Policy": docs_page.SECURITY_POLICY}


def make_app(handlers: Handlers, guard: Guard) -> web.Application:
    """Bind every operation; a missing handler is found here, not by an app."""
    app = web.Application(middlewares=[error_middleware(PROBLEMS), guard_middleware(guard)])
    for operation in OPERATIONS:
        app.router.add_route(operation.method, operation.path, handlers[operation.name])
    app.router.add_get("/openapi.json", _openapi)
    for path in ("/docs", "/swagger"):
        app.router.add_get(path, _docs)
    app.router.add_get("/docs/start.js", _start_script)
    app.router.add_get("/docs/{name}", _asset)
    return app


def guard_middleware(guard: Guard) -> Middleware:
    """Refuses what a foreign page sends, on every route, unknown ones included."""

    @web.middleware
    async def refuse_foreigners(request: web.Request, handler: Handler) -> web.StreamResponse:
        headers = request.headers
        guard.check(headers.get("Host"), headers.get("Origin"), headers.get("Sec-Fetch-Site"))
        return await handler(request)

    return refuse_foreigners


def json_response(document: object) -> web.Response:
    """A document as JSON that nobody may keep."""
    return web.Response(
        body=orjson.dumps(document),
        content_type="application/json",
        headers={"Cache-Control": "no-store"},
    )


async def _openapi(_: web.Request) -> web.Response:
    return web.Response(body=openapi_json(), content_type="application/json")


async def _docs(_: web.Request) -> web.Response:
    return web.Response(body=docs_page.page(), content_type="text/html", headers=_DOCS_HEADERS)


async def _start_script(_: web.Request) -> web.Response:
    return web.Response(body=docs_page.start_script(), content_type="text/javascript")


async def _asset(request: web.Request) -> web.StreamResponse:
    found = docs_page.asset(request.match_info["name"])
    if found is None:
        raise web.HTTPNotFound
    path, media = found
    return web.FileResponse(path, headers={"Content-Type": media})
