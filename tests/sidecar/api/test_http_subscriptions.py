"""Subscriptions over HTTP: what is asked is checked, passed on, and shown with its state."""

import pytest


async def ask(sidecar, method, path, document=None):
    url = f"{sidecar.base}{path}"
    async with sidecar.client.request(method, url, json=document) as response:
        return response.status, await response.json(content_type=None)


@pytest.fixture
async def sidecar(mesh):
    return await mesh.sidecar()


def mailer(hook, **changes):
    return {"name": "mailer", "topic": "orders", "push": {"url": hook.url}, **changes}


async def test_create_list_describe_alter_delete(sidecar, hook):
    status, made = await ask(sidecar, "POST", "/subscriptions", mailer(hook))
    assert status == 201
    assert made["push"] == {"url": hook.url}
    assert made["dead_letter"] == {"topic": "orders.dead"}
    assert (made["mode"], made["paused"], made["filter"]) == ("ordered", False, None)
    assert (await ask(sidecar, "POST", "/subscriptions", mailer(hook)))[0] == 200
    listed = (await ask(sidecar, "GET", "/subscriptions"))[1]["subscriptions"]
    assert [each["name"] for each in listed] == ["mailer"]
    change = {"push": {"url": hook.url, "concurrency": 2}, "retry": {"max_attempts": 4}}
    status, altered = await ask(sidecar, "PATCH", "/subscriptions/mailer", change)
    assert (status, altered["push"]["concurrency"]) == (200, 2)
    assert (altered["retry"], altered["dead_letter"]) == (
        {"max_attempts": 4},
        {"topic": "orders.dead"},
    )
    await sidecar.until(lambda: "mailer" in sidecar.assembly.pushes.running)
    status, state = await ask(sidecar, "GET", "/subscriptions/mailer")
    assert (status, state["lag"], state["in_flight"]) == (200, 0, 0)
    assert state["delivery"]["state"] in ("starting", "delivering")
    assert (await ask(sidecar, "DELETE", "/subscriptions/mailer"))[0] == 204
    status, problem = await ask(sidecar, "GET", "/subscriptions/mailer")
    assert (status, problem["code"]) == (404, "unknown_subscription")


async def test_it_says_why_it_is_stuck(sidecar, hook):
    hook.answers = [500] * 100
    await ask(sidecar, "POST", "/subscriptions", mailer(hook, retry={"first_ms": 60_000}))
    await sidecar.publish({"topic": "orders", "message": 1, "key": "k"})
    await sidecar.publish({"topic": "orders", "message": 2, "key": "k"})
    await hook.until(1)
    worker = sidecar.assembly.pushes.running["mailer"].worker
    await sidecar.until(lambda: worker.tally.failed == 1 and worker.queue.held == 2)
    _, state = await ask(sidecar, "GET", "/subscriptions/mailer")
    delivery = state["delivery"]
    assert (delivery["state"], delivery["held"], delivery["failed"]) == ("retrying", 2, 1)
    assert (delivery["last_status"], delivery["next_try"] is not None) == (500, True)
    assert "500" in delivery["last_error"]
    assert state["lag"] == 2


async def test_by_hand_it_is_paused_resumed_sought_acked_and_nacked(mesh, sidecar):
    document = {"name": "reader", "topic": "orders"}
    assert (await ask(sidecar, "POST", "/subscriptions", document))[0] == 201
    await sidecar.publish({"topic": "orders", "message": 1})
    assert (await ask(sidecar, "POST", "/subscriptions/reader/pause"))[1]["paused"]
    assert not (await ask(sidecar, "POST", "/subscriptions/reader/resume"))[1]["paused"]
    _, state = await ask(sidecar, "POST", "/subscriptions/reader/seek", {"to": "earliest"})
    assert (state["lag"], state["delivery"]) == (1, None)
    await ask(sidecar, "POST", "/subscriptions/reader/seek", {"to": "offset:1"})
    await ask(sidecar, "POST", "/subscriptions/reader/ack", {"offsets": [3, 1], "ranges": [[5, 7]]})
    await ask(sidecar, "POST", "/subscriptions/reader/nack", {"offsets": [1], "delay_ms": 5})
    said = mesh.gatekeeper.subscriptions["reader"].said
    assert said[-3]["to"] == {"offsets": {"0": 1}}
    assert said[-2] == {"type": "ack", "partition": 0, "ranges": [[1, 1], [3, 3], [5, 7]]}
    assert said[-1] == {"type": "nack", "partition": 0, "offsets": [1], "delay_ms": 5}


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({"topic": "t"}, "body"),
        ({"name": "a/b", "topic": "t"}, "name"),
        ({"name": "a", "topic": "_t"}, "topic"),
        ({"name": "a", "topic": "t", "x": 1}, "body"),
        ({"name": "a", "topic": "t", "from": "soon"}, "from"),
        ({"name": "a", "topic": "t", "from": {"offsets": {"x": 1}}}, "from"),
        ({"name": "a", "topic": "t", "mode": "fire_and_forget"}, "mode"),
        ({"name": "a", "topic": "t", "mode": "random"}, "mode"),
        ({"name": "a", "topic": "t", "push": {}}, "push"),
        ({"name": "a", "topic": "t", "push": {"url": "ftp://x"}}, "push.url"),
        ({"name": "a", "topic": "t", "push": {"url": 1}}, "push.url"),
        ({"name": "a", "topic": "t", "push": {"url": "http://127.0.0.1:1", "concurrency": 0}},
         "push.concurrency"),
        ({"name": "a", "topic": "t", "retry": {"max_attempts": 0}}, "retry.max_attempts"),
        ({"name": "a", "topic": "t", "push": {"url": "http://127.0.0.1:1", "secret_file": "x"}},
         "push"),
        ({"name": "a", "topic": "t", "push": {"url": "http://127.0.0.1:1"}, "dead_letter": "t"},
         "dead_letter"),
        ({"name": "a", "topic": "t", "push": {"url": "http://127.0.0.1:1"}, "filter": "1 +"},
         "filter"),
    ],
)  # fmt: skip
async def test_a_problem_names_the_field(sidecar, document, field):
    status, problem = await ask(sidecar, "POST", "/subscriptions", document)
    assert (status, problem["field"]) == (400, field)
    assert (await ask(sidecar, "GET", "/subscriptions"))[1]["subscriptions"] == []


