"""Registered webhooks: registering twice is registering once, and each message comes once."""

import asyncio

import pytest


async def ask(sidecar, method, path, document=None):
    url = f"{sidecar.base}{path}"
    async with sidecar.client.request(method, url, json=document) as response:
        return response.status, await response.json(content_type=None)


@pytest.fixture
async def sidecar(mesh):
    return await mesh.sidecar()


async def test_registered_twice_a_message_comes_once(sidecar, hook):
    wanted = {"topic": "t", "url": hook.url, "method": "PUT"}
    first = await ask(sidecar, "POST", "/register/subscriber", wanted)
    spelt = {**wanted, "url": hook.url.replace("http://127.0.0.1", "HTTP://2130706433")}
    again = await ask(sidecar, "POST", "/register/subscriber", spelt)
    assert (first[0], again[0]) == (201, 200)
    assert first[1] == again[1]
    assert first[1]["url"] == hook.url
    await sidecar.publish({"topic": "t", "message": {"n": 1}})
    await hook.until(1)
    await asyncio.sleep(0.2)
    assert [(request.method, request.path) for request, _ in hook.seen] == [("PUT", "/hook")]
    listed = (await sidecar.get("/register"))[1]
    assert listed == {"publishers": [], "subscribers": [first[1]]}


async def test_without_a_gatekeeper_those_are_listed_that_the_sidecar_knows(mesh, sidecar, hook):
    _, made = await ask(sidecar, "POST", "/register/subscriber", {"topic": "t", "url": hook.url})
    await sidecar.until(lambda: sidecar.assembly.pushes.running)
    await mesh.gatekeeper.listening.stop()
    status, listed = await sidecar.get("/register")
    assert (status, listed["subscribers"], listed["complete"]) == (200, [made], False)


async def test_a_failure_is_not_repeated(sidecar, hook):
    hook.answers = [500]
    await ask(sidecar, "POST", "/register/subscriber", {"topic": "t", "url": hook.url})
    await sidecar.publish({"topic": "t", "message": 1})
    await hook.until(1)
    await sidecar.publish({"topic": "t", "message": 2})
    await hook.until(2)
    assert hook.messages == [1, 2]


async def test_it_leaves_by_its_id_or_by_what_it_was_registered_with(sidecar, hook):
    wanted = {"topic": "t", "url": hook.url}
    for by_id in (False, True):
        _, made = await ask(sidecar, "POST", "/register/subscriber", wanted)
        gone = {"subscriber_id": made["subscriber_id"]} if by_id else wanted
        for _ in range(2):
            assert (await ask(sidecar, "POST", "/deregister/subscriber", gone))[0] == 204
        assert (await sidecar.get("/register"))[1]["subscribers"] == []


async def test_it_does_not_delete_what_was_not_registered(sidecar, hook):
    named = {"name": "mailer", "topic": "t", "push": {"url": hook.url}}
    await ask(sidecar, "POST", "/subscriptions", named)
    status, problem = await ask(
        sidecar, "POST", "/deregister/subscriber", {"subscriber_id": "mailer"}
    )
    assert (status, problem["reason"]) == (409, "not_registered")
    status, problem = await ask(
        sidecar, "POST", "/register/subscriber", {"topic": "t", "url": hook.url}
    )
    assert (status, problem["reason"]) == (409, "subscriber_exists")


@pytest.mark.parametrize(
    ("document", "status", "field"),
    [
        ({"topic": "t"}, 400, "body"),
        ({"topic": "t", "url": "x"}, 400, "url"),
        ({"topic": "_t", "url": "http://127.0.0.1:1/"}, 400, "topic"),
        ({"topic": "t", "url": "http://127.0.0.1:1/", "method": "BREW"}, 400, "method"),
        ({"topic": "t", "url": "http://127.0.0.1:9000/"}, 403, None),
        ({"topic": "forbidden.t", "url": "http://127.0.0.1:1/"}, 403, None),
    ],
)
async def test_a_bad_registration_is_refused(sidecar, document, status, field):
    found, problem = await ask(sidecar, "POST", "/register/subscriber", document)
    assert (found, problem.get("field")) == (status, field)


async def test_a_deregistration_must_name_somebody(sidecar):
    status, problem = await ask(sidecar, "POST", "/deregister/subscriber", {"topic": "t"})
    assert (status, problem["field"]) == (400, "subscriber_id")
