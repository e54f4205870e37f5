"""Every service says what it is, whether it is ready, and when its certificate ends."""

from typing import Any

from prometheus_client import generate_latest

from hosting.lifecycle import Readiness, Service
from hosting.metrics import new_registry
from hosting.phases import Phase
from hosting.tls import ReloadingContexts
from hosting.vitals import add_vitals


async def test_version_and_readiness_are_those_of_the_moment() -> None:
    service = Service("core", checks={"disk": lambda: Readiness(True)})
    registry = new_registry()
    add_vitals(registry, service)
    assert 'sidegate_build_info{service="core",version="' in generate_latest(registry).decode()
    assert registry.get_sample_value("sidegate_ready") == 0
    service.phase = Phase.RUNNING
    assert registry.get_sample_value("sidegate_ready") == 1


async def test_the_certificate_that_is_in_use_tells_its_end(authority: Any) -> None:
    contexts = ReloadingContexts(authority.issue("server", "spiffe://example.org/core"))
    registry = new_registry()
    add_vitals(registry, Service("core"), contexts)
    begins = registry.get_sample_value("sidegate_certificate_begins_timestamp_seconds")
    expires = registry.get_sample_value("sidegate_certificate_expires_timestamp_seconds")
    assert begins == contexts.leaf.not_before.timestamp()
    assert expires == contexts.leaf.not_after.timestamp()


async def test_a_service_without_a_certificate_tells_of_none() -> None:
    registry = new_registry()
    add_vitals(registry, Service("core"))
    assert "certificate" not in generate_latest(registry).decode()
