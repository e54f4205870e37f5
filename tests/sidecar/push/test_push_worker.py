"""A worker delivers what its member is given: retried, in order, dead-lettered, once, marked."""

import asyncio
import json

import pytest
from aiohttp import web

from sidecar.delivery.tries import NOT_TOLD


async def post(sidecar, path, document=None, *, method="POST"):
    url = f"{sidecar.base}{path}"
    async with sidecar.client.request(method, url, json=document) as response:
        return response.status, await response.json(content_type=None)


@pytest.fixture
async def sidecar(mesh):
    return await mesh.sidecar()


@pytest.fixture
async def push(sidecar, hook):
    async def push_(**changes):
        wanted = {"name": "mailer", "topic": "orders", "push": {"url": hook.url}}
        pushing = {**wanted["push"], **changes.pop("push", {})}
        status, document = await post(
            sidecar, "/subscriptions", {**wanted, **changes, "push": pushing}
        )
        assert status == 201, document
        await begun(sidecar, document["name"])
        return document

    return push_


async def begun(sidecar, name="mailer"):
    """Return once a worker carries the subscription out: it learns of it by itself."""
    running = sidecar.assembly.pushes.running
    await sidecar.until(lambda: name in running and running[name].worker is not None)


QUICK = {"first_ms": 1, "max_ms": 1}


async def publish(sidecar, *messages, key=None, **fields):
    for message in messages:
        document = {"topic": "orders", "message": message, "key": key, **fields}
        assert (await sidecar.publish(document))[0] == 200


async def test_a_message_goes_out_with_its_place_and_is_acknowledged(mesh, sidecar, hook, push):
    await push()
    await publish(sidecar, {"n": 1}, key="k", headers={"traceparent": "00-1-2-01", "x": "y"})
    await hook.until(1)
    request, body = hook.seen[0]
    assert json.loads(body)["message"] == {"n": 1}
    headers = request.headers
    assert headers["Sidegate-Topic"] == "orders"
    assert (headers["Sidegate-Partition"], headers["Sidegate-Offset"]) == ("0", "0")
    assert (headers["Sidegate-Attempt"], headers["Sidegate-Subscription"]) == ("1", "mailer")
    assert headers["traceparent"] == "00-1-2-01"
    assert headers["Content-Length"] == str(len(body))
    assert headers["Content-Type"] == "application/json"
    fake = mesh.gatekeeper.subscriptions["mailer"]
    await sidecar.until(lambda: fake.low[0] == 1)


async def test_a_failed_message_is_tried_again_and_the_tries_are_kept_with_the_cursor(
    mesh, sidecar, hook, push
):
    hook.answers = [500, 500]
    await push(retry=QUICK)
    await publish(sidecar, 1)
    await hook.until(3)
    assert [each.headers["Sidegate-Attempt"] for each, _ in hook.seen] == ["1", "2", "3"]
    assert len({each.headers["webhook-id"] for each, _ in hook.seen}) == 1
    fake = mesh.gatekeeper.subscriptions["mailer"]
    await sidecar.until(lambda: fake.low[0] == 1)
    assert [said["attempts"] for said in fake.said if said["type"] == "attempts"] == [
        {"0": 1},
        {"0": 2},
    ]
    assert [(each["number"], each["status"]) for each in fake.history[0, 0]] == [(1, 500), (2, 500)]


