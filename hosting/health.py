"""`/healthz`, `/readyz` and `/metrics`, for an application or for a port of their own.

May import aiohttp, the lifecycle and the metrics. Must never know what a service checks.
"""

import json
from functools import partial
from http import HTTPStatus
from typing import Final

from aiohttp import web
from prometheus_client import CollectorRegistry

from hosting.lifecycle import Service
from hosting.metrics import metrics_handler
from hosting.problems import ProblemTable, error_middleware

ALWAYS_SERVED: Final = web.AppKey("sidegate.always_served", frozenset[str])
"""Paths that are answered while draining: whoever watches a service watches its end too."""
HEALTH_PATHS: Final = frozenset({"/healthz", "/readyz", "/metrics"})
_HEADERS: Final = {"Cache-Control": "no-store"}

_as_json: Final = partial(json.dumps, default=str)
"""Checks may show dates and paths; a value of another type must not hide all the others."""


def add_health_routes(app: web.Application, service: Service, registry: CollectorRegistry) -> None:
    """`/healthz`: the process answers. `/readyz`: it can do its work, and if not, why."""

    async def healthz(_: web.Request) -> web.Response:
        return web.json_response({"status": "ok", "service": service.name}, headers=_HEADERS)

    async def readyz(_: web.Request) -> web.Response:
        readiness = service.readiness()
        status = HTTPStatus.OK if readiness.ready else HTTPStatus.SERVICE_UNAVAILABLE
        body = {"ready": readiness.ready, **readiness.detail}
        return web.json_response(body, status=status, headers=_HEADERS, dumps=_as_json)

    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    app.router.add_get("/metrics", metrics_handler(registry))
    app[ALWAYS_SERVED] = app.get(ALWAYS_SERVED, frozenset()) | HEALTH_PATHS


def health_app(service: Service, registry: CollectorRegistry) -> web.Application:
    """An application with the health routes and nothing else."""
    app = web.Application(middlewares=[error_middleware(ProblemTable({}))])
    add_health_routes(app, service, registry)
    return app
