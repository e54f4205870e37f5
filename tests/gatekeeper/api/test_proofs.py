"""Checkpoints and proofs through the gatekeeper: for whom, and of which topic."""

from typing import Any

import pytest
from aiohttp import web


@pytest.fixture
def asked(mesh: Any) -> list[dict[str, str]]:
    """The queries that reach the core; it answers with the first batch of `orders.eu`."""
    seen: list[dict[str, str]] = []

    async def proof(request: web.Request) -> web.Response:
        seen.append(dict(request.query))
        if "from" in request.query:
            return web.json_response({"from": 1, "to": 2, "hashes": []})
        envelope = mesh.core.frames("orders.eu")[0].envelope.raw.hex()
        return web.json_response({"leaf": 0, "envelope": envelope, "hashes": []})

    async def checkpoint(request: web.Request) -> web.Response:
        seen.append(dict(request.query))
        return web.Response(text="sidegate/aa\n1\n")

    mesh.core.intercept |= {"/v1/proof": proof, "/v1/checkpoint": checkpoint}
    return seen


async def test_every_caller_gets_the_checkpoint_as_it_is(mesh: Any, asked: Any) -> None:
    for caller in (mesh.caller(), mesh.caller("reader", "reader"), mesh.caller("nobody", "x")):
        status, body, answer = await caller.ask("GET", "/v1/checkpoint")
        assert (status, body) == (200, b"sidegate/aa\n1\n")
        assert answer.headers["Content-Type"].startswith("text/plain")


async def test_a_caller_may_wait_for_a_checkpoint_within_the_gatekeepers_limit(
    mesh: Any, asked: Any
) -> None:
    path = "/v1/checkpoint?wait_leaf=7&cosigned=1&wait_ms=9000000"
    status, _body, _ = await mesh.caller().ask("GET", path)
    assert status == 200
    assert asked == [{"wait_leaf": "7", "cosigned": "1", "wait_ms": "30000"}]
    status, _body, _ = await mesh.caller().ask("GET", "/v1/checkpoint?wait_leaf=x")
    assert status == 400


async def test_every_caller_gets_the_proof_between_two_trees(mesh: Any, asked: Any) -> None:
    status, body, _ = await mesh.caller("nobody", "x").ask("GET", "/v1/proof?from=1&to=2")
    assert (status, body) == (200, {"from": 1, "to": 2, "hashes": []})
    assert asked == [{"from": "1", "to": "2"}]


async def test_a_messages_proof_needs_any_action_on_its_topic(
    mesh: Any, asked: Any, frame: Any
) -> None:
    await mesh.caller().append(frame())
    path = "/v1/proof?topic=orders.eu&partition=0&offset=0&size=7"
    status, body, _ = await mesh.caller("reader", "reader").ask("GET", path)
    assert (status, body["leaf"]) == (200, 0)
    assert asked == [{"topic": "orders.eu", "partition": "0", "offset": "0", "size": "7"}]
    status, body, _ = await mesh.caller("auditor", "auditor").ask("GET", path)
    assert (status, body["code"]) == (403, "denied")
    assert len(asked) == 1


async def test_no_other_topics_envelope_leaves_by_the_cores_mistake(
    mesh: Any, asked: Any, frame: Any
) -> None:
    await mesh.caller().append(frame())
    for place in ("topic=orders.us&partition=0", "topic=orders.eu&partition=1"):
        status, body, _ = await mesh.caller().ask("GET", f"/v1/proof?{place}&offset=0")
        assert (status, body["code"]) == (503, "unavailable")
        assert "envelope" not in body


async def test_a_proof_that_can_not_be_read_is_not_passed_on(mesh: Any, asked: Any) -> None:
    async def nonsense(request: web.Request) -> web.Response:
        return web.json_response({"envelope": "zz"})

    mesh.core.intercept["/v1/proof"] = nonsense
    path = "/v1/proof?topic=orders.eu&partition=0&offset=0"
    status, body, _ = await mesh.caller().ask("GET", path)
    assert (status, body["code"]) == (503, "unavailable")


@pytest.mark.parametrize(
    "query",
    [
        "",
        "leaf=3",
        "topic=orders.eu",
        "topic=orders.eu&partition=0",
        "topic=orders.eu&partition=0&offset=-1",
        "topic=orders.eu&partition=0&offset=0&size=x",
        "topic=..&partition=0&offset=0",
        "from=1",
        "from=1&to=x",
        "from=1&to=2&topic=orders.eu",
    ],
)
async def test_a_leaf_is_asked_for_by_its_message_only_and_parameters_are_strict(
    mesh: Any, asked: Any, query: str
) -> None:
    status, body, _ = await mesh.caller().ask("GET", f"/v1/proof?{query}")
    assert (status, body["code"]) == (400, "bad_request")
    assert asked == []


async def test_only_gatekeepers_bring_cosignatures(mesh: Any) -> None:
    status, _body, _ = await mesh.caller().ask("POST", "/v1/cosignatures", data=b"{}")
    assert status == 404
