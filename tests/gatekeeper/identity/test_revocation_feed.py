"""Revocations: followed without end, known within a second, never half known."""

import time
from typing import Any

import pytest

from gatekeeper.errors import CoreUnavailable
from gatekeeper.identity.revocation_feed import BACKOFF_S, RevocationFeed


async def test_what_was_revoked_before_the_start_is_known_after_it(
    mesh: Any, wait_until: Any
) -> None:
    await mesh.core.revoke(kind="client", value="billing")
    feed = RevocationFeed(
        mesh.gatekeeper.core,
        mesh.gatekeeper.authenticator,
        gatekeeper_id="g",
        changed=lambda: None,
    )
    with pytest.raises(CoreUnavailable, match="not known yet"):
        feed.require_known()
    await feed.start()
    await wait_until(lambda: feed.known)
    feed.require_known()
    await feed.stop()


async def test_a_core_that_comes_back_is_asked_again_within_a_second(
    mesh: Any, wait_until: Any
) -> None:
    feed = mesh.gatekeeper.feed

    async def down(request: Any) -> Any:
        from aiohttp import web

        return web.Response(status=503)

    mesh.core.intercept["/v1/revocations"] = down
    await mesh.core.revoke(kind="token_id", value="a")
    await wait_until(lambda: not feed.reachable)
    assert not mesh.service.readiness().ready
    await mesh.core.revoke(kind="token_id", value="b")
    mesh.core.intercept.clear()
    await wait_until(lambda: feed.version == 2)
    assert max(BACKOFF_S) < 1.0
    await wait_until(lambda: mesh.service.readiness().ready)
    assert [record["value"] for record in feed.in_force()] == ["a", "b"]


async def test_an_unknown_revocation_makes_the_gatekeeper_not_ready(
    mesh: Any, wait_until: Any
) -> None:
    await mesh.core.revoke(kind="quantum", value="x")
    await mesh.core.revoke(kind="client", value="billing")
    await wait_until(lambda: mesh.gatekeeper.feed.version == 2)
    assert not mesh.service.readiness().ready
    assert "kind" in mesh.gatekeeper.feed.problem
    assert (await mesh.caller().ask("GET", "/v1/whoami"))[0] == 401, "the others count"


async def test_a_list_that_went_back_is_read_anew(mesh: Any, wait_until: Any) -> None:
    feed = mesh.gatekeeper.feed
    await mesh.core.revoke(kind="client", value="a")
    await mesh.core.revoke(kind="client", value="b")
    await wait_until(lambda: feed.version == 2)
    mesh.core.revocations[:] = [{"kind": "client", "value": "c"}]
    async with mesh.core.changed:
        mesh.core.changed.notify_all()
    await wait_until(lambda: feed.known and feed.version == 1)
    assert [record["value"] for record in feed.in_force()] == ["c"]


async def test_a_revocation_that_has_ended_is_no_longer_listed(mesh: Any, wait_until: Any) -> None:
    feed = mesh.gatekeeper.feed
    soon = round(time.time() * 1_000_000) + 2_000_000
    await mesh.core.revoke(kind="client", value="a", until_us=soon)
    await wait_until(lambda: feed.version == 1)
    assert len(feed.in_force()) == 1
    await wait_until(lambda: not feed.in_force())
