"""The decision log: every denial and every reader is in `_audit`, once, whatever happens."""

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from gatekeeper.audit.decision_log import outcome_of

Make = Callable[..., bytes]


async def test_every_denial_is_written_with_all_that_makes_it_checkable(
    mesh: Any, frame: Make, wait_until: Any
) -> None:
    caller = mesh.caller()
    _, answer = await caller.append(frame("secret"))
    await wait_until(mesh.core.records)
    (record,) = mesh.core.records()
    result = answer["results"][0]
    assert record["decision_id"] == result["decision_id"]
    assert record["allowed"] is False
    assert (record["action"], record["topic"]) == ("publish", "secret")
    assert (record["principal"], record["reason"]) == ("billing", "no_rule")
    assert record["thumbprint"] == caller.leaf.thumbprint.hex()
    assert (record["token_id"], record["client_id"]) == ("token-1", "billing")
    assert record["policy_hash"] == mesh.gatekeeper.policies.policy.hash.hex()
    assert record["gatekeeper"] == "spiffe://example/gatekeeper"
    assert abs(record["at_us"] / 1e6 - time.time()) < 60
    assert caller.token not in json.dumps(record)


async def test_an_allowed_publish_is_not_written_because_its_provenance_is(
    mesh: Any, frame: Make
) -> None:
    await mesh.caller().append(frame("orders.eu"))
    assert mesh.gatekeeper.decision_log.waiting == 0
    assert mesh.core.records() == []


async def test_an_allowed_read_is_answered_only_after_its_record_is_committed(mesh: Any) -> None:
    held = asyncio.Event()
    mesh.core.hold = held
    reader = mesh.caller("reader", "reader")
    task = asyncio.create_task(reader.ask("GET", "/v1/read?topic=orders.eu&offset=0"))
    done, _ = await asyncio.wait({task}, timeout=0.2)
    assert not done
    assert not mesh.core.sent("/v1/read")
    held.set()
    status, _, _ = await task
    assert status == 200
    assert [record["action"] for record in mesh.core.records()] == ["subscribe"]


async def test_closed_refuses_readers_while_the_log_can_not_be_written_and_recovers(
    new_mesh: Any, frame: Make, wait_until: Any
) -> None:
    mesh = await new_mesh(audit={"wait_max": 0.2})
    reader = mesh.caller("reader", "reader")
    mesh.core.answer_append = lambda results: [
        {"error": "disk_full", "retryable": True} for _ in results
    ]
    status, problem, answer = await reader.ask("GET", "/v1/read?topic=orders.eu&offset=0")
    assert (status, problem["code"]) == (503, "audit_unavailable")
    assert answer.headers["Retry-After"]
    assert not mesh.service.readiness().ready
    status, problem, _ = await reader.ask("GET", "/v1/read?topic=orders.us&offset=0")
    assert (status, problem["code"]) == (503, "audit_unavailable")
    mesh.core.answer_append = None
    await wait_until(lambda: mesh.gatekeeper.decision_log.failing is None)
    # `wait_max` is short for the sake of this test, and may be over before a busy core answers.
    async with asyncio.timeout(60):
        while (await reader.ask("GET", "/v1/read?topic=orders.us&offset=0"))[0] != 200:
            pass
    assert mesh.service.readiness().ready


async def test_count_lets_readers_through_and_counts_what_is_lost(new_mesh: Any) -> None:
    mesh = await new_mesh(audit_failure="count", audit={"queue_max": 2})
    mesh.core.answer_append = lambda results: [{"error": "disk_full"} for _ in results]
    reader = mesh.caller("reader", "reader")
    for topic in ("orders.a", "orders.b", "orders.c", "orders.d"):
        assert (await reader.ask("GET", f"/v1/read?topic={topic}&offset=0"))[0] == 200
    assert mesh.gatekeeper.decision_log.lost == 2
    assert mesh.service.readiness().ready
    detail = mesh.service.readiness().detail["checks"]["decision_log"]
    assert detail["lost"] == 2
    mesh.core.answer_append = None


