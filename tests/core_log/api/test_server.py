"""The application: its routes, its status, and its manners."""

from importlib.metadata import version
from typing import Any

import pytest

ROUTES = {
    "/v1/append": {"POST"},
    "/v1/read": {"GET"},
    "/v1/stream": {"GET"},
    "/v1/status": {"GET", "HEAD"},
    "/v1/topics": {"GET", "HEAD", "POST"},
    "/v1/topics/{name}": {"GET", "HEAD", "PATCH", "DELETE"},
    "/v1/topics/{name}/offsets": {"GET", "HEAD"},
    "/v1/revocations": {"GET", "HEAD", "POST"},
}


async def test_the_status_tells_what_the_core_is(core: Any, frames: Any) -> None:
    await core.call("POST", "/v1/topics", json={"name": "orders"})
    await core.append(frames.encoded("orders", [b"x"]))
    code, status, _ = await core.call("GET", "/v1/status")
    assert code == 200
    assert status["service"] == "core"
    assert status["version"] == version("sidegate")
    assert len(bytes.fromhex(status["log_id"])) == 16
    assert (status["leaves"], status["durable_leaves"], status["topics"]) == (1, 1, 2)
    assert status["durability"] == "fsync"


@pytest.mark.parametrize("path", ROUTES)
async def test_each_route_takes_its_methods_and_no_other(core: Any, path: str) -> None:
    real = path.replace("{name}", "orders")
    for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"):
        status, _, _ = await core.call(method, real)
        assert (status == 405) == (method not in ROUTES[path]), (method, status)


async def test_an_unknown_path_is_a_problem_with_a_request_id(core: Any) -> None:
    headers = {"Sidegate-Request-Id": "from-the-gatekeeper"}
    status, problem, answered = await core.call("GET", "/v2/append", headers=headers)
    assert (status, problem["code"]) == (404, "not_found")
    assert answered["Content-Type"] == "application/problem+json"
    assert problem["request_id"] == answered["Sidegate-Request-Id"] == "from-the-gatekeeper"


@pytest.mark.parametrize("path", ["/v1/append", "/v1/status", "/v1/topics"])
async def test_parameters_that_nobody_asked_for_are_refused(core: Any, path: str) -> None:
    method = "POST" if path == "/v1/append" else "GET"
    status, problem, _ = await core.call(method, f"{path}?topic=orders")
    assert (status, problem["code"]) == (400, "bad_query")
