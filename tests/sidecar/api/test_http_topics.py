"""Topics are the gatekeeper's matter: its answers reach the app, and stale knowledge goes."""

import json

import pytest

from sidecar.api.http_topics import BODY_BYTES_MAX, passed_on
from sidecar.errors import Denied, OverQuota, UnknownTopic, UplinkDown
from sidecar.uplink.answer_parser import Answer


@pytest.fixture
async def sidecar(mesh):
    return await mesh.sidecar()


@pytest.fixture
def call(sidecar):
    async def call_(method, path, body=None):
        data = body if body is None or isinstance(body, bytes) else json.dumps(body)
        async with sidecar.client.request(method, f"{sidecar.base}{path}", data=data) as response:
            text = await response.read()
            return response.status, json.loads(text) if text else None

    return call_


async def test_a_topic_lives_from_its_creation_to_its_deletion(mesh, call):
    wanted = {"name": "orders", "partitions": 2, "strategy": "round_robin"}
    assert await call("POST", "/topics", wanted) == (201, wanted)
    assert await call("POST", "/topics", wanted) == (200, wanted)
    assert await call("GET", "/topics") == (200, {"topics": [wanted]})
    assert await call("GET", "/topics/orders") == (200, wanted)
    status, changed = await call("PATCH", "/topics/orders", {"partitions": 4})
    assert (status, changed["partitions"]) == (200, 4)
    assert await call("DELETE", "/topics/orders") == (204, None)
    status, problem = await call("GET", "/topics/orders")
    assert (status, problem["code"]) == (404, "unknown_topic")
    assert mesh.log.topics == {}


async def test_other_settings_for_a_topic_that_exists_are_a_conflict(call):
    await call("POST", "/topics", {"name": "orders"})
    status, problem = await call("POST", "/topics", {"name": "orders", "partitions": 9})
    assert (status, problem["code"]) == (409, "topic_exists")


async def test_a_denial_is_passed_on_with_its_decision(call):
    status, problem = await call("GET", "/topics/forbidden.x")
    assert status == 403
    assert (problem["decision_id"], problem["reason"]) == ("d1", "rule")


async def test_messages_are_spread_over_the_partitions_as_soon_as_a_topic_was_changed(
    mesh, sidecar, call
):
    await sidecar.publish({"topic": "orders", "message": 0})
    await call("PATCH", "/topics/orders", {"partitions": 2, "strategy": "round_robin"})
    found = {
        (await sidecar.publish({"topic": "orders", "message": number}))[1]["partition"]
        for number in range(4)
    }
    assert found == {0, 1}


@pytest.mark.parametrize(
    ("method", "path", "body", "names"),
    [
        ("POST", "/topics", b"{", "body"),
        ("POST", "/topics", b"\xff", "body"),
        ("POST", "/topics", b"[" * 100_00, "body"),
        ("POST", "/topics", [], "body"),
        ("POST", "/topics", {}, "name"),
        ("POST", "/topics", {"name": "t", "partitions": 0}, "partitions"),
        ("POST", "/topics", {"name": "t", "partitions": "many"}, "partitions"),
        ("POST", "/topics", {"name": "t", "strategy": "random"}, "strategy"),
        ("POST", "/topics", {"name": "t", "retention": {"days": 3}}, "days"),
        ("POST", "/topics", {"name": "t", "replicas": 3}, "replicas"),
        ("PATCH", "/topics/t", {"name": "other"}, "name"),
        ("PATCH", "/topics/t", {"storage": "memory"}, "storage"),
        ("GET", "/topics?all=1", None, "all"),
        ("GET", "/topics/t?all=1", None, "all"),
        ("GET", "/topics/a%20b", None, "topic"),
        ("DELETE", "/topics/..%2fstatus", None, "topic"),
    ],
)
async def test_what_is_wrong_is_400_with_its_name_and_never_reaches_a_gatekeeper(
    mesh, call, method, path, body, names
):
    before = len(mesh.gatekeeper.requests)
    status, problem = await call(method, path, body)
    assert status == 400
    assert names in problem["detail"]
    asked = [path for _, path in mesh.gatekeeper.requests[before:] if path != "/v1/status"]
    assert asked == []


async def test_a_description_over_the_limit_is_413(call):
    status, _ = await call("POST", "/topics", b" " * (BODY_BYTES_MAX + 1))
    assert status == 413


async def test_where_no_gatekeeper_answers_the_app_is_asked_to_come_back(mesh, sidecar, call):
    await mesh.gatekeeper.listening.stop()
    status, problem = await call("GET", "/topics")
    assert (status, problem["code"]) == (503, "uplink_down")


@pytest.mark.parametrize(
    ("status", "kind"),
    [(401, UplinkDown), (403, Denied), (429, OverQuota), (500, UplinkDown), (503, UplinkDown)],
)
def test_what_speaks_of_the_gatekeeper_itself_is_told_in_the_sidecars_words(status, kind):
    with pytest.raises(kind):
        passed_on(Answer(status, {}, b"{}"))
    with pytest.raises(UnknownTopic):
        passed_on(Answer(404, {}, b'{"code":"unknown_topic"}'))


def test_other_answers_are_passed_on_byte_for_byte():
    body = b'{"code":"topic_exists",  "x":1}'
    headers = {"content-type": "application/problem+json; charset=utf-8", "set-cookie": "a=b"}
    response = passed_on(Answer(409, headers, body))
    assert (response.status, response.body) == (409, body)
    assert response.content_type == "application/problem+json"
    assert "Set-Cookie" not in response.headers


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/topics?name=x", {"name": "orders"}),
        ("PATCH", "/topics/orders?dry_run=1", {"partitions": 3}),
        ("DELETE", "/topics/orders?force=1", None),
        ("GET", "/topics/orders?x=1", None),
        ("GET", "/topics?x=1", None),
        ("POST", "/register/publisher?x=1", {"topic": "t", "name": "n"}),
        ("POST", "/deregister/publisher?x=1", {"publisher_id": "p"}),
    ],
)
async def test_an_unknown_parameter_is_refused_and_nothing_is_done(mesh, call, method, path, body):
    mesh.log.topic("orders")
    before = dict(mesh.log.topics["orders"])
    status, problem = await call(method, path, body)
    assert (status, problem["code"]) == (400, "bad_parameter")
    assert mesh.log.topics == {"orders": before}


@pytest.mark.parametrize("path", ["/topics", "/register/publisher", "/deregister/publisher"])
async def test_a_body_that_is_none_of_these_is_not_called_a_message(call, path):
    status, problem = await call("POST", path, b"{")
    assert (status, problem["code"]) == (400, "bad_body")
    assert problem["title"] == "The body cannot be understood"
