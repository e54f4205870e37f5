"""A service tells whether it lives and whether it can work, to its very end."""

import asyncio
from typing import Any

import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from hosting.health import add_health_routes, health_app
from hosting.lifecycle import Readiness, Service
from hosting.units import Address
from hosting.web import HttpSite


@pytest.fixture
def service() -> Service:
    return Service("demo")


async def test_a_service_that_is_not_running_lives_but_is_not_ready(
    service: Service, serve: Any, call: Any
) -> None:
    caller = await call(await serve(health_app(service, CollectorRegistry())))
    alive = await caller.get("/healthz")
    assert (alive.status, alive.json()) == (200, {"status": "ok", "service": "demo"})
    ready = await caller.get("/readyz")
    assert ready.status == 503
    assert ready.json() == {"ready": False, "service": "demo", "phase": "new", "checks": {}}


async def test_readiness_is_told_with_its_reasons_through_the_whole_life(call: Any) -> None:
    service = Service("demo")
    state = {"ready": True}
    service.add_check("store", lambda: Readiness(state["ready"], {"free_bytes": 7}))
    site = HttpSite(
        "health",
        health_app(service, CollectorRegistry()),
        Address("127.0.0.1", 0),
        serves_while_draining=True,
    )
    service.add(site)
    worker = Worker()
    service.add(worker)
    run = asyncio.create_task(service.run())
    await worker.starting.wait()
    caller = await call(site)
    assert (await caller.get("/readyz")).json()["phase"] == "starting"
    worker.may_start.set()
    await service.started.wait()
    answer = await caller.get("/readyz")
    assert answer.status == 200
    assert answer.json()["checks"] == {"store": {"ready": True, "free_bytes": 7}}
    state["ready"] = False
    assert (await caller.get("/readyz")).status == 503
    service.ask_to_stop()
    await worker.draining.wait()
    answer = await (await call(site)).get("/readyz")
    assert (answer.status, answer.json()["phase"]) == (503, "draining")
    worker.may_end.set()
    assert await run == 0


class Worker:
    """A component that starts and drains when it is let."""

    name = "worker"

    def __init__(self) -> None:
        self.starting, self.may_start = asyncio.Event(), asyncio.Event()
        self.draining, self.may_end = asyncio.Event(), asyncio.Event()

    async def start(self) -> None:
        self.starting.set()
        await self.may_start.wait()

    async def drain(self) -> None:
        self.draining.set()
        await self.may_end.wait()

    async def stop(self) -> None:
        pass


async def test_health_routes_of_an_application_answer_while_it_drains(
    service: Service, serve: Any, call: Any
) -> None:
    app = web.Application()
    add_health_routes(app, service, CollectorRegistry())
    site = await serve(app)
    watching = {path: await call(site) for path in ("/healthz", "/readyz", "/metrics")}
    for caller in watching.values():
        await caller.get("/healthz")
    await site.drain()
    statuses = {path: (await caller.get(path)).status for path, caller in watching.items()}
    assert statuses == {"/healthz": 200, "/readyz": 503, "/metrics": 200}


async def test_metrics_come_in_the_format_that_is_asked_for(
    service: Service, serve: Any, call: Any
) -> None:
    caller = await call(await serve(health_app(service, CollectorRegistry())))
    plain = await caller.get("/metrics")
    assert plain.headers["content-type"].startswith("text/plain")
    modern = await caller.get("/metrics", Accept="application/openmetrics-text; version=1.0.0")
    assert modern.headers["content-type"].startswith("application/openmetrics-text")
    assert modern.body.endswith(b"# EOF\n")


async def test_nothing_else_is_served_at_a_health_port(
    service: Service, serve: Any, call: Any
) -> None:
    caller = await call(await serve(health_app(service, CollectorRegistry())))
    assert (await caller.get("/")).json()["code"] == "not_found"
