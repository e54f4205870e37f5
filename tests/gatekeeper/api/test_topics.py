"""Topics: seen by those who may do anything on them, changed by those who administer them."""

import json
from typing import Any

import pytest


async def test_the_list_shows_only_what_the_caller_may_touch(mesh: Any) -> None:
    for name in ("orders.eu", "secret", "history", "_audit"):
        mesh.core.topics[name] = {"name": name}

    async def seen(client: str, name: str) -> list[str]:
        status, listed, _ = await mesh.caller(client, name).ask("GET", "/v1/topics")
        assert status == 200
        return [topic["name"] for topic in listed["topics"]]

    assert await seen("billing", "app") == ["orders.eu", "history"]
    assert await seen("auditor", "auditor") == ["_audit"]
    assert await seen("stranger", "stranger") == []


async def test_a_topic_is_described_to_those_who_may_touch_it(mesh: Any) -> None:
    mesh.core.topics["orders.eu"] = {"name": "orders.eu"}
    reader = mesh.caller("reader", "reader")
    status, described, _ = await reader.ask("GET", "/v1/topics/orders.eu")
    assert (status, described) == (200, {"name": "orders.eu"})
    status, problem, _ = await reader.ask("GET", "/v1/topics/secret")
    assert (status, problem["code"]) == (403, "denied")
    status, problem, _ = await reader.ask("GET", "/v1/topics/orders.none")
    assert (status, problem["code"]) == (404, "unknown_topic")


async def test_creation_on_first_use_is_passed_on_and_nothing_else(mesh: Any) -> None:
    caller = mesh.caller()
    assert (await caller.ask("GET", "/v1/topics/orders.new?create=1"))[0] == 200
    assert "orders.new" in mesh.core.topics
    assert (await caller.ask("GET", "/v1/topics/orders.new?create=2"))[0] == 400
    assert (await caller.ask("GET", "/v1/topics/secret?create=1"))[0] == 403
    assert "secret" not in mesh.core.topics


async def test_one_refused_publish_is_one_denial_though_the_topic_is_asked_for_ahead(
    mesh: Any, frame: Any, wait_until: Any
) -> None:
    caller = mesh.caller()
    status, described, _ = await caller.ask("GET", "/v1/topics/orders.new?create=1&ahead=1")
    assert (status, described["name"]) == (200, "orders.new")
    assert (await caller.ask("GET", "/v1/topics/secret?create=1&ahead=2"))[0] == 400
    assert (await caller.ask("GET", "/v1/topics/secret?create=1&ahead=1"))[0] == 204
    assert "secret" not in mesh.core.topics
    _, answer = await caller.append(frame("secret"))
    assert [result["error"] for result in answer["results"]] == ["denied"]
    # Asked for its own sake, it is a request like any other, and its refusal is noted.
    assert (await caller.ask("GET", "/v1/topics/secret"))[0] == 403
    await wait_until(lambda: len(mesh.core.records()) >= 2)
    assert [record["action"] for record in mesh.core.records()] == ["publish", "any"]


async def test_administration_needs_admin_and_is_recorded(mesh: Any) -> None:
    body = {"name": "orders.eu", "partitions": 2}
    status, made, _ = await mesh.caller().ask("POST", "/v1/topics", json=body)
    assert (status, made) == (201, body)
    reader = mesh.caller("reader", "reader")
    for method, path in (("POST", "/v1/topics"), ("PATCH", "/v1/topics/orders.eu")):
        status, problem, _ = await reader.ask(method, path, json=body)
        assert (status, problem["action"]) == (403, "admin")
    assert (await reader.ask("DELETE", "/v1/topics/orders.eu"))[0] == 403
    assert (await mesh.caller().ask("DELETE", "/v1/topics/orders.eu"))[0] == 204
    allowed = [record for record in mesh.core.records() if record["allowed"]]
    assert {(record["action"], record["principal"]) for record in allowed} == {("admin", "billing")}


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'{"name":"a","name":"orders.eu"}', b'{"name":"_audit"}', b'{"name":7}']
)
async def test_a_description_that_could_be_read_in_two_ways_is_refused(
    mesh: Any, body: bytes
) -> None:
    status, problem, _ = await mesh.caller().ask("POST", "/v1/topics", data=body)
    assert (status, problem["code"]) == (400, "bad_request")
    assert not mesh.core.sent("/v1/topics")


async def test_a_description_over_its_limit_is_413(mesh: Any) -> None:
    body = json.dumps({"name": "orders.eu", "x": "y" * 70_000})
    status, problem, _ = await mesh.caller().ask("POST", "/v1/topics", data=body)
    assert (status, problem["code"]) == (413, "too_large")


async def test_system_topics_can_not_be_changed(mesh: Any) -> None:
    auditor = mesh.caller("auditor", "auditor")
    assert (await auditor.ask("DELETE", "/v1/topics/_audit"))[0] == 400
    assert (await auditor.ask("PATCH", "/v1/topics/_audit", json={}))[0] == 400


async def test_a_version_is_passed_on_when_it_is_one(mesh: Any) -> None:
    mesh.core.topics["orders.eu"] = {"name": "orders.eu"}
    caller = mesh.caller()
    good, bad = {"If-Match": '"17"'}, {"If-Match": "W/17"}
    assert (await caller.ask("PATCH", "/v1/topics/orders.eu", json={}, headers=good))[0] == 200
    assert mesh.core.sent("/v1/topics/orders.eu")[-1]["If-Match"] == '"17"'
    assert (await caller.ask("PATCH", "/v1/topics/orders.eu", json={}, headers=bad))[0] == 400


async def test_offsets_by_time_are_for_those_who_may_touch_the_topic(mesh: Any) -> None:
    reader = mesh.caller("reader", "reader")
    status, answer, _ = await reader.ask("GET", "/v1/topics/orders.eu/offsets?time_us=7")
    assert (status, answer["asked"]) == (200, {"time_us": "7"})
    assert (await reader.ask("GET", "/v1/topics/secret/offsets"))[0] == 403
    assert (await reader.ask("GET", "/v1/topics/orders.eu/offsets?time_us=x"))[0] == 400


async def test_a_list_that_makes_no_sense_is_not_passed_on(mesh: Any) -> None:
    async def odd(request: Any) -> Any:
        from aiohttp import web

        return web.json_response({"topics": [{"title": "no name"}]})

    mesh.core.intercept["/v1/topics"] = odd
    status, problem, _ = await mesh.caller().ask("GET", "/v1/topics")
    assert (status, problem["code"]) == (503, "unavailable")
