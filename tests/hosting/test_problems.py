"""Every error becomes one kind of answer, and says no more than it may."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from aiohttp import web

from hosting.logs import request_id
from hosting.problems import (
    REQUEST_ID_HEADER,
    Problem,
    ProblemTable,
    begin_request,
    error_middleware,
    problem_response,
)


class Refused(Exception):
    pass


class OverQuota(Refused):
    def __init__(self) -> None:
        super().__init__("five a second are allowed; wait")
        self.members: Mapping[str, object] = {"retry_after_ms": 200, "status": 1, "code": "forged"}
        self.headers: Mapping[str, str] = {"Retry-After": "1"}


REFUSED = Problem(403, "refused", "Refused")
OVER_QUOTA = Problem(429, "over_quota", "Over quota")
TABLE = ProblemTable({Refused: REFUSED, OverQuota: OVER_QUOTA})


@pytest.fixture
def app() -> web.Application:
    """An application whose routes fail in every way that a route can fail."""
    app = web.Application(middlewares=[error_middleware(TABLE)], client_max_size=10)

    async def fails(request: web.Request) -> web.Response:
        raise {
            "domain": Refused("you may not"),
            "quota": OverQuota(),
            "unknown": ZeroDivisionError("secret detail"),
            "http": web.HTTPConflict(text="it is there already"),
            "redirect": web.HTTPFound("/elsewhere"),
            "timeout": TimeoutError(),
            "upstream": ConnectionResetError("theirs, not the caller's"),
        }[request.match_info["how"]]

    async def reads(request: web.Request) -> web.Response:
        return web.Response(body=await request.read())

    async def halfway(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"begun")
        raise ZeroDivisionError

    async def names_itself(request: web.Request) -> web.Response:
        return web.json_response({"id": begin_request(request), "logged": request_id.get()})

    app.router.add_get("/fails/{how}", fails)
    app.router.add_post("/reads", reads)
    app.router.add_get("/halfway", halfway)
    app.router.add_get("/id", names_itself)
    return app


@pytest.fixture
async def caller(app: web.Application, serve: Any, call: Any) -> Any:
    return await call(await serve(app))


def test_the_nearest_class_of_an_error_decides() -> None:
    assert TABLE.find(OverQuota()) is OVER_QUOTA
    assert TABLE.find(type("Other", (Refused,), {})()) is REFUSED
    assert TABLE.find(ValueError()) is None
    assert dict(TABLE) == {Refused: REFUSED, OverQuota: OVER_QUOTA}


async def test_a_domain_error_is_answered_from_the_table(caller: Any) -> None:
    answer = await caller.get("/fails/domain", Sidegate_Request_Id="r.1")
    assert answer.status == 403
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json() == {
        "type": "urn:sidegate:problem:refused",
        "title": "Refused",
        "status": 403,
        "detail": "you may not",
        "code": "refused",
        "request_id": "r.1",
    }


async def test_an_error_brings_its_members_and_headers_but_replaces_nothing(caller: Any) -> None:
    answer = await caller.get("/fails/quota")
    assert answer.headers["retry-after"] == "1"
    body = answer.json()
    assert (body["retry_after_ms"], body["status"], body["code"]) == (200, 429, "over_quota")


@pytest.mark.parametrize("how", ["unknown", "timeout", "upstream"])
async def test_an_unknown_error_tells_an_id_and_nothing_else(
    how: str, caller: Any, logged: pytest.LogCaptureFixture
) -> None:
    answer = await caller.get(f"/fails/{how}")
    assert answer.status == 500
    body = answer.json()
    assert body["code"] == "internal"
    assert "secret detail" not in json.dumps(body)
    [line] = [one for one in logged.records if one.levelname == "ERROR"]
    assert line.fields["error_id"] == body["error_id"]  # type: ignore[attr-defined]
    assert line.exc_info


async def test_an_error_of_the_framework_is_a_problem_too(caller: Any) -> None:
    answer = await caller.get("/fails/http")
    assert (answer.status, answer.json()["code"]) == (409, "conflict")
    assert answer.json()["detail"] == "it is there already"


async def test_a_redirect_is_no_error(caller: Any) -> None:
    answer = await caller.get("/fails/redirect")
    assert (answer.status, answer.headers["location"]) == (302, "/elsewhere")


async def test_an_unknown_path_is_404(caller: Any) -> None:
    answer = await caller.get("/nothing")
    assert (answer.status, answer.json()["code"]) == (404, "not_found")
    assert answer.json()["detail"] == "nothing is served at /nothing"


async def test_a_wrong_method_is_405_and_tells_the_right_ones(caller: Any) -> None:
    await caller.send(b"DELETE /reads HTTP/1.1\r\nHost: x\r\n\r\n")
    answer = await caller.answer()
    assert (answer.status, answer.headers["allow"]) == (405, "POST")
    assert answer.json()["detail"] == "/reads takes POST, not DELETE"


async def test_a_body_over_the_limit_is_413(caller: Any) -> None:
    await caller.send(b"POST /reads HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\n01234567890")
    answer = await caller.answer()
    assert (answer.status, answer.json()["code"]) == (413, "too_large")
    assert "10" in answer.json()["detail"]


async def test_a_body_over_the_limit_is_refused_before_it_has_all_come(caller: Any) -> None:
    await caller.send(b"POST /reads HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999\r\n\r\n")
    await caller.send(b"x" * 100)
    assert (await caller.answer()).status == 413


async def test_a_broken_body_is_400(caller: Any, logged: pytest.LogCaptureFixture) -> None:
    head = b"POST /reads HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    await caller.send(head + b"zz\r\n")
    answer = await caller.answer()
    assert (answer.status, answer.json()["code"]) == (400, "malformed_request")
    assert await caller.ended()
    assert [one.message for one in logged.records if one.levelname == "ERROR"] == []


async def test_an_answer_that_had_begun_is_broken_off(
    caller: Any, logged: pytest.LogCaptureFixture
) -> None:
    await caller.send(b"GET /halfway HTTP/1.1\r\nHost: x\r\n\r\n")
    received = await caller.reader.read()
    assert received.endswith(b"begun\r\n")
    assert b"problem+json" not in received
    assert len([one for one in logged.records if one.levelname == "ERROR"]) == 1


@pytest.mark.parametrize("given", ["a", "A-b_c.9", "x" * 64])
async def test_a_well_formed_request_id_is_kept(given: str, caller: Any) -> None:
    answer = await caller.get("/id", Sidegate_Request_Id=given)
    assert answer.json() == {"id": given, "logged": given}
    assert answer.headers[REQUEST_ID_HEADER.lower()] == given


@pytest.mark.parametrize("given", ["", "a b", "x" * 65, "ä", "a\tb", '"'])
async def test_any_other_request_id_is_replaced(given: str, caller: Any) -> None:
    answer = await caller.get("/id", Sidegate_Request_Id=given)
    chosen = answer.json()["id"]
    assert chosen != given
    assert len(chosen) == 16
    assert answer.headers[REQUEST_ID_HEADER.lower()] == chosen


async def test_requests_on_one_connection_have_ids_of_their_own(caller: Any) -> None:
    ids = {(await caller.get("/id")).json()["logged"] for _ in range(3)}
    assert len(ids) == 3


async def test_the_middleware_works_in_an_application_without_a_site(
    app: web.Application, aiohttp_client: Any
) -> None:
    client = await aiohttp_client(app)
    async with client.get("/fails/domain", headers={REQUEST_ID_HEADER: "r"}) as response:
        assert (response.status, (await response.json())["request_id"]) == (403, "r")
    async with client.get("/id") as response:
        assert response.headers[REQUEST_ID_HEADER] == (await response.json())["logged"]


def test_a_value_that_json_does_not_know_does_not_spoil_an_answer() -> None:
    response = problem_response(REFUSED, "x", members={"at": object, "raw": b"\xff"})
    assert isinstance(response.body, bytes)
    assert json.loads(response.body)["code"] == "refused"
