"""Channels through a running gatekeeper: everybody's own, and nobody else's."""

from typing import Any

import pytest


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/v1/channels", None),
        ("POST", "/v1/channels", {"id": "mail"}),
        ("GET", "/v1/channels/mail", None),
        ("PUT", "/v1/channels/mail", {"destination_port": 1}),
        ("DELETE", "/v1/channels/mail", None),
    ],
)
async def test_a_request_is_made_for_the_caller_itself(
    mesh: Any, method: str, path: str, body: Any
) -> None:
    headers = {"Sidegate-Principal": "somebody", "If-Match": '"3"'}
    status, asked, _ = await mesh.caller().ask(method, path, json=body, headers=headers)
    assert status == 200
    assert asked == {
        "method": method,
        "path": path,
        "principal": "billing",
        "topic": None,
        "if_match": '"3"',
        "body": body,
    }


async def test_nobody_can_name_anothers(mesh: Any) -> None:
    for path in ("/v1/channels?owner=reader", "/v1/channels/mail?owner=reader"):
        status, problem, _ = await mesh.caller().ask("GET", path)
        assert (status, problem["code"]) == (400, "bad_request")


async def test_what_is_no_channel_is_refused(mesh: Any) -> None:
    assert (await mesh.caller().ask("GET", "/v1/channels/-x"))[0] == 400
    assert (await mesh.caller().ask("POST", "/v1/channels", data=b"[]"))[0] == 400