@pytest.mark.parametrize("mode", ["ordered", "fcfs"])
async def test_the_tries_of_a_member_before_are_in_the_dead_letter(mesh, sidecar, hook, push, mode):
    """Its first try failed, the second was lost with the connection, and the others fail here."""
    under_way, answer = asyncio.Event(), asyncio.Event()

    async def hang(_):
        under_way.set()
        await answer.wait()
        return 500

    hook.answers = [500, hang, 503, 502]
    await push(retry={**QUICK, "max_attempts": 4}, mode=mode)
    await publish(sidecar, 1)
    await under_way.wait()
    fake = mesh.gatekeeper.subscriptions["mailer"]
    await sidecar.until(lambda: fake.attempts == {(0, 0): 1})
    await mesh.gatekeeper.cut_streams()
    await sidecar.until(lambda: len(fake.openings) == 2)
    answer.set()
    await sidecar.until(lambda: fake.low[0] == 1)
    (letter,) = (await sidecar.get("/messages/orders.dead"))[1]["messages"]
    assert letter["headers"]["sidegate-dead-attempts"] == "4"
    history = json.loads(letter["headers"]["sidegate-dead-history"])
    assert [each["attempt"] for each in history] == [1, 2, 3, 4]
    assert [each["status"] for each in history] == [500, None, 503, 502]
    assert history[1]["error"] == NOT_TOLD
    assert [each["at_us"] for each in history] == sorted(each["at_us"] for each in history)
    assert [each["number"] for each in fake.history[0, 0]] == [1, 2, 3, 4], "each told once"


async def test_a_stuck_key_holds_its_own_messages_and_no_others(sidecar, hook, push):
    stuck = asyncio.Event()

    async def answer(request):
        document = json.loads(await request.read())
        return 500 if document["key"] == "a" and not stuck.is_set() else 200

    hook.answers = [answer] * 200
    await push(retry={**QUICK, "max_attempts": None})
    await publish(sidecar, "a1", "a2", key="a")
    await publish(sidecar, "b1", "b2", "b3", key="b")
    await sidecar.until(lambda: "b3" in hook.messages)
    assert "a2" not in hook.messages
    assert [each for each in hook.messages if each[0] == "b"] == ["b1", "b2", "b3"]
    stuck.set()
    await sidecar.until(lambda: "a2" in hook.messages)
    order = [each for each in hook.messages if each[0] == "a"]
    assert order == ["a1"] * (len(order) - 1) + ["a2"]


async def test_never_more_requests_than_its_concurrency(sidecar, hook, push):
    go = asyncio.Event()

    async def wait(_):
        await go.wait()
        return 200

    hook.answers = [wait] * 20
    await push(push={"concurrency": 3})
    await publish(sidecar, *range(20))
    await hook.until(3)
    await asyncio.sleep(0.05)
    assert hook.most_under_way == 3
    go.set()
    await hook.until(20)
    assert hook.most_under_way == 3


async def test_the_last_try_ends_in_the_dead_letters_with_its_history(mesh, sidecar, hook, push):
    hook.answers = [500, web.Response(status=503, text="busy"), 418]
    await push(retry={**QUICK, "max_attempts": 3})
    await publish(sidecar, {"n": 1}, key="k", headers={"x": "y"}, id="own-1")
    fake = mesh.gatekeeper.subscriptions["mailer"]
    await sidecar.until(lambda: fake.low[0] == 1)
    _, page = await sidecar.get("/messages/orders.dead")
    (letter,) = page["messages"]
    assert (letter["message"], letter["key"]) == ({"n": 1}, "k")
    headers = letter["headers"]
    assert headers["x"] == "y"
    assert headers["sidegate-dead-subscription"] == "mailer"
    assert headers["sidegate-dead-topic"] == "orders"
    assert headers["sidegate-dead-id"] == "own-1"
    assert (headers["sidegate-dead-partition"], headers["sidegate-dead-offset"]) == ("0", "0")
    assert headers["sidegate-dead-attempts"] == "3"
    history = json.loads(headers["sidegate-dead-history"])
    assert [each["status"] for each in history] == [500, 503, 418]
    assert "busy" in history[1]["error"]


async def test_a_dead_letter_that_cannot_be_written_keeps_its_message(mesh, sidecar, hook, push):
    async def refuse_the_letter(_):
        mesh.gatekeeper.failures = ["denied"]
        return 500

    hook.answers = [refuse_the_letter]
    await push(retry={**QUICK, "max_attempts": 1})
    await publish(sidecar, 1)
    worker = sidecar.assembly.pushes.running["mailer"]
    await sidecar.until(lambda: worker.worker.tally.bury_error is not None)
    fake = mesh.gatekeeper.subscriptions["mailer"]
    assert fake.low[0] == 0
    assert (
        "orders.dead" in (await sidecar.get("/subscriptions/mailer"))[1]["delivery"]["last_error"]
    )
    await sidecar.until(lambda: fake.low[0] == 1)
    assert len((await sidecar.get("/messages/orders.dead"))[1]["messages"]) == 1
    assert len(hook.seen) == 1


