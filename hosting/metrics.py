"""Prometheus metrics: one registry per service, never the process-wide default one.

May import prometheus_client and aiohttp. Must never know what the numbers of a service mean.
"""

from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import (
    CollectorRegistry,
    Counter,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
)
from prometheus_client.exposition import choose_encoder

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
SECONDS_BUCKETS: Final = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip
"""From a local append to a long poll that has waited for all of its time."""


def new_registry() -> CollectorRegistry:
    """A registry with the process's own numbers: CPU, memory, open files, garbage collection."""
    registry = CollectorRegistry(auto_describe=True)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


def metrics_handler(registry: CollectorRegistry) -> Handler:
    """A handler that renders `registry` in the format that the scraper asks for."""

    async def metrics(request: web.Request) -> web.StreamResponse:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(registry), headers={"Content-Type": content_type})

    return metrics


class HttpMetrics:
    """Requests by site, route, method and status. Labels come from fixed sets only."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._refused = Counter(
            "sidegate_http_connections_refused",
            "Connections closed because the site had too many.",
            ["site"],
            registry=registry,
        )
        self._seconds = Histogram(
            "sidegate_http_request_seconds",
            "Time from a request's headers to the end of its handler.",
            ["site", "route", "method", "status"],
            buckets=SECONDS_BUCKETS,
            registry=registry,
        )
        self._children: dict[tuple[str, str, str, int], Histogram] = {}

    def observe(self, site: str, request: web.BaseRequest, status: int, seconds: float) -> None:
        """Count one request that was answered."""
        method = request.method if request.method in _METHODS else "other"
        self.count(site, _route(request), method, status, seconds)

    def count(self, site: str, route: str, method: str, status: int, seconds: float) -> None:
        """The same for a request that was never aiohttp's; `route` is a pattern too."""
        key = (site, route, method, status)
        child = self._children.get(key)
        if child is None:
            child = self._children[key] = self._seconds.labels(site, route, method, str(status))
        child.observe(seconds)

    def connection_refused(self, site: str) -> None:
        """Count one connection that was one too many."""
        self._refused.labels(site).inc()


def _route(request: web.BaseRequest) -> str:
    """The route's pattern, never the path itself: a path would let callers invent labels."""
    match = getattr(request, "_match_info", None)  # the property asserts that a route was sought
    resource = None if match is None else match.route.resource
    return "none" if resource is None else str(resource.canonical)
