"""The application: the guard in front of every route, and the operations bound to handlers."""

import hmac
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from hosting.health import HEALTH_PATHS
from hosting.lifecycle import StartError
from hosting.problems import error_middleware
from sidecar.api import docs_page
from sidecar.api.guard import Guard
from sidecar.api.openapi import openapi_json
from sidecar.api.operations import OPERATIONS
from sidecar.api.problems import PROBLEMS
from sidecar.errors import BadAppToken

Handlers = Mapping[str, Callable[[web.Request], Awaitable[web.StreamResponse]]]
APP_TOKEN_BYTES_MIN: Final = 16
"""A shorter secret can be guessed by whoever shares the machine."""
_DOCS_HEADERS: Final = {"Content-Security-Policy": docs_page.SECURITY_POLICY}


def make_app(handlers: Handlers, guard: Guard, app_token: bytes | None = None) -> web.Application:
    """Bind every operation; a missing handler is found here, not by an app."""
    middlewares = [error_middleware(PROBLEMS), guard_middleware(guard)]
    if app_token is not None:
        middlewares.append(token_middleware(app_token))
    app = web.Application(middlewares=middlewares)
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
        guard.check_request(request.raw_path, request.headers)
        return await handler(request)

    return refuse_foreigners


def token_middleware(app_token: bytes) -> Middleware:
    """Refuses whoever does not know the app's secret; only health may be watched without it."""

    @web.middleware
    async def require_token(request: web.Request, handler: Handler) -> web.StreamResponse:
        given = request.headers.get("Authorization", "").encode("utf-8", "surrogateescape")
        if request.path not in HEALTH_PATHS and not hmac.compare_digest(
            given, b"Bearer " + app_token
        ):
            raise BadAppToken("Authorization: send Bearer and the secret in the file app_token")
        return await handler(request)

    return require_token


def read_app_token(path: Path | None) -> bytes | None:
    """The secret in the file, or StartError."""
    if path is None:
        return None
    try:
        token = path.read_bytes().strip()
    except OSError as error:
        raise StartError(f"app_token: {path} cannot be read: {error.strerror}") from error
    if len(token) < APP_TOKEN_BYTES_MIN or not token.isascii() or b" " in token:
        raise StartError(
            f"app_token: {path} must hold one word of at least {APP_TOKEN_BYTES_MIN} characters"
        )
    return token


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
