"""Reads: whole, in order, and no further back than the policy says."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest

from gatekeeper.api.history import is_older
from log_format.envelope import add_stamp
from log_format.frame import decode_frame
from log_format.parts import Stamp

Make = Callable[..., bytes]


async def test_frames_pass_with_the_offsets_and_without_the_cores_other_headers(
    mesh: Any, frame: Make
) -> None:
    await mesh.caller().append(frame("orders.eu"), frame("orders.eu", sequence=1))
    reader = mesh.caller("reader", "reader")
    status, body, answer = await reader.ask("GET", "/v1/read?topic=orders.eu&offset=0")
    assert status == 200
    assert body == b"".join(mesh.core.stored["orders.eu", 0])
    assert answer.headers["Content-Type"] == "application/vnd.sidegate.frames"
    assert answer.headers["Sidegate-Next-Offset"] == "2"
    assert "core" not in answer.headers.get("Server", "")


async def test_the_query_is_written_anew_and_bounded(mesh: Any) -> None:
    reader = mesh.caller("reader", "reader")
    path = "/v1/read?topic=orders.eu&offset=5&max_bytes=99999999999&wait_ms=0"
    await reader.ask("GET", path)
    asked = [raw for _, raw, _ in mesh.core.requests if raw.startswith("/v1/read")]
    assert asked == ["/v1/read?topic=orders.eu&partition=0&offset=5&max_bytes=8388608&wait_ms=0"]


async def test_a_large_answer_is_streamed(mesh: Any, frame: Make) -> None:
    writer = mesh.caller()
    for number in range(3):
        big = frame("archive", values=(bytes([number]) * 400_000,), sequence=number)
        await writer.append(big)
    reader = mesh.caller("reader", "reader")
    _, body, answer = await reader.ask("GET", "/v1/read?topic=archive&offset=0")
    assert body == b"".join(mesh.core.stored["archive", 0])
    assert int(answer.headers["Content-Length"]) == len(body)


@pytest.mark.parametrize(
    ("topic", "age_s", "status"),
    [
        ("history", 3500, 200),
        ("history", 3700, 403),
        ("archive", 10**6, 200),
        ("orders.eu", 500, 200),
        ("orders.eu", 700, 403),
    ],
)
async def test_what_is_older_than_allowed_is_denied(
    mesh: Any, frame: Make, topic: str, age_s: float, status: int
) -> None:
    mesh.core.append_age_s = age_s
    await mesh.caller().append(frame(topic))
    reader = mesh.caller("reader", "reader")
    got, body, _ = await reader.ask("GET", f"/v1/read?topic={topic}&offset=0")
    assert got == status
    if status == 403:
        assert body["reason"] == "older_than_allowed"
        assert body["decision_id"]
        assert "reaches back" in body["detail"]


async def test_an_empty_answer_has_no_age(mesh: Any) -> None:
    status, body, _ = await mesh.caller("reader", "reader").ask(
        "GET", "/v1/read?topic=history&offset=0"
    )
    assert (status, body) == (200, b"")


async def test_system_topics_need_the_audit_action(mesh: Any, wait_until: Any) -> None:
    status, problem, _ = await mesh.caller().ask("GET", "/v1/read?topic=_audit&offset=0")
    assert (status, problem["reason"]) == (403, "no_rule")
    await wait_until(mesh.core.records)
    auditor = mesh.caller("auditor", "auditor")
    status, body, _ = await auditor.ask("GET", "/v1/read?topic=_audit&offset=0")
    assert status == 200
    assert body


@pytest.mark.parametrize(
    "query",
    ["", "topic=orders.eu", "offset=0", "topic=orders.eu&offset=-1", "topic=..&offset=0"],
)
async def test_a_query_that_makes_no_sense_is_refused(mesh: Any, query: str) -> None:
    status, problem, _ = await mesh.caller().ask("GET", f"/v1/read?{query}")
    assert (status, problem["code"]) == (400, "bad_request")


async def test_bytes_that_are_no_frames_are_not_passed_on_where_age_counts(mesh: Any) -> None:
    async def garbage(request: Any) -> Any:
        from aiohttp import web

        return web.Response(body=b"x" * 5000)

    mesh.core.intercept["/v1/read"] = garbage
    reader = mesh.caller("reader", "reader")
    status, problem, _ = await reader.ask("GET", "/v1/read?topic=history&offset=0")
    assert (status, problem["code"]) == (503, "unavailable")


async def test_a_core_that_is_down_is_503_with_retry_after(mesh: Any) -> None:
    reader = mesh.caller("reader", "reader")
    assert (await reader.ask("GET", "/v1/read?topic=orders.eu&offset=0"))[0] == 200
    mesh.core.intercept["/v1/read"] = lambda request: request.transport.abort()
    status, problem, answer = await reader.ask("GET", "/v1/read?topic=orders.eu&offset=0")
    assert (status, problem["code"]) == (503, "unavailable")
    assert answer.headers["Retry-After"] == "1"


def test_age_is_counted_from_the_append(frame: Make) -> None:
    raw = decode_frame(frame("orders")).envelope.raw
    now_us = round(time.time() * 1_000_000)
    stamped = add_stamp(raw, Stamp(0, 0, now_us - 10_000_000, 0))
    assert not is_older(stamped, 10.0, now_us)
    assert is_older(stamped, 9.9, now_us)
    assert is_older(raw, 10.0, now_us), "without a stamp there is no age that could be trusted"


async def test_repeated_reads_quote_one_decision_and_make_one_record(
    mesh: Any, wait_until: Any
) -> None:
    reader = mesh.caller("reader", "reader")
    for _ in range(5):
        await reader.ask("GET", "/v1/read?topic=orders.eu&offset=0")
    quoted = {head["Sidegate-Decision"] for head in mesh.core.sent("/v1/read")}
    assert len(quoted) == 1
    records = mesh.core.records()
    assert [record["decision_id"] for record in records] == list(quoted)


async def test_readers_that_wait_do_not_keep_others_or_revocations_waiting(
    mesh: Any, wait_until: Any
) -> None:
    released = asyncio.Event()

    async def wait(request: Any) -> Any:
        from aiohttp import web

        await released.wait()
        return web.Response()

    mesh.core.intercept["/v1/read"] = wait
    reader = mesh.caller("reader", "reader")
    path = "/v1/read?topic=orders.eu&offset=0&wait_ms=30000"
    waiting = [asyncio.create_task(reader.ask("GET", path)) for _ in range(100)]
    await wait_until(lambda: len(mesh.core.sent("/v1/read")) == 100)
    assert (await mesh.caller().ask("GET", "/v1/status"))[0] == 200
    await mesh.core.revoke(kind="client", value="somebody")
    await wait_until(lambda: mesh.gatekeeper.feed.version == 1)
    released.set()
    assert {status for status, _, _ in await asyncio.gather(*waiting)} == {200}


async def test_a_reader_that_does_not_take_its_answer_is_cut_off(
    new_mesh: Any, frame: Make, wait_until: Any
) -> None:
    size = 40_000_000
    mesh = await new_mesh(limits={"body_timeout": 0.3, "read_bytes_max": size})
    writer = mesh.caller()
    for number in range(40):
        await writer.append(frame("archive", values=(bytes(size // 40),), sequence=number))
    reader = mesh.caller("reader", "reader")
    async with reader.session.get(
        "/v1/read?topic=archive&offset=0&max_bytes=40000000", headers=reader.headers
    ) as answer:
        answer.connection.transport.pause_reading()
        await wait_until(lambda: mesh.gatekeeper.dispatch.in_flight == 0)
        answer.connection.transport.resume_reading()
        with pytest.raises(aiohttp.ClientError):
            await answer.read()
