"""Appends through a running gatekeeper, byte by byte to a core that checks what arrives."""

import asyncio
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from log_format.envelope import add_provenance
from log_format.frame import decode_frame
from log_format.parts import Provenance

Make = Callable[..., bytes]


async def test_an_allowed_batch_reaches_the_core_with_signed_provenance(
    mesh: Any, frame: Make
) -> None:
    caller = mesh.caller()
    status, answer = await caller.append(frame("orders.eu"))
    assert status == 200
    assert answer["results"][0]["base_offset"] == 0
    (kept,) = mesh.core.frames("orders.eu")
    provenance = kept.envelope.provenance
    assert provenance.principal == "billing"
    assert provenance.client_id == "billing"
    assert provenance.issuer == mesh.issuer.url
    assert provenance.token_id == "token-1"
    assert provenance.thumbprint == caller.leaf.thumbprint
    assert provenance.policy_hash == mesh.gatekeeper.policies.policy.hash
    assert provenance.rule == 'topics."orders.*".publish'
    assert provenance.gatekeeper_id == "spiffe://example/gatekeeper"


async def test_the_body_arrives_untouched(mesh: Any, frame: Make) -> None:
    sent = frame("orders.eu", values=(b"\x00\xff" * 40_000, b""))
    await mesh.caller().append(sent)
    (kept,) = mesh.core.frames("orders.eu")
    assert bytes(kept.body) == bytes(decode_frame(sent).body)


async def test_allowed_and_denied_batches_of_one_request_each_get_their_result(
    mesh: Any, frame: Make
) -> None:
    status, answer = await mesh.caller().append(
        frame("secret"), frame("orders.eu"), frame("_audit"), frame("orders.us")
    )
    assert status == 200
    results = answer["results"]
    assert [item.get("error") for item in results] == ["denied", None, "denied", None]
    assert [item["topic"] for item in results] == ["secret", "orders.eu", "_audit", "orders.us"]
    assert results[0]["reason"] == "no_rule"
    assert results[2]["reason"] == "system_topic"
    assert "secret" not in {topic for topic, _ in mesh.core.stored}
    callers = [head["Sidegate-Principal"] for head in mesh.core.sent("/v1/append")]
    assert callers.count("billing") == 1


async def test_nothing_is_sent_to_the_core_when_everything_is_denied(
    mesh: Any, frame: Make
) -> None:
    status, answer = await mesh.caller("reader", "reader").append(frame("orders.eu"))
    assert status == 200
    assert answer["results"][0]["error"] == "denied"
    assert [head for head in mesh.core.stored if head[0] != "_audit"] == []


async def test_a_batch_with_forged_provenance_is_refused_and_not_forwarded(
    mesh: Any, frame: Make
) -> None:
    sound = decode_frame(frame("orders.eu"))
    forged = Provenance("root", "", "", bytes(32), "", bytes(16), bytes(32), "", "", 1)
    envelope = add_provenance(sound.envelope.raw, forged)
    whole = envelope + bytes(sound.body) + bytes(-len(sound.body) % 8)
    status, answer = await mesh.caller().append(whole)
    assert status == 200
    assert answer["results"][0]["error"] == "bad_frame"
    assert mesh.core.frames("orders.eu") == []


async def test_what_is_no_run_of_frames_is_400_and_nothing_is_appended(
    mesh: Any, frame: Make
) -> None:
    status, problem = await mesh.caller().append(frame("orders.eu"), b"x" * 100)
    assert status == 400
    assert (problem["code"], problem["frame"]) == ("bad_frame", 1)
    assert mesh.core.frames("orders.eu") == []


async def test_another_content_type_is_refused(mesh: Any, frame: Make) -> None:
    status, problem = await mesh.caller().append(
        frame("orders.eu"), **{"Content-Type": "application/json"}
    )
    assert (status, problem["code"]) == (400, "bad_request")


async def test_over_quota_batches_wait_while_others_pass(new_mesh: Any, frame: Make) -> None:
    mesh = await new_mesh(policy="quotas: {billing: {messages_per_s: 2}}")
    caller = mesh.caller()
    three = [frame("orders.eu", sequence=number) for number in range(3)]
    status, answer = await caller.append(*three)
    assert status == 200
    errors = [item.get("error") for item in answer["results"]]
    assert errors == [None, None, "over_quota"]
    assert 0 < answer["results"][2]["retry_after_ms"] <= 1000
    assert answer["results"][2]["retryable"] is True


async def test_many_batches_of_one_request_are_forwarded_in_order(mesh: Any, frame: Make) -> None:
    frames = [frame("orders.eu", sequence=number) for number in range(200)]
    status, answer = await mesh.caller().append(*frames)
    assert status == 200
    assert [item["base_offset"] for item in answer["results"]] == list(range(200))


async def test_a_core_that_is_down_makes_batches_unavailable_and_denials_stay_denials(
    mesh: Any, frame: Make
) -> None:
    caller = mesh.caller()
    mesh.core.fail = 503
    status, answer = await caller.append(frame("secret"), frame("orders.eu"))
    assert status == 200
    assert [item["error"] for item in answer["results"]] == ["denied", "unavailable"]
    assert answer["results"][1]["retryable"] is True
    mesh.core.fail = None
    status, answer = await caller.append(frame("orders.eu"))
    assert "error" not in answer["results"][0]


@pytest.mark.parametrize("answer", [[], [{}, {}, {}], None])
async def test_an_answer_of_the_core_that_makes_no_sense_is_unavailable(
    mesh: Any, frame: Make, answer: Any
) -> None:
    mesh.core.answer_append = lambda results: answer
    status, told = await mesh.caller().append(frame("secret"), frame("orders.eu"))
    assert status == 200
    assert [item["error"] for item in told["results"]] == ["denied", "unavailable"]
    mesh.core.answer_append = None


async def test_the_cores_refusal_names_the_frame_as_the_caller_counts(
    mesh: Any, frame: Make
) -> None:
    async def refuse(request: Any) -> Any:
        from aiohttp import web

        problem = {"code": "bad_frame", "detail": "hash", "frame": 1}
        return web.Response(status=400, body=orjson.dumps(problem))

    mesh.core.intercept["/v1/append"] = refuse
    status, problem = await mesh.caller().append(
        frame("orders.eu"), frame("secret"), frame("orders.us")
    )
    assert (status, problem["code"], problem["frame"]) == (400, "bad_frame", 2)
    mesh.core.intercept.clear()


async def test_callers_that_leave_do_not_leak_room(mesh: Any, frame: Make, wait_until: Any) -> None:
    mesh.core.hold = asyncio.Event()
    caller = mesh.caller()
    task = asyncio.create_task(caller.append(frame("orders.eu")))
    await wait_until(lambda: mesh.gatekeeper.intake.in_flight > 0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await wait_until(lambda: mesh.gatekeeper.intake.in_flight == 0)
    mesh.core.hold.set()


async def test_appends_of_many_callers_at_once_all_arrive(mesh: Any, frame: Make) -> None:
    caller = mesh.caller()
    answers = await asyncio.gather(
        *(caller.append(frame("orders.eu", producer_id=number)) for number in range(50))
    )
    assert {status for status, _ in answers} == {200}
    offsets = sorted(answer["results"][0]["base_offset"] for _, answer in answers)
    assert offsets == list(range(50))
