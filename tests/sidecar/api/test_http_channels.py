"""Channels: created, listed, replaced, deleted, and used by a push, which follows a change."""

import pytest


async def ask(sidecar, method, path, document=None):
    url = f"{sidecar.base}{path}"
    async with sidecar.client.request(method, url, json=document) as response:
        return response.status, await response.json(content_type=None)


@pytest.fixture
async def sidecar(mesh):
    return await mesh.sidecar()


def mail(hook, **changes):
    return {
        "id": "mail",
        "destination_host": "127.0.0.1",
        "destination_port": hook.port,
        "path": "/in",
        **changes,
    }


async def test_create_list_describe_replace_delete(sidecar, hook):
    status, made = await ask(sidecar, "POST", "/channels", mail(hook))
    assert (status, made["path"], made["tls"]) == (201, "/in", False)
    assert (await ask(sidecar, "POST", "/channels", mail(hook)))[0] == 200
    assert (await ask(sidecar, "GET", "/channels"))[1]["channels"] == [made]
    assert (await ask(sidecar, "GET", "/channels/mail"))[1] == made
    replaced = mail(hook, path="/other")
    assert (await ask(sidecar, "PUT", "/channels/mail", replaced))[1]["path"] == "/other"
    assert (await ask(sidecar, "DELETE", "/channels/mail"))[0] == 204
    status, problem = await ask(sidecar, "GET", "/channels/mail")
    assert (status, problem["code"]) == (404, "unknown_channel")


async def test_a_push_uses_it_and_follows_a_change(sidecar, hook):
    await ask(sidecar, "POST", "/channels", mail(hook))
    wanted = {"name": "m", "topic": "t", "push": {"channel": "mail"}}
    assert (await ask(sidecar, "POST", "/subscriptions", wanted))[0] == 201
    await sidecar.publish({"topic": "t", "message": 1})
    await hook.until(1)
    await ask(sidecar, "PUT", "/channels/mail", mail(hook, path="/moved"))
    await sidecar.publish({"topic": "t", "message": 2})
    await hook.until(2)
    assert [request.path for request, _ in hook.seen] == ["/in", "/moved"]


async def test_an_unknown_channel_is_refused_at_creation(sidecar):
    wanted = {"name": "m", "topic": "t", "push": {"channel": "none"}}
    status, problem = await ask(sidecar, "POST", "/subscriptions", wanted)
    assert (status, problem["code"]) == (404, "unknown_channel")


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"id": "a/b"}, 400),
        ({"destination_host": "user@x"}, 400),
        ({"destination_port": 0}, 400),
        ({"path": "x"}, 400),
        ({"destination_port": 9000}, 403),
        ({"destination_host": "192.0.2.1"}, 403),
        ({"colour": "red"}, 400),
    ],
)
async def test_a_bad_channel_is_refused(sidecar, hook, change, status):
    assert (await ask(sidecar, "POST", "/channels", mail(hook, **change)))[0] == status
    assert (await ask(sidecar, "GET", "/channels"))[1]["channels"] == []


async def test_the_path_names_the_channel(sidecar, hook):
    status, problem = await ask(sidecar, "PUT", "/channels/other", mail(hook))
    assert (status, problem["field"]) == (400, "id")
