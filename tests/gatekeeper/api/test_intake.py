"""Bodies: within their size, in time, and within what all of them may take together."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from gatekeeper.api.intake import Intake
from gatekeeper.errors import Overloaded

Make = Callable[..., bytes]
FRAMES = {"Content-Type": "application/vnd.sidegate.frames"}


async def test_a_body_over_its_limit_is_refused_before_it_is_read(
    new_mesh: Any, frame: Make
) -> None:
    mesh = await new_mesh(limits={"request_bytes_max": 1000, "in_flight_bytes_max": 1000})
    status, problem = await mesh.caller().append(frame(values=(b"x" * 2000,)))
    assert (status, problem["code"]) == (413, "too_large")
    assert "1000 bytes" in problem["detail"]


async def chunks(*parts: bytes, pause_s: float = 0.0) -> AsyncIterator[bytes]:
    for part in parts:
        yield part
        await asyncio.sleep(pause_s)


async def test_a_chunked_body_is_counted_as_it_comes(new_mesh: Any) -> None:
    mesh = await new_mesh(limits={"request_bytes_max": 1000, "in_flight_bytes_max": 1000})
    status, problem, _ = await mesh.caller().ask(
        "POST", "/v1/append", data=chunks(*[b"x" * 400] * 4), headers=FRAMES
    )
    assert (status, problem["code"]) == (413, "too_large")
    assert mesh.gatekeeper.intake.in_flight == 0


async def test_a_chunked_body_within_its_limit_passes(mesh: Any, frame: Make) -> None:
    whole = frame("orders.eu")
    parts = chunks(whole[:50], whole[50:])
    status, answer, _ = await mesh.caller().ask("POST", "/v1/append", data=parts, headers=FRAMES)
    assert status == 200
    assert "error" not in answer["results"][0]


async def test_a_body_that_drips_is_cut_off_in_time(new_mesh: Any, frame: Make) -> None:
    mesh = await new_mesh(limits={"body_timeout": 0.1})
    whole = frame("orders.eu")
    parts = chunks(*(whole[at : at + 8] for at in range(0, len(whole), 8)), pause_s=0.02)
    headers = {**FRAMES, "Content-Length": str(len(whole))}
    status, problem, answer = await mesh.caller().ask(
        "POST", "/v1/append", data=parts, headers=headers
    )
    assert (status, problem["code"]) == (408, "request_timeout")
    assert answer.headers["Connection"] == "close"
    assert mesh.gatekeeper.intake.in_flight == 0


async def test_bodies_of_all_callers_together_are_bounded(
    new_mesh: Any, frame: Make, wait_until: Any
) -> None:
    body = frame("orders.eu", values=(b"x" * 600,))
    mesh = await new_mesh(
        limits={"request_bytes_max": len(body), "in_flight_bytes_max": len(body) + 10}
    )
    mesh.core.hold = asyncio.Event()
    caller = mesh.caller()
    first = asyncio.create_task(caller.append(body))
    await wait_until(lambda: mesh.gatekeeper.intake.in_flight == len(body))
    status, problem = await caller.append(body)
    assert (status, problem["code"]) == (503, "overloaded")
    mesh.core.hold.set()
    assert (await first)[0] == 200
    assert mesh.gatekeeper.intake.in_flight == 0
    assert (await caller.append(frame("orders.eu", producer_id=9)))[0] == 200


async def test_a_body_that_is_encoded_is_refused(mesh: Any, frame: Make) -> None:
    status, problem = await mesh.caller().append(frame("orders.eu"), **{"Content-Encoding": "gzip"})
    assert status == 400
    assert "Content-Encoding" in problem["detail"]


async def test_a_caller_that_waits_for_leave_to_send_gets_it(mesh: Any, frame: Make) -> None:
    caller = mesh.caller()
    async with caller.session.post(
        "/v1/append",
        data=frame("orders.eu"),
        headers={**FRAMES, **caller.headers},
        expect100=True,
    ) as answer:
        assert answer.status == 200
        assert "error" not in (await answer.json())["results"][0]
    status, problem = await caller.append(frame("orders.eu"), Expect="200-ok")
    assert status == 400
    assert "Expect" in problem["detail"]


def test_room_is_all_or_nothing() -> None:
    intake = Intake(in_flight_bytes_max=10, timeout_s=1.0)
    intake.take(6)
    with pytest.raises(Overloaded, match="the limit is 10"):
        intake.take(5)
    intake.give_back(6)
    intake.take(10)
