"""The desk: names that are the same everywhere, and changes that are whole or not at all."""

from sidecar.push.subscription_desk import subscriber_name


async def ask(sidecar, method, path, document=None):
    url = f"{sidecar.base}{path}"
    async with sidecar.client.request(method, url, json=document) as response:
        return response.status, await response.json(content_type=None)


def test_a_webhooks_name_is_made_from_what_it_registers():
    name = subscriber_name("t", "http://127.0.0.1:1/", "PUT")
    assert name == subscriber_name("t", "http://127.0.0.1:1/", "PUT")
    others = {
        subscriber_name("u", "http://127.0.0.1:1/", "PUT"),
        subscriber_name("t", "http://127.0.0.1:2/", "PUT"),
        subscriber_name("t", "http://127.0.0.1:1/", "POST"),
    }
    assert len(others | {name}) == 4
    assert len(name) <= 128


async def test_a_change_with_any_fault_changes_nothing(mesh, hook):
    sidecar = await mesh.sidecar()
    wanted = {"name": "m", "topic": "t", "push": {"url": hook.url}, "filter": "true"}
    await ask(sidecar, "POST", "/subscriptions", wanted)
    before = (await ask(sidecar, "GET", "/subscriptions"))[1]
    for change in (
        {"filter": "1 +"},
        {"filter": None, "push": {"url": "http://192.0.2.1/"}},
        {"filter": None, "push": {}},
        {"lease_ms": 1},
        {"retry": {"first_ms": 9, "max_ms": 1}},
        {"dead_letter": "t"},
    ):
        assert (await ask(sidecar, "PATCH", "/subscriptions/m", change))[0] in (400, 403), change
    assert (await ask(sidecar, "GET", "/subscriptions"))[1] == before


async def test_push_and_mode_can_be_taken_away_and_given_back(mesh, hook):
    sidecar = await mesh.sidecar()
    wanted = {"name": "m", "topic": "t", "push": {"url": hook.url}}
    await ask(sidecar, "POST", "/subscriptions", wanted)
    _, altered = await ask(sidecar, "PATCH", "/subscriptions/m", {"mode": "fire_and_forget"})
    assert (altered["mode"], altered["dead_letter"]) == ("fire_and_forget", None)
    _, altered = await ask(sidecar, "PATCH", "/subscriptions/m", {"push": None, "mode": "fcfs"})
    assert (altered["push"], altered["mode"]) == (None, "fcfs")
    await sidecar.until(lambda: "m" not in sidecar.assembly.pushes.running)
    change = {"push": {"url": hook.url}, "dead_letter": "letters"}
    _, altered = await ask(sidecar, "PATCH", "/subscriptions/m", change)
    assert (altered["push"], altered["dead_letter"]) == ({"url": hook.url}, {"topic": "letters"})
    await sidecar.until(lambda: "m" in sidecar.assembly.pushes.running)
