"""`/v1/revocations`: recorded for good, and heard of at once."""

import asyncio
import time
from typing import Any


async def revoke(core: Any, value: str, **members: Any) -> tuple[int, Any]:
    body = {"kind": "token_id", "value": value, **members}
    status, answer, _ = await core.call("POST", "/v1/revocations", json=body)
    return status, answer


async def revocations(core: Any, query: str = "") -> Any:
    status, answer, _ = await core.call("GET", f"/v1/revocations{query}")
    assert status == 200, answer
    return answer


async def test_a_revocation_is_recorded_and_survives_a_restart(start_core: Any) -> None:
    core = await start_core()
    assert await revocations(core) == {"version": 0, "revocations": []}
    status, answer = await revoke(core, "abc", issuer="https://issuer.example", reason="leaked")
    assert status == 201
    listed = await revocations(core)
    assert listed["version"] == answer["version"] > 0
    entry = listed["revocations"][0]
    assert entry.pop("at_us") > 0
    assert entry == {
        "kind": "token_id",
        "value": "abc",
        "issuer": "https://issuer.example",
        "until_us": None,
        "reason": "leaked",
    }
    await core.stop()
    again = await revocations(await start_core())
    assert again["version"] == listed["version"]


async def test_only_what_is_newer_is_sent(core: Any) -> None:
    first = (await revoke(core, "a"))[1]["version"]
    second = (await revoke(core, "b"))[1]["version"]
    newer = await revocations(core, f"?after={first}")
    assert newer["version"] == second
    assert [each["value"] for each in newer["revocations"]] == ["b"]
    assert (await revocations(core, f"?after={second}"))["revocations"] == []
    assert len((await revocations(core, "?after=999999"))["revocations"]) == 2


async def test_one_who_waits_hears_within_moments(core: Any) -> None:
    version = (await revoke(core, "a"))[1]["version"]
    waiting = asyncio.ensure_future(revocations(core, f"?after={version}&wait_ms=30000"))
    await core.call("POST", "/v1/topics", json={"name": "orders"})
    await asyncio.sleep(0.02)
    assert not waiting.done(), "other changes are none of its business"
    began = time.monotonic()
    await revoke(core, "b")
    heard = await waiting
    assert [each["value"] for each in heard["revocations"]] == ["b"]
    assert time.monotonic() - began < 30, "the wait would have ended by itself"


async def test_a_wait_ends_with_its_time_and_with_the_core(start_core: Any) -> None:
    core = await start_core()
    assert (await revocations(core, "?wait_ms=10"))["revocations"] == []
    waiting = asyncio.ensure_future(revocations(core, "?after=0&wait_ms=30000"))
    await core.has_request()
    assert await core.stop() == 0
    assert (await waiting)["revocations"] == []


async def test_an_end_in_the_past_lifts_a_revocation_and_is_told_as_well(core: Any) -> None:
    version = (await revoke(core, "a"))[1]["version"]
    await revoke(core, "a", until_us=1)
    heard = await revocations(core, f"?after={version}")
    assert [(each["value"], each["until_us"]) for each in heard["revocations"]] == [("a", 1)]


async def test_a_bad_revocation_or_query_is_refused(core: Any) -> None:
    status, problem = await revoke(core, "")
    assert (status, problem["code"]) == (400, "bad_revocation")
    status, problem, _ = await core.call("GET", "/v1/revocations?since=4")
    assert (status, problem["code"]) == (400, "bad_query")
