"""`/v1/topics`, as a gatekeeper sees it."""

import asyncio
from typing import Any

import pytest


async def test_a_topic_is_created_described_and_listed(core: Any) -> None:
    wanted = {
        "name": "orders",
        "partitions": 2,
        "strategy": "round_robin",
        "retention": {"age_ms": 1000, "bytes": None},
        "storage": "disk",
        "delivery": "fcfs",
    }
    status, topic, headers = await core.call("POST", "/v1/topics", json=wanted)
    assert status == 201
    assert {name: topic[name] for name in wanted} == wanted
    assert topic["offsets"] == [
        {"partition": 0, "start_offset": 0, "end_offset": 0},
        {"partition": 1, "start_offset": 0, "end_offset": 0},
    ]
    assert headers["ETag"] == f'"{topic["version"]}"'
    assert await _status(core, "POST", "/v1/topics", json=wanted) == 200
    assert (await core.call("GET", "/v1/topics/orders"))[1] == topic
    assert (await core.call("GET", "/v1/topics"))[1]["topics"][1] == topic


async def test_a_different_topic_of_the_same_name_is_a_conflict(core: Any) -> None:
    await core.call("POST", "/v1/topics", json={"name": "orders"})
    status, problem, _ = await core.call(
        "POST", "/v1/topics", json={"name": "orders", "partitions": 3}
    )
    assert (status, problem["code"], problem["differs"]) == (409, "topic_exists", ["partitions"])


@pytest.mark.parametrize(
    "body", [b"{", b"[]", b'{"name":"a b"}', b'{"name":"_x"}', b'{"name":"a","partition":1}']
)
async def test_a_bad_definition_is_refused(core: Any, body: bytes) -> None:
    status, problem, headers = await core.call("POST", "/v1/topics", data=body)
    assert status == 400
    assert problem["code"] in ("bad_json", "bad_topic")
    assert headers["Content-Type"] == "application/problem+json"


async def test_what_does_not_exist_is_named(core: Any) -> None:
    for method, body in (("GET", None), ("PATCH", {}), ("DELETE", None)):
        status, problem, _ = await core.call(method, "/v1/topics/orders", json=body)
        assert (status, problem["code"], problem["topic"]) == (404, "unknown_topic", "orders")
    assert await _status(core, "GET", "/v1/topics/a%20b") == 400
    assert await _status(core, "GET", "/v1/topics/orders/offsets") == 404
    assert await _status(core, "PUT", "/v1/topics/orders") == 405
    assert await _status(core, "GET", "/v1/nothing") == 404


async def test_partitions_grow_and_a_version_check_guards_changes(core: Any) -> None:
    _, topic, headers = await core.call("POST", "/v1/topics", json={"name": "orders"})
    path = "/v1/topics/orders"
    match = {"If-Match": headers["ETag"]}
    status, grown, _ = await core.call("PATCH", path, json={"partitions": 3}, headers=match)
    assert (status, grown["partitions"], len(grown["offsets"])) == (200, 3, 3)
    assert grown["version"] > topic["version"]
    status, problem, _ = await core.call("PATCH", path, json={"partitions": 4}, headers=match)
    assert (status, problem["code"], problem["version"]) == (
        412,
        "topic_changed",
        grown["version"],
    )
    assert await _status(core, "DELETE", path, headers=match) == 412
    assert await _status(core, "PATCH", path, json={"partitions": 2}) == 400
    assert await _status(core, "PATCH", path, json={"storage": "memory"}) == 400
    assert await _status(core, "PATCH", path, json={}, headers={"If-Match": "x"}) == 400
    assert await _status(core, "DELETE", path, headers={"If-Match": "*"}) == 204
    assert await _status(core, "GET", path) == 404


async def test_a_topic_may_be_made_by_asking_for_it(start_core: Any) -> None:
    core = await start_core(auto_create_topics=True)
    assert await _status(core, "GET", "/v1/topics/orders") == 404
    status, topic, _ = await core.call("GET", "/v1/topics/orders?create=1")
    assert (status, topic["partitions"]) == (200, 1)
    assert await _status(core, "GET", "/v1/topics/_x?create=1") == 404
    assert await _status(core, "GET", "/v1/topics/orders?make=1") == 400


async def test_asking_makes_nothing_where_that_is_not_configured(core: Any) -> None:
    assert await _status(core, "GET", "/v1/topics/orders?create=1") == 404


async def test_offsets_are_found_by_time(core: Any, frames: Any) -> None:
    await core.call("POST", "/v1/topics", json={"name": "orders", "partitions": 2})
    await core.append(frames.encoded("orders", [b"a", b"b"]))
    await asyncio.sleep(0.002)
    later = (await core.append(frames.encoded("orders", [b"c"])))[0]["append_us"]
    _, found, _ = await core.call("GET", f"/v1/topics/orders/offsets?time_us={later}")
    assert found["partitions"] == [
        {"partition": 0, "start_offset": 0, "end_offset": 3, "offset": 2},
        {"partition": 1, "start_offset": 0, "end_offset": 0, "offset": 0},
    ]
    _, plain, _ = await core.call("GET", "/v1/topics/orders/offsets")
    assert plain["partitions"][0]["offset"] == 0


async def test_topics_and_who_made_them_survive_a_restart(start_core: Any) -> None:
    core = await start_core()
    headers = {"Sidegate-Principal": "billing", "Sidegate-Decision": "d-1"}
    _, topic, _ = await core.call("POST", "/v1/topics", json={"name": "orders"}, headers=headers)
    assert await core.stop() == 0
    again = await start_core()
    assert (await again.call("GET", "/v1/topics/orders"))[1] == topic


async def test_deleted_messages_do_not_come_back_with_the_name(core: Any, frames: Any) -> None:
    await core.call("POST", "/v1/topics", json={"name": "orders"})
    await core.append(frames.encoded("orders", [b"old"]))
    await core.call("DELETE", "/v1/topics/orders")
    results = await core.append(frames.encoded("orders", [b"lost"], sequence=1))
    assert results[0]["error"] == "unknown_topic"
    _, topic, _ = await core.call("POST", "/v1/topics", json={"name": "orders"})
    assert topic["offsets"] == [{"partition": 0, "start_offset": 1, "end_offset": 1}]
    _, body, _ = await core.call("GET", "/v1/read?topic=orders&offset=0")
    assert body == b""


async def _status(core: Any, method: str, path: str, **kwargs: Any) -> int:
    status, _, _ = await core.call(method, path, **kwargs)
    return int(status)
