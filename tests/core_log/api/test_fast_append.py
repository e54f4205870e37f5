"""A gatekeeper's append takes the short way, and nothing else does; both ways answer alike."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from aiohttp import ClientSession
from hypothesis import given
from hypothesis import strategies as st

from core_log.api import intake
from core_log.api.fast_append import parse_append_head
from core_log.api.wire import FRAMES_TYPE
from core_log.config import LimitsConfig
from gatekeeper.core.upstream import CoreClient, OnBehalf
from hosting.tls import client_context
from hosting.trace_context import parse_trace_context
from tests.raw_caller import RawCaller

LINES = (
    "POST /v1/append HTTP/1.1",
    "Host: core:7443",
    f"Content-Type: {FRAMES_TYPE}",
    "Content-Length: 123",
    "Sidegate-Principal: shop",
    "Sidegate-Decision: d-17",
    "Sidegate-Request-Id: r-1",
)
HEAD = "\r\n".join(LINES).encode()
TRACE = b"\r\ntraceparent: 00-%s-%s-01" % (b"a" * 32, b"b" * 16)


def test_the_head_of_a_gatekeeper_is_read() -> None:
    plan = parse_append_head(HEAD)
    assert plan is not None
    assert (plan.content_length, plan.request_id, plan.trace) == (123, "r-1", None)
    assert (plan.cause.principal, plan.cause.decision) == ("shop", "d-17")


def test_a_trace_is_read_too() -> None:
    plan = parse_append_head(HEAD + TRACE + b"\r\ntracestate: a=1")
    assert plan is not None
    assert plan.trace == parse_trace_context(f"00-{'a' * 32}-{'b' * 16}-01", "a=1")


@pytest.mark.parametrize(
    "head",
    [
        HEAD.replace(b"POST", b"PUT"),
        HEAD.replace(b"/v1/append", b"/v1/append?topic=x"),
        HEAD.replace(b"HTTP/1.1", b"HTTP/1.0"),
        HEAD.replace(b"frames", b"json"),
        HEAD.replace(b"123", b"-1"),
        HEAD.replace(b"123", b"12 3"),
        HEAD.replace(b"123", str(intake.REQUEST_BYTES_MAX + 1).encode()),
        HEAD.replace(b"r-1", b"r 1"),
        HEAD.replace(b"shop", b"sh\xc3\xb6p"),
        HEAD + b"\r\nTransfer-Encoding: chunked",
        HEAD + b"\r\nContent-Length: 123",
        HEAD + b"\r\nConnection: close",
        HEAD + b"\r\nExpect: 100-continue",
        HEAD + b"\r\n",
        b"\r\n" + HEAD,
        HEAD.replace(b"\r\n", b"\n"),
        "\r\n".join((LINES[0], *reversed(LINES[1:]))).encode(),
    ],
)
def test_every_other_head_is_left_to_aiohttp(head: bytes) -> None:
    assert parse_append_head(head) is None


@given(st.binary(max_size=300))
def test_no_bytes_make_it_fail(noise: bytes) -> None:
    parse_append_head(noise)
    parse_append_head(HEAD + noise)


async def connect(core: Any, **settings: Any) -> RawCaller:
    if core.config.listen.path is not None:
        return RawCaller(*await asyncio.open_unix_connection(str(core.config.listen.path)))
    port = core.core.api.address.port
    return RawCaller(*await asyncio.open_connection("127.0.0.1", port, **settings))


def request(body: bytes, *, fast: bool = True) -> bytes:
    head = HEAD.replace(b"123", b"%d" % len(body))
    return head + (b"" if fast else b"\r\nAccept: */*") + b"\r\n\r\n" + body


async def append(core: Any, body: bytes, *, fast: bool) -> tuple[int, dict[str, str], Any]:
    caller = await connect(core)
    caller.writer.write(request(body, fast=fast))
    answer = await caller.answer()
    assert bool(core.core.api.front.connections) == fast
    caller.writer.close()
    await caller.writer.wait_closed()
    while core.core.api.front.connections:  # noqa: ASYNC110 - no event tells of it
        await asyncio.sleep(0.001)
    return answer


async def test_both_ways_store_and_answer_alike(core: Any, frames: Any) -> None:
    await core.call("POST", "/v1/topics", json={"name": "orders"})
    for number, fast in enumerate((True, False)):
        body = frames.encoded("orders", [b"x", b"y"], producer_id=number)
        status, headers, answer = await append(core, body, fast=fast)
        (result,) = answer["results"]
        assert (status, result["base_offset"], result["count"]) == (200, 2 * number, 2)
        assert headers["Sidegate-Request-Id"] == "r-1"
        assert headers["Content-Type"].startswith("application/json")
        assert headers["Server"] == "sidegate"


@pytest.mark.parametrize("body", [b"", b"no frame", b"SGB1" + bytes(60)])
async def test_both_ways_refuse_alike(core: Any, body: bytes) -> None:
    answers = [await append(core, body, fast=fast) for fast in (True, False)]
    (status, headers, problem), (other_status, other_headers, other) = answers
    assert (status, problem) == (other_status, other)
    assert (status, problem["code"]) == (400, "bad_frame")
    assert headers["Content-Type"] == other_headers["Content-Type"] == "application/problem+json"


async def test_appends_are_counted_on_both_ways(core: Any, frames: Any) -> None:
    await core.call("POST", "/v1/topics", json={"name": "orders"})
    for number, fast in enumerate((True, False)):
        body = frames.encoded("orders", [b"x"], producer_id=number)
        await append(core, body, fast=fast)
    url = f"http://127.0.0.1:{core.core.health.address.port}/metrics"
    async with ClientSession() as session, session.get(url) as response:
        text = await response.text()
    labels = 'method="POST",route="/v1/append",site="api",status="200"'
    assert f"sidegate_http_request_seconds_count{{{labels}}} 2.0" in text


async def test_a_gatekeepers_own_client_takes_the_short_way(core: Any, frames: Any) -> None:
    """The two agree on the head: should either change, this fails."""
    await core.call("POST", "/v1/topics", json={"name": "orders"})

    class Dialer:
        version = 1

        async def dial(self, protocol: asyncio.Protocol) -> None:
            loop = asyncio.get_running_loop()
            await loop.create_unix_connection(lambda: protocol, str(core.config.listen.path))

    class NoConnectors:
        version = 1

    client = CoreClient(
        "http://core",
        NoConnectors(),  # type: ignore[arg-type]
        Dialer(),  # type: ignore[arg-type]
        connections_max=1,
        connect_timeout_s=5.0,
        answer_timeout_s=5.0,
    )
    trace = parse_trace_context(f"00-{'a' * 32}-{'b' * 16}-01", "a=1")
    for number, behalf in enumerate(
        (
            OnBehalf("shop", "d-1", "r-1"),
            OnBehalf("", "", "r-2", trace),
            OnBehalf("bücher", "", "r"),
        )
    ):
        body = frames.encoded("orders", [b"x"], producer_id=number)
        answer = await client.append([body], behalf)
        assert answer.status == 200, answer.body
        assert len(core.core.api.front.connections) == 1
    await client.stop()


async def test_bodies_of_both_ways_together_are_limited(
    start_core: Any, frames: Any, eventually: Any
) -> None:
    core = await start_core(limits=LimitsConfig(request_bytes_max=1000))
    await core.call("POST", "/v1/topics", json={"name": "orders"})
    slow = await connect(core)
    slow.writer.write(request(b"x" * 900)[:-1])
    await eventually(lambda: any(each._plan for each in core.core.api.front.connections))
    status, headers, problem = await append_beside(core, b"y" * 200)
    assert (status, problem["code"]) == (503, "overloaded")
    assert headers["Retry-After"] == "1"
    slow.writer.close()
    await eventually(lambda: not core.core.api.front.connections)
    (result,) = await core.append(frames.encoded("orders", [b"x"]))
    assert result["base_offset"] == 0


async def append_beside(core: Any, body: bytes) -> tuple[int, dict[str, str], Any]:
    caller = await connect(core)
    caller.writer.write(request(body))
    answer = await caller.answer()
    caller.writer.close()
    return answer


async def test_who_is_no_gatekeeper_never_comes_this_way(
    start_core: Any, certificates: Any, frames: Any
) -> None:
    core = await start_core(tls=True)
    await core.call("POST", "/v1/topics", json={"name": "orders"})
    body = frames.encoded("orders", [b"x"])
    stranger = certificates.issue("app", "spiffe://example/app", lasts=timedelta(minutes=5))
    for files, wanted in ((stranger, 403), (certificates.issue("gk", core.config.admit[0]), 200)):
        caller = await connect(core, ssl=client_context(files, certificates.bundle))
        caller.writer.write(request(body))
        status, _, answer = await caller.answer()
        assert status == wanted, answer
        assert len(core.core.api.front.connections) == int(wanted == 200)
        caller.writer.close()


async def test_an_append_that_was_taken_is_finished_before_the_core_stops(
    core: Any, frames: Any, eventually: Any
) -> None:
    await core.call("POST", "/v1/topics", json={"name": "orders"})
    caller = await connect(core)
    caller.writer.write(request(frames.encoded("orders", [b"x"])))
    await eventually(
        lambda: (
            any(each.busy for each in core.core.api.front.connections)
            or core.core.storage.disk.status().leaves
        )
    )
    assert await core.stop() == 0
    status, _, answer = await caller.answer()
    assert (status, answer["results"][0]["base_offset"]) == (200, 0)
    caller.writer.close()
