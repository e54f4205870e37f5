"""Members through a running gatekeeper: decided, passed through, watched, and ended."""

import asyncio
from typing import Any

import aiohttp
import pytest

POLICY = """\
  jobs.*: {subscribe: [billing, reader], share: {who: [reader], owners: [billing]}}
  past: {subscribe: [billing], publish: [billing]}
"""
DENY = POLICY + "deny: [{id: D9, who: [reader], do: [share], on: jobs.mail}]"


@pytest.fixture
async def jobs(new_mesh: Any) -> Any:
    mesh = await new_mesh(policy=POLICY)
    mesh.core.subscriptions["billing", "mailer"] = {
        "name": "mailer",
        "owner": "billing",
        "topic": "jobs.mail",
    }
    return mesh


def member(caller: Any, **opening: Any) -> Any:
    opening = {"subscription": "mailer", "member": "m", **opening}
    return Opened(caller, opening)


class Opened:
    """A member's stream, just after its `open`."""

    def __init__(self, caller: Any, opening: dict[str, Any]) -> None:
        self._connecting = caller.session.ws_connect("/v1/stream", headers=caller.headers)
        self._opening = {"type": "open", "credit_bytes": 1 << 20, **opening}

    async def __aenter__(self) -> aiohttp.ClientWebSocketResponse:
        self._socket = await self._connecting
        await self._socket.send_json(self._opening)
        return self._socket

    async def __aexit__(self, *_error: object) -> None:
        await self._socket.close()


async def end_of(socket: Any) -> dict[str, Any]:
    async with asyncio.timeout(60):
        while (said := (await socket.receive()).json())["type"] != "end":
            pass
    return said


async def test_a_members_messages_and_frames_pass_through(jobs: Any, frame: Any) -> None:
    caller = jobs.caller()
    async with member(caller) as socket:
        assert (await socket.receive_json())["type"] == "opened"
        ack = {"type": "ack", "partition": 0, "generation": 7, "ranges": [[0, 4]]}
        await socket.send_json(ack)
        assert (await socket.receive_json())["said"] == ack
        await socket.send_json({"type": "heartbeat"})
        assert (await socket.receive_json())["said"] == {"type": "heartbeat"}
        await socket.send_json({"type": "ack", "partition": 0, "ranges": [[0, 4]]})
        assert (await end_of(socket))["code"] == "bad_message"
    assert jobs.core.opened == [
        {
            "type": "open",
            "subscription": "mailer",
            "owner": "billing",
            "member": "m",
            "credit_bytes": 1 << 20,
            "create": None,
            "topic": "jobs.mail",
        }
    ]
    assert jobs.core.sent("/v1/stream")[0]["Sidegate-Principal"] == "billing"


async def test_what_is_older_than_the_look_back_comes_all_the_same(jobs: Any, frame: Any) -> None:
    jobs.core.append_age_s = 3600.0
    caller = jobs.caller()
    await caller.append(frame("past"))
    jobs.core.subscriptions["billing", "old"] = {"topic": "past"}
    async with member(caller, subscription="old") as socket:
        assert (await socket.receive_json())["type"] == "opened"
        assert await socket.receive_bytes() == jobs.core.stored["past", 0][0]


async def test_a_member_of_anothers_subscription_needs_a_share(jobs: Any) -> None:
    reader = jobs.caller("reader", "reader")
    async with member(reader, owner="billing") as socket:
        assert (await socket.receive_json())["type"] == "opened"
    jobs.core.subscriptions["reader", "mine"] = {"topic": "jobs.mail"}
    async with member(jobs.caller(), subscription="mine", owner="reader") as socket:
        end = await end_of(socket)
    assert (end["code"], end["action"], "decision_id" in end) == ("denied", "share", True)
    async with member(jobs.caller(), subscription="none", owner="reader") as socket:
        missing = await end_of(socket)
    assert {**missing, "decision_id": None} == {**end, "decision_id": None}
    noted = [r for r in jobs.core.records() if r["action"] == "share" and r["allowed"]]
    assert [(record["principal"], record["owner"]) for record in noted] == [("reader", "billing")]


async def test_a_share_that_is_taken_back_ends_the_stream(jobs: Any) -> None:
    reader = jobs.caller("reader", "reader")
    async with member(reader, owner="billing") as socket:
        assert (await socket.receive_json())["type"] == "opened"
        jobs.write_policy(DENY)
        end = await end_of(socket)
    assert (end["code"], end["reason"]) == ("denied", "denied_by_rule")


async def test_a_revoked_client_is_ended_in_mid_stream(jobs: Any) -> None:
    async with member(jobs.caller()) as socket:
        assert (await socket.receive_json())["type"] == "opened"
        await jobs.core.revoke(
            kind="client", value="billing", issuer=None, until_us=None, reason=None, at_us=1
        )
        assert (await end_of(socket))["code"] == "client_revoked"


async def test_a_subscription_that_is_missing_is_named_and_one_may_be_created(jobs: Any) -> None:
    async with member(jobs.caller(), subscription="none") as socket:
        end = await end_of(socket)
    assert (end["code"], end["subscription"]) == ("unknown_subscription", "none")
    create = {"topic": "jobs.mail", "from": "latest"}
    async with member(jobs.caller(), subscription="none", create=create) as socket:
        assert (await socket.receive_json())["type"] == "opened"
    assert jobs.core.opened[-1]["create"] == create
    async with member(jobs.caller(), subscription="no", create={"topic": "secret"}) as socket:
        assert (await end_of(socket))["code"] == "denied"


async def test_a_creation_in_the_past_is_held_against_the_look_back(jobs: Any) -> None:
    create = {"topic": "jobs.mail", "from": {"time_us": 5}}
    async with member(jobs.caller(), subscription="new", create=create) as socket:
        end = await end_of(socket)
    assert (end["code"], end["reason"]) == ("denied", "older_than_allowed")
    async with member(jobs.caller(), create=create) as socket:
        assert (await socket.receive_json())["type"] == "opened", "it exists: nothing is moved"


async def test_a_core_that_fails_is_not_taken_for_a_missing_subscription(jobs: Any) -> None:
    caller = jobs.caller()
    async with member(caller) as socket:
        assert (await socket.receive_json())["type"] == "opened"
    jobs.core.fail = 500
    async with member(caller, create={"topic": "jobs.mail"}) as socket:
        assert (await end_of(socket))["code"] == "unavailable"