async def test_a_flood_of_denials_is_summarised_with_its_count(
    new_mesh: Any, frame: Make, wait_until: Any
) -> None:
    mesh = await new_mesh(
        audit={"denials_per_s": 0.001, "denials_burst": 3, "summary_interval": 0.1}
    )
    flooder, other = mesh.caller(), mesh.caller("reader", "reader")
    for number in range(20):
        await flooder.append(frame(f"secret.{number}"))
    await other.append(frame("secret"))
    summaries: list[Any] = []

    def all_there() -> bool:
        records = mesh.core.records()
        summaries[:] = [r for r in records if r["kind"] == "denials"]
        singles = sum(r["kind"] == "decision" for r in records)
        return singles == 4 and sum(r["count"] for r in summaries) == 17

    await wait_until(all_there)
    records = mesh.core.records()
    single = [r["principal"] for r in records if r["kind"] == "decision"]
    assert sorted(single) == ["billing", "billing", "billing", "reader"]
    assert {r["principal"] for r in summaries} == {"billing"}
    assert summaries[0]["reason"] == "no_rule"
    assert summaries[0]["topics"]


async def test_records_lie_in_batches_of_one_producer_without_a_gap(
    new_mesh: Any, frame: Make, wait_until: Any
) -> None:
    mesh = await new_mesh(audit={"denials_burst": 100})
    caller = mesh.caller()
    for number in range(12):
        await caller.append(frame(f"secret.{number}"))
    await wait_until(lambda: len(mesh.core.records()) == 12)
    producers = [item.envelope.producer for item in mesh.core.frames("_audit")]
    assert len({(one.producer_id, one.epoch) for one in producers}) == 1
    sequence = 0
    for one in producers:
        assert one.first_sequence == sequence
        sequence += one.count


async def test_a_batch_whose_answer_was_lost_is_sent_again_as_it_was(
    mesh: Any, frame: Make, wait_until: Any
) -> None:
    bodies: list[bytes] = []

    async def drop(request: Any) -> Any:
        bodies.append(await request.read())
        if len(bodies) < 3:
            request.transport.abort()
        else:
            mesh.core.intercept.clear()
        return await mesh.core._append(request)

    mesh.core.intercept["/v1/append"] = drop
    caller = mesh.caller()
    await caller.append(frame("secret"))
    await wait_until(lambda: len(bodies) == 3)
    assert bodies[0] == bodies[1] == bodies[2]


@pytest.mark.parametrize("error", ["sequence_gap", "fenced"])
async def test_a_producer_that_the_core_does_not_take_begins_a_new_epoch(
    mesh: Any, frame: Make, wait_until: Any, error: str
) -> None:
    refused: list[int] = []

    def once(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if refused:
            return results
        refused.append(1)
        mesh.core.stored["_audit", 0].clear()
        return [{"error": error} for _ in results]

    mesh.core.answer_append = once
    await mesh.caller().append(frame("secret"))
    await wait_until(lambda: mesh.core.frames("_audit"))
    producer = mesh.core.frames("_audit")[0].envelope.producer
    assert (producer.epoch, producer.first_sequence) == (1, 0)


async def test_a_batch_that_the_core_refuses_for_good_is_counted_as_lost(
    mesh: Any, frame: Make, wait_until: Any
) -> None:
    mesh.core.answer_append = lambda results: [{"error": "denied"} for _ in results]
    await mesh.caller().append(frame("secret"))
    await wait_until(lambda: mesh.gatekeeper.decision_log.lost == 1)
    assert mesh.gatekeeper.decision_log.failing == "denied"
    mesh.core.answer_append = None
    assert (await mesh.caller("reader", "reader").ask("GET", "/v1/read?topic=orders.eu&offset=0"))[
        0
    ] == 200


async def test_what_waits_is_written_before_a_stop(mesh: Any, frame: Make, wait_until: Any) -> None:
    held = asyncio.Event()
    mesh.core.hold = held
    await mesh.caller().append(frame("secret"))
    mesh.service.ask_to_stop()
    await asyncio.sleep(0)
    held.set()
    await wait_until(lambda: len(mesh.core.records()) == 1)


@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        ({}, "written"),
        ({"error": "unknown_topic"}, "again"),
        ({"error": "overloaded"}, "again"),
        ({"error": "disk_full"}, "again"),
        ({"error": "storage_failed"}, "again"),
        ({"error": "sequence_gap"}, "new_epoch"),
        ({"error": "fenced"}, "new_epoch"),
        ({"error": "bad_frame"}, "refused"),
        ({"error": "something new"}, "refused"),
    ],
)
def test_what_the_cores_result_means(result: dict[str, Any], outcome: str) -> None:
    assert outcome_of(result) == outcome
