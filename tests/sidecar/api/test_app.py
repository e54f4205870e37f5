"""What the HTTP surface refuses, on every route."""

import asyncio

import pytest

BAD_BODIES = {
    "not JSON": b"{",
    "a list": b"[]",
    "no topic": b'{"message":1}',
    "a bad topic": b'{"topic":"a b/../c","message":1}',
    "a system topic": b'{"topic":"_audit","message":1}',
    "a long topic": b'{"topic":"' + b"a" * 5000 + b'","message":1}',
    "a topic that is null": b'{"topic":null,"message":1}',
    "an unknown field": b'{"topic":"orders","message":1,"nope":2}',
    "not UTF-8": b"\xff\xfe",
    "not UTF-8 inside a string": b'{"topic":"orders","message":"\xff"}',
    "nothing": b"",
    "neither message nor data": b'{"topic":"orders"}',
    "both message and data": b'{"topic":"orders","message":1,"data_base64":""}',
    "bad base64": b'{"topic":"orders","data_base64":"?"}',
    "a header that is no string": b'{"topic":"orders","message":1,"headers":{"a":1}}',
    "a time without a zone": b'{"topic":"orders","message":1,"timestamp":"2026-01-01T00:00:00"}',
    "a content type that is not JSON": b'{"topic":"o","message":1,"content_type":"text/plain"}',
    "nested too deeply": b'{"topic":"o","message":' + b"[" * 5000 + b"]" * 5000 + b"}",
}
FIELDS = {
    "no topic": "topic",
    "a bad topic": "topic",
    "an unknown field": "nope",
    "bad base64": "data_base64",
    "a header that is no string": "headers",
    "a time without a zone": "timestamp",
    "a content type that is not JSON": "content_type",
    "neither message nor data": "message",
}


@pytest.fixture
async def sidecar(mesh):
    return await mesh.sidecar()


async def test_every_bad_body_is_a_400_problem_that_names_the_field_and_publishes_nothing(
    mesh, sidecar
):
    for name, body in BAD_BODIES.items():
        async with sidecar.client.post(f"{sidecar.base}/publish", data=body) as response:
            problem = await response.json(content_type=None)
            assert response.status == 400, name
            assert response.content_type == "application/problem+json"
            assert FIELDS.get(name, "") in problem["detail"], name
    assert mesh.log.frames == {}
    assert (await sidecar.publish({"topic": "orders", "message": 1}))[0] == 200


async def test_curls_form_content_type_is_taken_as_json(sidecar):
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    async with sidecar.client.post(
        f"{sidecar.base}/publish", data=b'{"topic":"a","message":1}', headers=headers
    ) as response:
        assert response.status == 200


async def test_a_wrong_method_is_405_and_an_unknown_path_404(sidecar):
    assert (await sidecar.get("/publish"))[0] == 405
    assert (await sidecar.get("/nowhere"))[0] == 404


async def test_a_body_over_the_limit_is_413_before_it_was_sent(sidecar):
    reader, writer = await asyncio.open_connection("127.0.0.1", sidecar.assembly.site.port)
    writer.write(b"POST /publish HTTP/1.1\r\nHost: localhost\r\nContent-Length: 104857600\r\n\r\n{")
    head = await reader.readuntil(b"\r\n\r\n")
    assert b" 413 " in head
    assert b"application/problem+json" in head
    writer.close()


async def test_a_chunked_body_over_the_limit_is_413(sidecar):
    async def chunks():
        for _ in range(40):
            yield b"x" * 100_000

    async with sidecar.client.post(f"{sidecar.base}/publish", data=chunks()) as response:
        assert response.status == 413


ROUTES = [
    ("POST", "/publish"),
    ("GET", "/messages/orders"),
    ("GET", "/messages/orders/0/0"),
    ("GET", "/subscribe/orders"),
    ("GET", "/topics"),
    ("POST", "/topics"),
    ("GET", "/topics/orders"),
    ("PATCH", "/topics/orders"),
    ("DELETE", "/topics/orders"),
    ("GET", "/status"),
    ("GET", "/whoami"),
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/metrics"),
    ("GET", "/openapi.json"),
    ("GET", "/docs"),
    ("GET", "/swagger"),
    ("GET", "/docs/swagger-ui.js"),
    ("GET", "/nowhere"),
]
FOREIGN = [
    {"Host": "evil.example"},
    {"Host": "localhost.evil.example"},
    {"Host": "127.0.0.1.evil.example:9000"},
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Sec-Fetch-Site": "cross-site"},
]