async def test_a_refused_destination_names_the_rule_and_the_setting(sidecar, mesh):
    own = sidecar.assembly.site.port
    for url in (
        f"http://127.0.0.1:{own}/",
        "http://localhost:8443/",
        mesh.gatekeeper.listening.url,
    ):
        wanted = {"name": "a", "topic": "t", "push": {"url": url}}
        status, problem = await ask(sidecar, "POST", "/subscriptions", wanted)
        assert (status, problem["code"]) == (403, "forbidden_destination"), url
        assert "own ports" in problem["detail"]
    wanted = {"name": "a", "topic": "t", "push": {"url": "http://192.0.2.1/"}}
    status, problem = await ask(sidecar, "POST", "/subscriptions", wanted)
    assert (status, problem["config_key"]) == (403, "push.allow")


async def test_the_policys_denial_is_passed_on(sidecar, hook):
    wanted = mailer(hook, topic="forbidden.t", dead_letter=None)
    status, problem = await ask(sidecar, "POST", "/subscriptions", wanted)
    assert (status, problem["decision_id"]) == (403, "d1")
    wanted = mailer(hook, dead_letter={"topic": "forbidden.letters"})
    status, problem = await ask(sidecar, "POST", "/subscriptions", wanted)
    assert (status, problem["code"]) == (403, "denied")
    assert problem["detail"].startswith("dead_letter")


async def test_a_second_subscription_of_the_same_webhook_is_refused(sidecar, hook):
    await ask(sidecar, "POST", "/subscriptions", mailer(hook))
    again = mailer(hook, name="other")
    again["push"] = {"url": hook.url.replace("127.0.0.1", "0x7f.1")}
    status, problem = await ask(sidecar, "POST", "/subscriptions", again)
    assert (status, problem["reason"]) == (409, "subscriber_exists")
    assert problem["subscription"] == "mailer"
    other = mailer(hook, name="other", topic="other")
    assert (await ask(sidecar, "POST", "/subscriptions", other))[0] == 201


async def test_a_secret_is_in_no_answer(mesh, hook):
    from sidecar.config import PushConfig

    folder = mesh.folder / "secrets"
    folder.mkdir()
    (folder / "token").write_text("Bearer hush-hush")
    (folder / "token").chmod(0o600)
    keeper = await mesh.sidecar(data=mesh.folder / "other", push=PushConfig(secrets=folder))
    push = {"url": hook.url, "headers": {"Authorization": {"secret_file": "token"}}}
    status, made = await ask(keeper, "POST", "/subscriptions", mailer(hook, push=push))
    assert (status, made["push"]["headers"]) == (201, {"Authorization": {"secret_file": "token"}})
    await keeper.publish({"topic": "orders", "message": 1})
    await hook.until(1)
    assert hook.seen[-1][0].headers["Authorization"] == "Bearer hush-hush"
    stored = str(mesh.gatekeeper.subscriptions["mailer"].definition)
    assert "hush" not in stored + str((await ask(keeper, "GET", "/subscriptions/mailer"))[1])


async def test_the_standard_library_of_webhooks_verifies_a_delivery(mesh, hook):
    from standardwebhooks.webhooks import Webhook

    from sidecar.config import PushConfig

    secrets = {name: f"whsec_{name * 32}" for name in ("a", "b")}
    for name, text in secrets.items():
        file = mesh.folder / name
        file.write_text(text)
        file.chmod(0o600)
    sidecar = await mesh.sidecar(push=PushConfig(secrets=mesh.folder))
    push = {"url": hook.url, "secret_file": ["a", "b"]}
    assert (await ask(sidecar, "POST", "/subscriptions", mailer(hook, push=push)))[0] == 201
    await sidecar.publish({"topic": "orders", "message": {"n": "ü"}})
    await hook.until(1)
    request, body = hook.seen[0]
    for secret in secrets.values():
        found = Webhook(secret).verify(body.decode(), dict(request.headers))
        assert found["message"] == {"n": "ü"}
