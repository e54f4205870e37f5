"""`/v1/channels` over HTTP."""

from typing import Any

OWNED = {"headers": {"Sidegate-Principal": "billing"}}
MAIL = {"id": "mail", "destination_host": "localhost", "destination_port": 8025}


async def test_channels_are_created_read_replaced_and_deleted(core: Any) -> None:
    status, made, headers = await core.call("POST", "/v1/channels", json=MAIL, **OWNED)
    assert status == 201
    version = made.pop("version")
    assert made == {**MAIL, "name": "mail", "path": "/", "tls": False}
    assert headers["ETag"] == f'"{version}"'
    assert (await core.call("POST", "/v1/channels", json=MAIL, **OWNED))[0] == 200
    other = {**MAIL, "destination_port": 25}
    status, problem, _ = await core.call("POST", "/v1/channels", json=other, **OWNED)
    assert (status, problem["code"], problem["differs"]) == (
        409,
        "channel_exists",
        ["destination_port"],
    )
    status, shown, _ = await core.call("PUT", "/v1/channels/mail", json=other, **OWNED)
    assert (status, shown["destination_port"]) == (200, 25)
    stale = {"headers": {**OWNED["headers"], "If-Match": f'"{version}"'}}
    for method, body in (("PUT", MAIL), ("DELETE", None)):
        status, problem, _ = await core.call(method, "/v1/channels/mail", json=body, **stale)
        assert (status, problem["code"]) == (412, "channel_changed")
    listed = (await core.call("GET", "/v1/channels", **OWNED))[1]
    assert [each["id"] for each in listed["channels"]] == ["mail"]
    assert (await core.call("DELETE", "/v1/channels/mail", **OWNED))[0] == 204
    status, problem, _ = await core.call("GET", "/v1/channels/mail", **OWNED)
    assert (status, problem["code"]) == (404, "unknown_channel")
    assert (await core.call("DELETE", "/v1/channels/mail", **OWNED))[0] == 404


async def test_nobody_sees_anothers_channels(core: Any) -> None:
    await core.call("PUT", "/v1/channels/mail", json=MAIL, **OWNED)
    other = {"headers": {"Sidegate-Principal": "ops"}}
    assert (await core.call("GET", "/v1/channels", **other))[1]["channels"] == []
    assert (await core.call("GET", "/v1/channels/mail", **other))[0] == 404
    assert (await core.call("PUT", "/v1/channels/mail", json=MAIL, **other))[0] == 201
    status, problem, _ = await core.call("GET", "/v1/channels")
    assert (status, problem["code"]) == (400, "bad_query")


async def test_channels_survive_a_restart(start_core: Any) -> None:
    core = await start_core()
    made = (await core.call("POST", "/v1/channels", json=MAIL, **OWNED))[1]
    await core.stop()
    again = await start_core()
    assert (await again.call("GET", "/v1/channels/mail", **OWNED))[1] == made
    status = (await again.call("GET", "/v1/status"))[1]
    assert (status["channels"], status["subscriptions"], status["members"]) == (1, 0, 0)


async def test_what_is_no_channel_is_refused(core: Any) -> None:
    for method, path, body in (
        ("POST", "/v1/channels", {"id": "mail"}),
        ("PUT", "/v1/channels/-x", MAIL),
        ("PUT", "/v1/channels/other", MAIL),
    ):
        status, problem, _ = await core.call(method, path, json=body, **OWNED)
        assert (status, problem["code"]) == (400, "bad_channel"), path
