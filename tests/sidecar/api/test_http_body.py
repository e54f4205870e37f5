"""Bodies are read within their limit; topics and numbers of a path are checked."""

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from hosting.problems import error_middleware
from sidecar.api.http_body import any_topic, app_topic, path_number, read_body
from sidecar.api.problems import PROBLEMS

BYTES_MAX = 1000


@pytest.fixture
async def client():
    async def body(request):
        return web.Response(body=await read_body(request, BYTES_MAX))

    async def apps(request):
        return web.Response(text=app_topic(request))

    async def anys(request):
        return web.Response(text=any_topic(request))

    async def number(request):
        return web.json_response(path_number(request, "number"))

    app = web.Application(middlewares=[error_middleware(PROBLEMS)])
    app.router.add_post("/body", body)
    app.router.add_get("/app/{topic}", apps)
    app.router.add_get("/any/{topic}", anys)
    app.router.add_get("/number/{number}", number)
    async with TestClient(TestServer(app)) as client:
        yield client


@pytest.mark.parametrize("size", [0, 1, BYTES_MAX])
async def test_a_body_up_to_the_limit_is_read_whole(client, size) -> None:
    async with client.post("/body", data=b"x" * size) as response:
        assert (response.status, await response.read()) == (200, b"x" * size)


async def test_a_body_in_pieces_is_put_together(client) -> None:
    async def pieces():
        for number in range(10):
            yield b"%d" % number

    async with client.post("/body", data=pieces()) as response:
        assert await response.read() == b"0123456789"


async def test_a_declared_length_over_the_limit_is_refused_with_the_limit_named(client) -> None:
    async with client.post("/body", data=b"x" * (BYTES_MAX + 1)) as response:
        problem = await response.json(content_type=None)
    assert (response.status, problem["code"]) == (413, "too_large")
    assert f"the limit is {BYTES_MAX}" in problem["detail"]


async def test_a_body_without_a_length_is_refused_as_soon_as_it_is_over_the_limit(client) -> None:
    async def pieces():
        for _ in range(20):
            yield b"x" * 100

    async with client.post("/body", data=pieces()) as response:
        assert response.status == 413


async def test_apps_may_name_only_their_own_topics_and_reads_the_systems_too(client) -> None:
    async with client.get("/app/orders.created") as response:
        assert (response.status, await response.text()) == (200, "orders.created")
    async with client.get("/app/_audit") as response:
        problem = await response.json(content_type=None)
        assert (response.status, problem["field"]) == (400, "topic")
        assert problem["detail"].startswith("topic: ")
        assert not problem["detail"].startswith("topic: topic: ")
    async with client.get("/any/_audit") as response:
        assert response.status == 200


@pytest.mark.parametrize("topic", ["a%20b", "a%2Fb", "..", "%00", "%C3%A9", "x" * 1000, "a%0D%0Ab"])
async def test_a_bad_topic_is_refused_and_never_passed_on(client, topic) -> None:
    for kind in ("app", "any"):
        async with client.get(f"/{kind}/{topic}") as response:
            assert response.status in (400, 404)


@pytest.mark.parametrize("text", ["0", "007", str(2**63 - 1)])
async def test_a_number_is_read(client, text) -> None:
    async with client.get(f"/number/{text}") as response:
        assert await response.json() == int(text)


@pytest.mark.parametrize(
    "text", ["-1", "+1", "1.0", "1e3", "x", "%20", "%D9%A3", "%C2%B2", str(2**63), "9" * 5000]
)
async def test_what_is_no_number_is_400_and_named(client, text) -> None:
    async with client.get(f"/number/{text}") as response:
        problem = await response.json(content_type=None)
    assert (response.status, problem["field"]) == (400, "number")