async def test_without_dead_letters_the_message_is_dropped_and_counted(mesh, sidecar, hook, push):
    hook.answers = [500]
    await push(retry={**QUICK, "max_attempts": 1}, dead_letter=None)
    await publish(sidecar, 1, 2)
    fake = mesh.gatekeeper.subscriptions["mailer"]
    await sidecar.until(lambda: fake.low[0] == 2)
    assert (await sidecar.get("/status"))[1]["pushes"]["dropped"] == 1


async def test_while_nothing_listens_all_waits_and_no_try_is_counted(mesh, sidecar, hook, push):
    await push(retry={"first_ms": 1, "max_ms": 20})
    await hook.stop()
    await publish(sidecar, *range(5))
    worker = sidecar.assembly.pushes.running["mailer"]
    await sidecar.until(lambda: worker.worker.queue.down_since_us is not None)
    await asyncio.sleep(0.3)
    _, state = await sidecar.get("/subscriptions/mailer")
    assert state["delivery"]["state"] == "unreachable"
    assert state["delivery"]["unreachable_since"]
    assert state["lag"] == 5
    fake = mesh.gatekeeper.subscriptions["mailer"]
    assert not [said for said in fake.said if said["type"] == "attempts"]
    await hook.start()
    await hook.until(5)
    await sidecar.until(lambda: fake.low[0] == 5)
    assert {each.headers["Sidegate-Attempt"] for each, _ in hook.seen} == {"1"}


async def test_with_max_attempts_of_its_own_an_unreachable_app_counts(mesh, sidecar, hook, push):
    await push(retry={**QUICK, "max_attempts": 2})
    await hook.stop()
    await publish(sidecar, 1)
    fake = mesh.gatekeeper.subscriptions["mailer"]
    await sidecar.until(lambda: fake.low[0] == 1)
    (letter,) = (await sidecar.get("/messages/orders.dead"))[1]["messages"]
    assert letter["headers"]["sidegate-dead-attempts"] == "2"
    assert letter["headers"]["sidegate-dead-status"] == ""


async def test_fire_and_forget_is_acknowledged_before_it_is_sent_and_sent_once(
    mesh, sidecar, hook, push
):
    hook.answers = [500]
    await push(mode="fire_and_forget")
    fake = mesh.gatekeeper.subscriptions["mailer"]
    lows = []

    async def look(_):
        lows.append(fake.low[0])
        return 200

    hook.answers = [500, look]
    await publish(sidecar, 1)
    await hook.until(1)
    await publish(sidecar, 2)
    await hook.until(2)
    assert hook.messages == [1, 2]
    assert lows == [2]
    await asyncio.sleep(0.1)
    assert len(hook.seen) == 2


async def test_retry_after_of_a_busy_app_holds_everything(sidecar, hook, push):
    busy = web.Response(status=429, headers={"Retry-After": "1"})
    hook.answers = [busy]
    await push(retry=QUICK)
    began = asyncio.get_running_loop().time()
    await publish(sidecar, "a", key="a")
    await hook.until(1)
    await publish(sidecar, "b", key="b")
    await hook.until(3)
    assert asyncio.get_running_loop().time() - began > 0.7


async def test_a_paused_subscription_sends_nothing(sidecar, hook, push):
    await push()
    assert (await post(sidecar, "/subscriptions/mailer/pause"))[1]["paused"]
    worker = sidecar.assembly.pushes.running["mailer"]
    await sidecar.until(lambda: worker.worker.paused)
    await publish(sidecar, 1)
    await asyncio.sleep(0.1)
    assert not hook.seen
    await post(sidecar, "/subscriptions/mailer/resume")
    await hook.until(1)


