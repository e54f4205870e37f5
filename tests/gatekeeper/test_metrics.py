"""The gatekeeper's numbers, as a scraper sees them."""

from collections.abc import Callable
from typing import Any

import aiohttp

from gatekeeper.metrics import GateMetrics
from hosting.metrics import new_registry


async def test_everything_that_is_promised_is_on_the_page(
    mesh: Any, frame: Callable[..., bytes]
) -> None:
    caller = mesh.caller()
    await caller.append(frame("orders.eu"), frame("secret"))
    caller.token = "nonsense"
    await caller.ask("GET", "/v1/whoami")
    url = f"http://127.0.0.1:{mesh.gatekeeper.health.port}/metrics"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        page = await answer.text()
    policy = mesh.gatekeeper.policies.policy.hash.hex()
    for line in (
        'sidegate_gatekeeper_decisions_total{action="publish",reason="no_rule",result="deny"',
        'sidegate_gatekeeper_authentication_refusals_total{reason="token_malformed"} 1.0',
        'sidegate_gatekeeper_batches_total{result="forwarded"} 1.0',
        'sidegate_gatekeeper_batches_total{result="denied"} 1.0',
        'sidegate_gatekeeper_request_seconds_count{route="append",status="200"} 1.0',
        "sidegate_gatekeeper_core_seconds_count 1.0",
        "sidegate_gatekeeper_append_added_seconds_count 1.0",
        'sidegate_gatekeeper_jwks_age_seconds{issuer="corp"}',
        f'gatekeeper_policy_info{{sha256="{policy}"}} 1.0',
        "sidegate_certificate_expires_timestamp_seconds",
        "sidegate_gatekeeper_connections 1.0",
        "sidegate_gatekeeper_core_up 1.0",
        "sidegate_gatekeeper_audit_lost_total 0.0",
    ):
        assert line in page, line


def test_labels_that_repeat_share_one_counter() -> None:
    registry = new_registry()
    metrics = GateMetrics(registry)
    for _ in range(3):
        metrics.judged("denied")
        metrics.answered("append", 200, 0.001)
        metrics.refused("token_expired")
        metrics.stream_ended("closed")
    value = registry.get_sample_value
    assert value("sidegate_gatekeeper_batches_total", {"result": "denied"}) == 3
    assert (
        value("sidegate_gatekeeper_authentication_refusals_total", {"reason": "token_expired"}) == 3
    )
    assert value("sidegate_gatekeeper_streams_ended_total", {"code": "closed"}) == 3
    assert (
        value("sidegate_gatekeeper_request_seconds_count", {"route": "append", "status": "200"})
        == 3
    )


def test_numbers_that_are_kept_elsewhere_are_read_when_asked_for() -> None:
    registry = new_registry()
    metrics = GateMetrics(registry)
    ages = {"corp": 5.0}
    metrics.read_labelled("ages", "Ages.", "issuer", lambda: ages)
    metrics.read_count("written", "Written.", lambda: 7)
    metrics.gauge("open", "Open.", lambda: 2)
    ages["other"] = 6.0
    assert registry.get_sample_value("ages", {"issuer": "other"}) == 6.0
    assert registry.get_sample_value("written_total") == 7
    assert registry.get_sample_value("open") == 2
