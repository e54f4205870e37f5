"""Streams through a running gatekeeper: joined, bounded, watched and ended with a reason."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest

Make = Callable[..., bytes]
LATEST = {"from": "latest"}
EARLIEST = {"from": "earliest"}
TRIES_MAX = 10


async def end_of(socket: aiohttp.ClientWebSocketResponse) -> dict[str, Any]:
    """The last message of a stream; what comes before it is passed over."""
    async with asyncio.timeout(60):
        while True:
            message = await socket.receive()
            if message.type is aiohttp.WSMsgType.TEXT and message.json()["type"] == "end":
                last: dict[str, Any] = message.json()
                assert (await socket.receive()).type in (
                    aiohttp.WSMsgType.CLOSE,
                    aiohttp.WSMsgType.CLOSED,
                )
                return last
            assert message.type in (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY)


async def opened(socket: aiohttp.ClientWebSocketResponse) -> None:
    assert (await socket.receive_json())["type"] == "opened"


async def test_history_and_live_batches_arrive_byte_for_byte(mesh: Any, frame: Make) -> None:
    writer = mesh.caller()
    await writer.append(frame("orders.eu"))
    async with mesh.caller("reader", "reader").stream(topic="orders.eu", **EARLIEST) as socket:
        await opened(socket)
        assert await socket.receive_bytes() == mesh.core.stored["orders.eu", 0][0]
        await writer.append(frame("orders.eu", sequence=1))
        assert await socket.receive_bytes() == mesh.core.stored["orders.eu", 0][1]


async def test_credit_is_passed_on_and_bounds_what_is_sent(mesh: Any, frame: Make) -> None:
    writer = mesh.caller()
    for number in range(3):
        await writer.append(frame("orders.eu", sequence=number))
    reader = mesh.caller("reader", "reader")
    async with reader.stream(topic="orders.eu", credit_bytes=1, **EARLIEST) as socket:
        await opened(socket)
        await socket.receive_bytes()
        with pytest.raises(TimeoutError):
            await socket.receive_bytes(timeout=0.1)
    async with reader.stream(topic="orders.eu", credit_bytes=1, **EARLIEST) as socket:
        await opened(socket)
        await socket.receive_bytes()
        await socket.send_json({"type": "credit", "bytes": 10_000})
        await socket.receive_bytes()
        await socket.receive_bytes()
        assert mesh.core.credits == [10_000]


async def test_the_core_gets_a_message_written_anew(mesh: Any) -> None:
    async with mesh.caller("reader", "reader").stream(
        topic="orders.eu", partitions=[0], **{"from": {"offsets": {"0": 0}}}
    ) as socket:
        await opened(socket)
    assert mesh.core.opened == [
        {
            "type": "open",
            "topic": "orders.eu",
            "partitions": [0],
            "credit_bytes": 1 << 20,
            "from": {"offsets": {"0": 0}},
        }
    ]
    head = mesh.core.sent("/v1/stream")[0]
    assert head["Sidegate-Principal"] == "reader"
    assert "Authorization" not in head


async def test_a_denied_stream_ends_with_decision_and_reason(mesh: Any) -> None:
    async with mesh.caller("reader", "reader").stream(topic="secret", **LATEST) as socket:
        last = await end_of(socket)
    assert (last["code"], last["reason"]) == ("denied", "no_rule")
    assert last["decision_id"]
    assert not mesh.core.sent("/v1/stream")


async def test_to_begin_in_the_past_needs_replay_or_a_look_back(mesh: Any, frame: Make) -> None:
    reader = mesh.caller("reader", "reader")
    async with reader.stream(topic="archive", **EARLIEST) as socket:
        await opened(socket)
    async with reader.stream(topic="archive", **LATEST) as socket:
        assert (await end_of(socket))["code"] == "denied", "replay alone does not subscribe"


async def test_a_first_frame_that_is_too_old_ends_the_stream(mesh: Any, frame: Make) -> None:
    mesh.core.append_age_s = 4000
    await mesh.caller().append(frame("history"))
    mesh.core.append_age_s = 0
    async with mesh.caller("reader", "reader").stream(topic="history", **EARLIEST) as socket:
        last = await end_of(socket)
    assert (last["code"], last["reason"]) == ("denied", "older_than_allowed")


@pytest.mark.parametrize(
    "first",
    [
        {"type": "credit", "bytes": 1},
        {"type": "open", "topic": ".."},
        {"type": "open", "topic": "orders.eu", "principal": "root"},
    ],
)
async def test_a_first_message_that_is_not_of_the_wire_ends_the_stream(
    mesh: Any, first: dict[str, Any]
) -> None:
    async with mesh.caller().stream() as socket:
        await socket.send_json(first)
        assert (await end_of(socket))["code"] == "bad_message"


async def test_no_open_message_in_time_ends_the_stream(new_mesh: Any) -> None:
    mesh = await new_mesh(limits={"stream_open_timeout": 0.05})
    async with mesh.caller().stream() as socket:
        last = await end_of(socket)
    assert last["code"] == "bad_message"
    assert "no open message" in last["detail"]


async def test_callers_send_no_frames_and_no_large_messages(mesh: Any, frame: Make) -> None:
    async with mesh.caller("reader", "reader").stream(topic="orders.eu", **LATEST) as socket:
        await opened(socket)
        await socket.send_bytes(frame("orders.eu"))
        assert (await end_of(socket))["code"] == "bad_message"
    async with mesh.caller("reader", "reader").stream(topic="orders.eu", **LATEST) as socket:
        await opened(socket)
        await socket.send_str("x" * 100_000)
        message = await socket.receive()
        while message.type is aiohttp.WSMsgType.TEXT:
            message = await socket.receive()
        assert message.type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED)


async def test_a_plain_request_to_the_stream_is_refused(mesh: Any) -> None:
    status, problem, _ = await mesh.caller().ask("GET", "/v1/stream")
    assert (status, problem["code"]) == (400, "bad_request")


async def test_streams_of_one_principal_are_limited_by_its_quota(
    new_mesh: Any, wait_until: Any
) -> None:
    mesh = await new_mesh(policy="quotas: {reader: {streams: 1}}")
    reader = mesh.caller("reader", "reader")
    async with reader.stream(topic="orders.eu", **LATEST) as socket:
        await opened(socket)
        status, problem, answer = await reader.ask("GET", "/v1/stream", headers=UPGRADE)
        assert (status, problem["code"]) == (429, "over_quota")
        assert answer.headers["Retry-After"] == "5"
    await wait_until(lambda: not mesh.gatekeeper.quotas.streams_of("reader"))
    async with reader.stream(topic="orders.eu", **LATEST) as socket:
        await opened(socket)


UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


async def test_streams_of_all_are_limited(new_mesh: Any) -> None:
    mesh = await new_mesh(limits={"streams_max": 1})
    async with mesh.caller("reader", "reader").stream(topic="orders.eu", **LATEST) as socket:
        await opened(socket)
        status, problem, _ = await mesh.caller().ask("GET", "/v1/stream", headers=UPGRADE)
        assert (status, problem["code"]) == (503, "overloaded")


@pytest.mark.parametrize(
    ("record", "code"),
    [
        ({"kind": "certificate"}, "certificate_revoked"),
        ({"kind": "client", "value": "reader"}, "client_revoked"),
        ({"kind": "token_id", "value": "token-1"}, "token_revoked"),
    ],
)
async def test_a_revocation_ends_open_streams_within_a_second(
    new_mesh: Any, record: dict[str, str], code: str
) -> None:
    took: list[float] = []
    # A machine that is busy with something else is given another chance.
    while min(took, default=1.0) >= 1.0:
        assert len(took) < TRIES_MAX, took
        mesh = await new_mesh()
        reader = mesh.caller("reader", "reader")
        async with reader.stream(topic="orders.eu", **LATEST) as socket:
            await opened(socket)
            began = time.monotonic()
            await mesh.core.revoke(**{"value": f"{reader.leaf.serial:x}", **record})
            assert (await end_of(socket))["code"] == code
            took.append(time.monotonic() - began)


async def test_an_expired_token_ends_the_stream_and_a_fresh_one_keeps_it(
    new_mesh: Any, frame: Make
) -> None:
    mesh = await new_mesh(limits={"recheck_interval": 0.05})
    leaf = mesh.leaf("reader")
    soon = int(time.time()) + 5
    reader = mesh.caller("reader", leaf=leaf, exp=soon - 30)
    async with (
        reader.stream(topic="orders.eu", **LATEST) as old,
        reader.stream(topic="orders.eu", **LATEST) as renewed,
    ):
        await opened(old)
        await opened(renewed)
        fresh = mesh.token(leaf, "reader", jti="token-2")
        await renewed.send_json({"type": "token", "token": fresh})
        assert (await end_of(old))["code"] == "token_expired"
        await mesh.caller().append(frame("orders.eu"))
        assert await renewed.receive_bytes(timeout=60)
    said = str(mesh.core.opened) + str(mesh.core.credits) + str(mesh.core.requests)
    assert fresh not in said


async def test_a_fresh_token_of_somebody_else_ends_the_stream(mesh: Any) -> None:
    leaf = mesh.leaf("reader")
    async with mesh.caller("reader", leaf=leaf).stream(topic="orders.eu", **LATEST) as socket:
        await opened(socket)
        await socket.send_json({"type": "token", "token": mesh.token(leaf, "other")})
        last = await end_of(socket)
    assert last["code"] == "bad_message"
    assert "the stream is reader's" in last["detail"]


async def test_a_fresh_token_that_does_not_hold_ends_the_stream(mesh: Any) -> None:
    async with mesh.caller("reader", "reader").stream(topic="orders.eu", **LATEST) as socket:
        await opened(socket)
        await socket.send_json({"type": "token", "token": "nonsense"})
        assert (await end_of(socket))["code"] == "token_malformed"


async def test_a_new_policy_ends_what_it_denies_and_nothing_else(
    mesh: Any, wait_until: Any
) -> None:
    reader, writer = mesh.caller("reader", "reader"), mesh.caller()
    async with (
        reader.stream(topic="orders.eu", **LATEST) as closed,
        writer.stream(topic="orders.eu", **LATEST) as kept,
    ):
        await opened(closed)
        await opened(kept)
        mesh.write_policy(
            "deny:\n  - {id: D1, who: [reader], do: [subscribe], on: '>', reason: gone}\n"
        )
        last = await end_of(closed)
        assert (last["code"], last["reason"]) == ("denied", "denied_by_rule")
        await wait_until(
            lambda: last["decision_id"] in [r.get("decision_id") for r in mesh.core.records()]
        )
        await wait_until(lambda: len(mesh.gatekeeper.streams) == 1)
        with pytest.raises(TimeoutError):
            await kept.receive(timeout=0.1)


async def test_a_connection_that_is_too_old_ends_its_stream(new_mesh: Any) -> None:
    mesh = await new_mesh(limits={"connection_age_max": 2.0, "recheck_interval": 0.05})
    async with mesh.caller("reader", "reader").stream(topic="orders.eu", **LATEST) as socket:
        assert (await end_of(socket))["code"] == "connection_age"


async def test_a_drain_ends_streams_with_its_code(mesh: Any) -> None:
    async with mesh.caller("reader", "reader").stream(topic="orders.eu", **LATEST) as socket:
        await opened(socket)
        mesh.service.ask_to_stop()
        assert (await end_of(socket))["code"] == "draining"


async def test_a_core_that_goes_away_ends_the_stream(mesh: Any) -> None:
    async def short(request: Any) -> Any:
        from aiohttp import web

        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.receive()
        await socket.close()
        return socket

    mesh.core.intercept["/v1/stream"] = short
    async with mesh.caller("reader", "reader").stream(topic="orders.eu", **LATEST) as socket:
        assert (await end_of(socket))["code"] == "unavailable"


async def test_a_reader_that_does_not_read_costs_bounded_memory_and_can_still_be_ended(
    new_mesh: Any, frame: Make, wait_until: Any
) -> None:
    mesh = await new_mesh(limits={"recheck_interval": 0.05})
    writer = mesh.caller()
    big = [frame("orders.eu", values=(bytes(1_000_000),), sequence=number) for number in range(24)]
    for one in big:
        await writer.append(one)
    reader = mesh.caller("reader", "reader")
    async with reader.stream(topic="orders.eu", credit_bytes=1 << 30, **EARLIEST) as socket:
        transport = socket._response.connection.transport
        transport.pause_reading()
        sent = mesh.gatekeeper.metrics.stream_bytes._value
        await wait_until(lambda: sent.get() > 0)
        before = -1.0
        while sent.get() != before:
            before = sent.get()
            await asyncio.sleep(0.1)
        assert before < sum(map(len, big)) - 5_000_000, "the rest waits in the core"
        await mesh.core.revoke(kind="client", value="reader")
        await wait_until(lambda: len(mesh.gatekeeper.streams) == 0)
        await wait_until(lambda: mesh.gatekeeper.quotas.streams_of("reader") == 0)
        transport.resume_reading()
