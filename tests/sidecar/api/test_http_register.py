"""Registration: idempotent, asked of the gatekeeper, kept, and enforced where it is required."""

import pytest


async def post(sidecar, path, document, headers=None):
    url = f"{sidecar.base}{path}"
    async with sidecar.client.post(url, json=document, headers=headers) as response:
        return response.status, await response.json(content_type=None)


WHO = {"topic": "t", "name": "shop"}


async def test_registering_twice_is_registering_once(mesh):
    sidecar = await mesh.sidecar()
    first = await post(sidecar, "/register/publisher", WHO)
    again = await post(sidecar, "/register/publisher", WHO)
    assert (first[0], again[0]) == (201, 200)
    assert first[1] == again[1]
    listed = (await sidecar.get("/register"))[1]
    assert listed == {"publishers": [first[1]], "subscribers": []}


async def test_the_gatekeepers_reason_is_passed_on(mesh):
    sidecar = await mesh.sidecar()
    status, problem = await post(
        sidecar, "/register/publisher", {"topic": "forbidden.x", "name": "shop"}
    )
    assert (status, problem["code"], problem["reason"]) == (403, "denied", "closed")
    assert (await sidecar.get("/register"))[1] == {"publishers": [], "subscribers": []}


@pytest.mark.parametrize(
    "document",
    [{}, {"topic": "t"}, {**WHO, "x": 1}, {"topic": "_a", "name": "n"}, {**WHO, "name": ""}],
)
async def test_a_bad_registration_is_400(mesh, document):
    sidecar = await mesh.sidecar()
    assert (await post(sidecar, "/register/publisher", document))[0] == 400


async def test_with_require_registration_a_publish_must_show_one_for_its_topic(mesh):
    sidecar = await mesh.sidecar(require_registration=True)
    message = {"topic": "t", "message": 1}
    status, problem = await post(sidecar, "/publish", message)
    assert (status, problem["code"]) == (403, "not_registered")
    assert "/register/publisher" in problem["detail"]
    _, who = await post(sidecar, "/register/publisher", WHO)
    shown = {"Sidegate-Publisher": who["publisher_id"]}
    assert (await post(sidecar, "/publish", message, shown))[0] == 200
    assert (await post(sidecar, "/publish/t", 2, shown))[0] == 200
    assert (await post(sidecar, "/publish", {"topic": "u", "message": 1}, shown))[0] == 403
    for path in ("/publish/t", "/publish/t/batch", "/publish/t/lines"):
        assert (await post(sidecar, path, [{"message": 1}]))[0] == 403
    await post(sidecar, "/deregister/publisher", {"publisher_id": who["publisher_id"]})
    assert (await post(sidecar, "/publish", message, shown))[0] == 403


async def test_registrations_outlive_the_sidecar_and_leave_by_deregistering(mesh):
    sidecar = await mesh.sidecar()
    _, who = await post(sidecar, "/register/publisher", WHO)
    mesh.sidecars.remove(sidecar)
    await sidecar.stop()
    again = await mesh.sidecar()
    assert (await again.get("/register"))[1]["publishers"] == [who]
    gone = {"publisher_id": who["publisher_id"]}
    for _ in range(2):
        async with again.client.post(f"{again.base}/deregister/publisher", json=gone) as response:
            assert response.status == 204
    assert (await again.get("/register"))[1]["publishers"] == []


async def test_an_app_token_is_asked_of_everything_but_health(mesh):
    secret = mesh.folder / "secret"
    secret.write_text("0123456789abcdef\n")
    sidecar = await mesh.sidecar(app_token=secret)
    assert (await post(sidecar, "/publish", {"topic": "t", "message": 1}))[0] == 401
    assert (await sidecar.get("/status"))[0] == 401
    assert (await sidecar.get("/healthz"))[0] == 200
    shown = {"Authorization": "Bearer 0123456789abcdef"}
    assert (await post(sidecar, "/publish", {"topic": "t", "message": 1}, shown))[0] == 200
    wrong = {"Authorization": "Bearer 0123456789abcdeX"}
    assert (await post(sidecar, "/publish", {"topic": "t", "message": 1}, wrong))[0] == 401
