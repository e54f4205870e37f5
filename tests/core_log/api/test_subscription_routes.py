"""`/v1/subscriptions` over HTTP."""

import asyncio
from typing import Any

import pytest

from core_log.api.subscription_routes import ACKED_SHOWN_MAX

OWNED = {"headers": {"Sidegate-Principal": "billing"}}
MAILER = {"name": "mailer", "topic": "orders", "from": "earliest"}


@pytest.fixture
async def orders(core: Any) -> Any:
    await core.call("POST", "/v1/topics", json={"name": "orders"})
    return core


async def create(core: Any, **more: Any) -> tuple[int, Any]:
    wanted = {**MAILER, **more}
    status, answer, _ = await core.call("POST", "/v1/subscriptions", json=wanted, **OWNED)
    return status, answer


async def test_create_is_201_then_200_then_409(orders: Any) -> None:
    status, made = await create(orders)
    assert status == 201
    assert made == {
        "name": "mailer",
        "owner": "billing",
        "topic": "orders",
        "mode": "ordered",
        "from": "earliest",
        "lease_ms": 30_000,
        "paused": False,
        "push": False,
        "settings": {},
        "created_us": made["created_us"],
        "version": made["version"],
    }
    assert await create(orders) == (200, made)
    status, problem = await create(orders, push=True, settings={"a": 1})
    assert (status, problem["code"]) == (409, "subscription_exists")
    assert problem["differs"] == ["push", "settings"]


async def test_subscriptions_are_scoped_by_owner(orders: Any) -> None:
    await create(orders)
    status, made = await create(orders, owner="ops")
    assert (status, made["owner"]) == (201, "ops")
    listed = (await orders.call("GET", "/v1/subscriptions?owner=ops", **OWNED))[1]
    assert [each["owner"] for each in listed["subscriptions"]] == ["ops"]
    status, problem, _ = await orders.call("GET", "/v1/subscriptions")
    assert (status, problem["code"]) == (400, "bad_query"), "somebody has to ask"
    status, problem, _ = await orders.call("GET", "/v1/subscriptions/mailer?owner=nobody")
    assert (status, problem["code"], problem["owner"]) == (404, "unknown_subscription", "nobody")


async def test_the_list_waits_for_a_change_of_the_owners_definitions(orders: Any) -> None:
    await create(orders)
    version = (await orders.call("GET", "/v1/subscriptions", **OWNED))[1]["version"]
    path = f"/v1/subscriptions?after={version}&wait_ms=10000"
    waiting = asyncio.ensure_future(orders.call("GET", path, **OWNED))
    await create(orders, name="other", owner="ops")
    await asyncio.sleep(0.05)
    assert not waiting.done(), "another's change is none of its own"
    await orders.call("PATCH", "/v1/subscriptions/mailer", json={"push": True}, **OWNED)
    answer = (await waiting)[1]
    assert answer["version"] > version
    assert answer["subscriptions"][0]["push"] is True
    waiting = asyncio.ensure_future(
        orders.call("GET", f"/v1/subscriptions?after={answer['version']}&wait_ms=10000", **OWNED)
    )
    await asyncio.sleep(0.02)
    await orders.call("DELETE", "/v1/topics/orders")
    assert (await waiting)[1]["subscriptions"] == []
    old = (await orders.call("GET", "/v1/subscriptions?after=0&wait_ms=10000", **OWNED))[1]
    assert old["version"] > answer["version"], "who missed something is answered at once"


async def test_a_wait_ends_with_its_time(orders: Any) -> None:
    version = (await orders.call("GET", "/v1/subscriptions", **OWNED))[1]["version"]
    path = f"/v1/subscriptions?after={version}&wait_ms=30"
    assert (await orders.call("GET", path, **OWNED))[1]["subscriptions"] == []


async def test_alter_heeds_the_version(orders: Any) -> None:
    _, made = await create(orders)
    path = "/v1/subscriptions/mailer"
    headers = {**OWNED["headers"], "If-Match": f'"{made["version"]}"'}
    status, altered, answer = await orders.call(
        "PATCH", path, json={"lease_ms": 5_000}, headers=headers
    )
    assert (status, altered["lease_ms"]) == (200, 5_000)
    assert answer["ETag"] == f'"{altered["version"]}"'
    for method, body in (("PATCH", {"push": True}), ("DELETE", None)):
        status, problem, _ = await orders.call(method, path, json=body, headers=headers)
        assert (status, problem["code"]) == (412, "subscription_changed")
    status, problem, _ = await orders.call("PATCH", path, json={"topic": "x"}, **OWNED)
    assert (status, problem["code"]) == (400, "bad_subscription")
    assert (await orders.call("DELETE", path, **OWNED))[0] == 204
    assert (await orders.call("DELETE", path, **OWNED))[0] == 404


