"""What callers may ask about themselves and the service."""

from typing import Any

import pytest


async def test_whoami_tells_what_was_proven(mesh: Any) -> None:
    caller = mesh.caller()
    status, told, _ = await caller.ask("GET", "/v1/whoami")
    assert status == 200
    assert told["principal"] == "billing"
    assert told["spiffe_id"] == "spiffe://example/app"
    assert told["thumbprint"] == caller.leaf.thumbprint.hex()
    assert told["scopes"] == ["log.publish", "log.read"]
    assert caller.token not in str(told)
    assert told["token_id"]


async def test_whoami_tells_the_callers_own_rules_and_nobody_elses(mesh: Any) -> None:
    _, told, _ = await mesh.caller().ask("GET", "/v1/whoami")
    rules = [(rule["action"], rule["on"]) for rule in told["allowed"]]
    assert ("publish", "orders.*") in rules
    assert all(rule["rule"].endswith(f".{rule['action']}") for rule in told["allowed"])
    assert told["complete"] is True
    _, told, _ = await mesh.caller("stranger", "stranger").ask("GET", "/v1/whoami")
    assert ("publish", "orders.*") not in [(r["action"], r["on"]) for r in told["allowed"]]


async def test_a_caller_without_a_principal_is_named_by_its_spiffe_id(mesh: Any) -> None:
    _, told, _ = await mesh.caller("stranger", "stranger").ask("GET", "/v1/whoami")
    assert told["principal"] == "spiffe://example/stranger"


async def test_access_answers_without_doing_or_recording(mesh: Any) -> None:
    caller = mesh.caller()
    _, told, _ = await caller.ask("GET", "/v1/access?action=publish&topic=orders.eu")
    assert (told["allowed"], told["rule"]) == (True, 'topics."orders.*".publish')
    _, told, _ = await caller.ask("GET", "/v1/access?action=publish&topic=secret")
    assert (told["allowed"], told["reason"]) == (False, "no_rule")
    assert mesh.gatekeeper.decision_log.waiting == 0
    assert mesh.core.records() == []


@pytest.mark.parametrize(
    "query", ["", "action=publish", "topic=a", "action=any&topic=a", "action=publish&topic=.."]
)
async def test_access_wants_an_action_and_a_topic(mesh: Any, query: str) -> None:
    assert (await mesh.caller().ask("GET", f"/v1/access?{query}"))[0] == 400


async def test_status_is_the_cores_with_the_gatekeepers_name(mesh: Any) -> None:
    status, told, _ = await mesh.caller().ask("GET", "/v1/status")
    assert (status, told["service"]) == (200, "core")
    assert told["gatekeeper"] == "spiffe://example/gatekeeper"


async def test_a_status_that_makes_no_sense_is_503(mesh: Any) -> None:
    async def odd(request: Any) -> Any:
        from aiohttp import web

        return web.json_response([])

    mesh.core.intercept["/v1/status"] = odd
    assert (await mesh.caller().ask("GET", "/v1/status"))[0] == 503
