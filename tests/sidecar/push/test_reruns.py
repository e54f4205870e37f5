"""Reruns: dead letters and ranges are delivered again to one subscription, marked, then over."""

import asyncio

import pytest

WHOLE = {"from": "earliest", "to": "latest"}
STUCK = {"first_ms": 60_000, "max_ms": 60_000, "max_attempts": None}
QUICK = {"first_ms": 1, "max_ms": 1, "max_attempts": 2}


async def ask(sidecar, method, path, document=None):
    url = f"{sidecar.base}{path}"
    async with sidecar.client.request(method, url, json=document) as response:
        return response.status, await response.json(content_type=None)


@pytest.fixture
async def sidecar(mesh, hook):
    made = await mesh.sidecar()
    wanted = {"name": "mailer", "topic": "orders", "push": {"url": hook.url}, "retry": QUICK}
    assert (await ask(made, "POST", "/subscriptions", wanted))[0] == 201
    return made


async def publish(sidecar, *messages):
    for message in messages:
        await sidecar.publish({"topic": "orders", "message": message})


async def over(mesh, sidecar, name):
    await sidecar.until(lambda: name not in mesh.gatekeeper.subscriptions)


async def test_redrive_delivers_the_dead_letters_again_and_ends(mesh, sidecar, hook):
    hook.answers = [500] * 4
    await publish(sidecar, 1, 2)
    fake = mesh.gatekeeper.subscriptions["mailer"]
    await sidecar.until(lambda: fake.low[0] == 2)
    running = sidecar.assembly.pushes.running["mailer"]
    status, started = await ask(sidecar, "POST", "/subscriptions/mailer/redrive")
    assert (status, started["subscription"]) == (201, "mailer.redrive")
    assert (started["topic"], started["messages_max"]) == ("orders.dead", 2)
    await hook.until(6)
    again = hook.seen[4:]
    assert sorted(hook.messages[4:]) == [1, 2]
    assert {each.headers["Sidegate-Subscription"] for each, _ in again} == {"mailer"}
    assert {each.headers["Sidegate-Topic"] for each, _ in again} == {"orders"}
    assert {each.headers["Sidegate-Redrive"] for each, _ in again} == {
        "orders.dead/0/0",
        "orders.dead/0/1",
    }
    await over(mesh, sidecar, "mailer.redrive")
    await sidecar.until(lambda: list(sidecar.assembly.pushes.running) == ["mailer"])
    assert sidecar.assembly.pushes.running["mailer"] is running, "it was not begun anew"
    assert running.definition["settings"]["redriven"] == {"0": 2}
    assert (await ask(sidecar, "POST", "/subscriptions/mailer/redrive"))[1] == {
        "subscription": None,
        "topic": "orders.dead",
        "messages_max": 0,
    }
    status, started = await ask(
        sidecar, "POST", "/subscriptions/mailer/redrive", {"from": "earliest"}
    )
    assert (status, started["messages_max"]) == (201, 2)
    await hook.until(8)


async def test_a_letter_that_fails_again_is_a_letter_again_with_all_of_its_history(
    mesh, sidecar, hook
):
    hook.answers = [500, 500, 503, 503]
    await publish(sidecar, 1)
    fake = mesh.gatekeeper.subscriptions["mailer"]
    await sidecar.until(lambda: fake.low[0] == 1)
    await ask(sidecar, "POST", "/subscriptions/mailer/redrive")
    await over(mesh, sidecar, "mailer.redrive")
    letters = (await sidecar.get("/messages/orders.dead"))[1]["messages"]
    assert len(letters) == 2
    history = letters[1]["headers"]["sidegate-dead-history"]
    assert [history.count(each) for each in ('"status":500', '"status":503')] == [2, 2]
    assert letters[1]["headers"]["sidegate-dead-offset"] == "0"


async def test_letters_of_others_are_left_alone(mesh, sidecar, hook):
    await sidecar.publish({"topic": "orders.dead", "message": "foreign"})
    status, started = await ask(sidecar, "POST", "/subscriptions/mailer/redrive")
    assert (status, started["messages_max"]) == (201, 1)
    await over(mesh, sidecar, "mailer.redrive")
    assert not hook.seen