async def test_what_is_lost_with_the_connection_is_not_delivered_out_of_order(
    mesh, sidecar, hook, push
):
    go = asyncio.Event()

    async def wait(_):
        await go.wait()
        return 200

    hook.answers = [wait]
    await push()
    await publish(sidecar, 1, 2, 3, key="k")
    await hook.until(1)
    await mesh.gatekeeper.cut_streams()
    fake = mesh.gatekeeper.subscriptions["mailer"]
    await sidecar.until(lambda: len(fake.openings) == 2)
    go.set()
    await sidecar.until(lambda: fake.low[0] == 3)
    assert hook.messages in ([1, 2, 3], [1, 1, 2, 3])


async def test_a_revoked_partition_is_finished_and_released(mesh, sidecar, hook, push):
    go = asyncio.Event()

    async def wait(_):
        await go.wait()
        return 200

    hook.answers = [wait]
    await push()
    await publish(sidecar, 1, 2, key="k")
    await hook.until(1)
    fake = mesh.gatekeeper.subscriptions["mailer"]
    await sidecar.until(lambda: sidecar.assembly.pushes.running["mailer"].worker.queue.held == 2)
    await fake.say(type="revoke", partition=0, generation=fake.generation)
    await sidecar.until(lambda: sidecar.assembly.pushes.running["mailer"].worker.queue.held == 1)
    go.set()
    await sidecar.until(lambda: any(each["type"] == "released" for each in fake.said))
    kinds = [each["type"] for each in fake.said if each["type"] in ("ack", "released")]
    assert kinds == ["ack", "released"]
    assert fake.low[0] == 1


async def test_fcfs_leases_are_acknowledged(mesh, sidecar, hook, push):
    hook.answers = [500]
    await push(mode="fcfs", retry=QUICK)
    await publish(sidecar, *range(10), key="same")
    fake = mesh.gatekeeper.subscriptions["mailer"]
    await sidecar.until(lambda: fake.low[0] == 10)
    assert sorted(set(hook.messages)) == list(range(10))


async def test_a_filter_leaves_messages_out_and_acknowledges_them(mesh, sidecar, hook, push):
    await push(filter="message.n > 1")
    await publish(sidecar, {"n": 1}, {"n": 2})
    await hook.until(1)
    fake = mesh.gatekeeper.subscriptions["mailer"]
    await sidecar.until(lambda: fake.low[0] == 2)
    assert hook.messages == [{"n": 2}]


async def test_a_sidecar_that_stops_lets_what_is_under_way_arrive(mesh, hook, sidecar, push):
    go = asyncio.Event()

    async def wait(_):
        await go.wait()
        return 200

    hook.answers = [wait]
    await push()
    await publish(sidecar, 1)
    await hook.until(1)
    mesh.sidecars.remove(sidecar)
    stopping = asyncio.create_task(sidecar.stop())
    await asyncio.sleep(0.05)
    go.set()
    await stopping
    assert mesh.gatekeeper.subscriptions["mailer"].low[0] == 1


async def test_no_more_is_taken_than_may_be_held(mesh, hook):
    from sidecar.config import PushConfig

    sidecar = await mesh.sidecar(push=PushConfig(held_messages_max=5))
    go = asyncio.Event()

    async def wait(_):
        await go.wait()
        return 200

    hook.answers = [wait] * 50
    wanted = {"name": "mailer", "topic": "orders", "push": {"url": hook.url}}
    assert (await post(sidecar, "/subscriptions", wanted))[0] == 201
    await publish(sidecar, *range(50), key="one")
    await begun(sidecar)
    worker = sidecar.assembly.pushes.running["mailer"]
    await sidecar.until(lambda: worker.worker.queue.held >= 5)
    await asyncio.sleep(0.1)
    assert worker.worker.queue.held == 5
    go.set()
    await hook.until(50)
    assert hook.messages == list(range(50))