@pytest.mark.parametrize(
    ("method", "rest", "body"),
    [
        ("GET", "", None),
        ("PATCH", "", {"push": True}),
        ("DELETE", "", None),
        ("POST", "/pause", None),
        ("POST", "/seek", {"to": "latest"}),
        ("POST", "/ack", {"partition": 0, "ranges": [[0, 0]]}),
        ("POST", "/nack", {"partition": 0, "offsets": [0]}),
    ],
)
async def test_a_decision_about_another_topic_does_not_count(
    orders: Any, frames: Any, method: str, rest: str, body: Any
) -> None:
    await create(orders)
    await orders.append(frames.encoded("orders", [b"a"]))
    headers = {**OWNED["headers"], "Sidegate-Topic": "payments"}
    path = f"/v1/subscriptions/mailer{rest}"
    status, problem, _ = await orders.call(method, path, json=body, headers=headers)
    assert (status, problem["code"], problem["topic"]) == (409, "topic_mismatch", "orders")
    headers["Sidegate-Topic"] = "orders"
    assert (await orders.call(method, path, json=body, headers=headers))[0] in (200, 204)


async def test_acknowledging_by_hand_needs_no_member(orders: Any, frames: Any) -> None:
    await create(orders)
    await orders.append(frames.encoded("orders", [b"a", b"b", b"c"]))
    path = "/v1/subscriptions/mailer"
    ack = {"partition": 0, "ranges": [[0, 0], [2, 2]]}
    status, shown, _ = await orders.call("POST", f"{path}/ack", json=ack, **OWNED)
    assert (status, shown["state"], shown["cursors"][0]["lag"]) == (200, "idle", 1)
    nack = {"partition": 0, "offsets": [0, 1], "delay_ms": 5}
    shown = (await orders.call("POST", f"{path}/nack", json=nack, **OWNED))[1]
    assert shown["cursors"][0]["attempts"] == {"1": 1}, "what is done stays done"
    for rest, body in (
        ("ack", {"partition": 0, "ranges": [[0, 3]]}),
        ("ack", {"partition": 0}),
        ("nack", {"partition": 0, "offsets": [3]}),
        ("seek", {}),
        ("seek", {"to": "soon"}),
    ):
        status, problem, _ = await orders.call("POST", f"{path}/{rest}", json=body, **OWNED)
        assert (status, problem["code"]) == (400, "bad_subscription"), body
    far = {"partition": 7, "ranges": [[0, 0]]}
    status, problem, _ = await orders.call("POST", f"{path}/ack", json=far, **OWNED)
    assert (status, problem["code"]) == (404, "unknown_partition")


async def test_a_seek_by_time_and_to_the_ends(orders: Any, frames: Any) -> None:
    await create(orders)
    first = (await orders.append(frames.encoded("orders", [b"a"])))[0]["append_us"]
    await asyncio.sleep(0.002)
    await orders.append(frames.encoded("orders", [b"b"]))
    path = "/v1/subscriptions/mailer/seek"
    for to, low in (("latest", 2), ("earliest", 0), ({"time_us": first + 1}, 1)):
        shown = (await orders.call("POST", path, json={"to": to}, **OWNED))[1]
        assert shown["cursors"][0]["low"] == low
    far = {"to": {"offsets": {"9": 1}}}
    assert (await orders.call("POST", path, json=far, **OWNED))[0] == 404


async def test_pause_and_resume(orders: Any) -> None:
    await create(orders)
    path = "/v1/subscriptions/mailer"
    assert (await orders.call("POST", f"{path}/pause", **OWNED))[1]["paused"] is True
    assert (await orders.call("GET", path, **OWNED))[1]["state"] == "paused"
    assert (await orders.call("POST", f"{path}/resume", **OWNED))[1]["paused"] is False


async def test_only_the_first_ranges_are_shown(orders: Any, frames: Any) -> None:
    await create(orders)
    await orders.append(frames.encoded("orders", [b"x"] * 500))
    ranges = [[n, n] for n in range(1, 400, 2)]
    body = {"partition": 0, "ranges": ranges}
    shown = (await orders.call("POST", "/v1/subscriptions/mailer/ack", json=body, **OWNED))[1]
    assert len(shown["cursors"][0]["acked"]) == ACKED_SHOWN_MAX
    assert shown["cursors"][0]["lag"] == 500 - len(ranges)


@pytest.mark.parametrize("name", ["a%20b", "-x", "x" * 129])
async def test_a_path_with_no_legal_name_is_refused(orders: Any, name: str) -> None:
    status, problem, _ = await orders.call("GET", f"/v1/subscriptions/{name}", **OWNED)
    assert (status, problem["code"]) == (400, "bad_subscription")


async def test_an_unknown_topic_is_named_and_one_that_was_decided_about_must_be_the_one(
    orders: Any,
) -> None:
    status, problem = await create(orders, topic="nowhere")
    assert (status, problem["code"]) == (404, "unknown_topic")
    headers = {**OWNED["headers"], "Sidegate-Topic": "payments"}
    status, problem, _ = await orders.call(
        "POST", "/v1/subscriptions", json=MAILER, headers=headers
    )
    assert (status, problem["code"]) == (409, "topic_mismatch")