async def test_replay_delivers_a_range_again_and_moves_nobodys_place(mesh, sidecar, hook):
    await publish(sidecar, *range(6))
    await hook.until(6)
    fake = mesh.gatekeeper.subscriptions["mailer"]
    await sidecar.until(lambda: fake.low[0] == 6)
    wanted = {"from": "offset:2", "to": "offset:4"}
    status, started = await ask(sidecar, "POST", "/subscriptions/mailer/replay", wanted)
    assert (status, started["messages_max"]) == (201, 2)
    await over(mesh, sidecar, started["subscription"])
    assert sorted(hook.messages[6:]) == [2, 3]
    assert {each.headers["Sidegate-Replay"] for each, _ in hook.seen[6:]} == {"true"}
    assert fake.low[0] == 6
    await publish(sidecar, "fresh")
    await sidecar.until(lambda: "fresh" in hook.messages)


async def test_a_deleted_subscription_takes_its_reruns_along(mesh, sidecar, hook):
    hook.answers = [500] * 2
    await publish(sidecar, 1)
    fake = mesh.gatekeeper.subscriptions["mailer"]
    await sidecar.until(lambda: fake.low[0] == 1)
    hook.answers = [500] * 1000
    await ask(sidecar, "PATCH", "/subscriptions/mailer", {"retry": STUCK})
    assert (await ask(sidecar, "POST", "/subscriptions/mailer/redrive"))[0] == 201
    assert (await ask(sidecar, "POST", "/subscriptions/mailer/replay", WHOLE))[0] == 201
    assert len(mesh.gatekeeper.subscriptions) == 3
    assert (await ask(sidecar, "DELETE", "/subscriptions/mailer"))[0] == 204
    assert not mesh.gatekeeper.subscriptions
    await sidecar.until(lambda: not sidecar.assembly.pushes.running)


async def test_a_rerun_that_was_left_behind_is_deleted_by_the_sidecars(mesh, sidecar, hook):
    await publish(sidecar, 1)
    await hook.until(1)
    hook.answers = [500] * 1000
    await ask(sidecar, "PATCH", "/subscriptions/mailer", {"retry": STUCK})
    assert (await ask(sidecar, "POST", "/subscriptions/mailer/replay", WHOLE))[0] == 201
    del mesh.gatekeeper.subscriptions["mailer"]
    mesh.gatekeeper.definitions.touch()
    await sidecar.until(lambda: not mesh.gatekeeper.subscriptions)
    await sidecar.until(lambda: not sidecar.assembly.pushes.running)


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({}, "body"),
        ({"from": "soon"}, "from"),
        ({"from": "earliest", "to": "later"}, "to"),
        ({"from": "earliest", "partition": 7}, "partition"),
    ],
)
async def test_a_bad_range_is_refused_by_field(sidecar, document, field):
    status, problem = await ask(sidecar, "POST", "/subscriptions/mailer/replay", document)
    assert (status, problem["field"]) == (400, field)


async def test_what_has_no_push_or_no_letters_has_no_reruns(sidecar, hook):
    await ask(sidecar, "POST", "/subscriptions", {"name": "reader", "topic": "orders"})
    for verb, document in (("redrive", {}), ("replay", {"from": "earliest"})):
        status, problem = await ask(sidecar, "POST", f"/subscriptions/reader/{verb}", document)
        assert (status, problem["reason"]) == (409, "not_push")
    await ask(sidecar, "PATCH", "/subscriptions/mailer", {"dead_letter": None})
    status, problem = await ask(sidecar, "POST", "/subscriptions/mailer/redrive")
    assert (status, problem["reason"]) == (409, "no_dead_letter")


async def test_a_rerun_that_is_under_way_is_not_begun_again(sidecar, hook):
    go = asyncio.Event()

    async def wait(_):
        await go.wait()
        return 200

    await publish(sidecar, 1)
    await hook.until(1)
    hook.answers = [wait]
    first = await ask(sidecar, "POST", "/subscriptions/mailer/replay", {"from": "earliest"})
    again = await ask(sidecar, "POST", "/subscriptions/mailer/replay", {"from": "earliest"})
    assert (first[0], again[0]) == (201, 200)
    assert first[1] == again[1]
    status, problem = await ask(
        sidecar, "POST", f"/subscriptions/{first[1]['subscription']}/redrive"
    )
    assert (status, problem["reason"]) == (409, "is_rerun")
    await hook.until(2)
    go.set()