@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_every_route_refuses_a_foreign_page(sidecar, method, path):
    for headers in FOREIGN:
        async with sidecar.client.request(
            method, sidecar.base + path, headers=headers, data=b"{}" if method == "POST" else None
        ) as response:
            problem = await response.json(content_type=None)
            assert (response.status, problem["code"]) == (403, "foreign_caller"), headers


@pytest.mark.parametrize(
    "query", ["ack=maybe", "timeout_ms=0", "timeout_ms=x", "timeout_ms=999999999", "wait=1"]
)
async def test_a_bad_parameter_is_400_and_named(sidecar, query):
    async with sidecar.client.post(
        f"{sidecar.base}/publish?{query}", data=b'{"topic":"a","message":1}'
    ) as response:
        assert response.status == 400
        assert query.partition("=")[0] in (await response.json(content_type=None))["detail"]


@pytest.mark.parametrize(
    "query", ["from=yesterday", "from=offset:x", "from=time:now", "partition=a", "form=latest"]
)
async def test_a_bad_start_is_400(sidecar, query):
    assert (await sidecar.get(f"/subscribe/orders?{query}"))[0] == 400


async def test_topics_are_passed_on_to_the_gatekeeper(sidecar):
    async with sidecar.client.post(
        f"{sidecar.base}/topics", json={"name": "new", "partitions": 3}
    ) as response:
        assert response.status == 201
    assert (await sidecar.get("/topics/new"))[1]["partitions"] == 3
    assert (await sidecar.get("/topics"))[1]["topics"][0]["name"] == "new"
    async with sidecar.client.patch(
        f"{sidecar.base}/topics/new", json={"strategy": "sticky"}
    ) as response:
        assert (await response.json())["strategy"] == "sticky"
    async with sidecar.client.delete(f"{sidecar.base}/topics/new") as response:
        assert response.status == 204
    status, problem = await sidecar.get("/topics/new")
    assert (status, problem["code"]) == (404, "unknown_topic")
    status, problem = await sidecar.get("/topics/forbidden.x")
    assert (status, problem["decision_id"]) == (403, "d1")


async def test_a_message_that_is_not_there_is_404(sidecar):
    await sidecar.publish({"topic": "orders", "message": 1})
    assert (await sidecar.get("/messages/orders/0/0"))[1]["message"] == 1
    assert (await sidecar.get("/messages/orders/0/1"))[0] == 404
    assert (await sidecar.get("/messages/orders/0/x"))[0] == 400
    assert (await sidecar.get("/messages/unknown/0/0"))[0] == 404


async def test_the_docs_page_loads_its_assets_from_the_sidecar_alone(sidecar):
    async with sidecar.client.get(f"{sidecar.base}/docs") as response:
        page = await response.text()
        assert "default-src 'none'" in response.headers["Content-Security-Policy"]
    assert "http://" not in page
    assert "https://" not in page
    for name in ("swagger-ui.js", "swagger-ui.css", "start.js"):
        async with sidecar.client.get(f"{sidecar.base}/docs/{name}") as response:
            assert response.status == 200
            assert len(await response.read()) > 100
    document = (await sidecar.get("/openapi.json"))[1]
    assert document["openapi"].startswith("3.1")
    assert "PublishRequest" in document["components"]["schemas"]


async def test_readiness_and_metrics_tell_of_the_uplink(mesh, sidecar):
    assert (await sidecar.get("/readyz"))[0] == 200
    async with sidecar.client.get(f"{sidecar.base}/metrics") as response:
        assert "sidegate_sidecar_uplink_connected 1.0" in await response.text()
    status = (await sidecar.get("/status"))[1]
    assert status["uplink"] == "connected"
    assert status["uplink_reason"] is None
