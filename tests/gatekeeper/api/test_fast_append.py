"""A sidecar's append takes the short way, and nothing else does; both ways judge alike."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatekeeper.api.fast_append import parse_append_head
from gatekeeper.core.upstream import FRAMES_TYPE
from hosting.trace_context import parse_trace_context
from sidecar.uplink.gateway import request_head, trace_lines
from tests.raw_caller import RawCaller

Make = Callable[..., bytes]

LINES = (
    "POST /v1/append HTTP/1.1",
    "Host: gatekeeper:8443",
    "Authorization: Bearer abc.def.ghi",
    f"Content-Type: {FRAMES_TYPE}",
    "Content-Length: 123",
)
HEAD = "\r\n".join(LINES).encode()


def test_the_head_of_a_sidecar_is_read() -> None:
    plan = parse_append_head(HEAD)
    assert plan is not None
    assert (plan.content_length, plan.authorization) == (123, "Bearer abc.def.ghi")
    assert plan.trace is None
    assert "abc" not in repr(plan), "a token must not get into a log line by accident"


@pytest.mark.parametrize("state", [None, "a=1"])
def test_it_is_the_head_that_a_sidecar_writes(state: str | None) -> None:
    """The two agree: should either change, this fails."""
    trace = parse_trace_context(f"00-{'a' * 32}-{'b' * 16}-01", state)
    for context in (None, trace):
        head = request_head(
            "POST",
            "/v1/append",
            b"Host: gatekeeper:8443\r\n" + trace_lines(context),
            "a.b.c",
            [b"12", b"345"],
            FRAMES_TYPE,
        )
        plan = parse_append_head(head.removesuffix(b"\r\n\r\n"))
        assert plan is not None
        assert (plan.content_length, plan.authorization, plan.trace) == (5, "Bearer a.b.c", context)


@pytest.mark.parametrize(
    "head",
    [
        HEAD.replace(b"POST", b"PUT"),
        HEAD.replace(b"/v1/append", b"/v1/append?x=1"),
        HEAD.replace(b"/v1/append", b"/v1/%61ppend"),
        HEAD.replace(b"HTTP/1.1", b"HTTP/1.0"),
        HEAD.replace(b"frames", b"json"),
        HEAD.replace(b"123", b"+123"),
        HEAD.replace(b"123", b"0x7b"),
        HEAD.replace(b"Bearer ", b"Basic "),
        HEAD.replace(b"abc.def.ghi", b"abc def"),
        HEAD.replace(b"abc.def.ghi", b"abc\x00"),
        HEAD + b"\r\nTransfer-Encoding: chunked",
        HEAD + b"\r\nContent-Length: 0",
        HEAD + b"\r\nAuthorization: Bearer other",
        HEAD + b"\r\nSidegate-Principal: admin",
        HEAD + b"\r\nExpect: 100-continue",
        HEAD + b"\r\nContent-Encoding: gzip",
        HEAD + b"\r\n",
        b" " + HEAD,
        HEAD.replace(b"\r\n", b"\n"),
        HEAD.replace(b"Host: ", b"Host:"),
        "\r\n".join((LINES[0], *reversed(LINES[1:]))).encode(),
    ],
)
def test_every_other_head_is_left_to_aiohttp(head: bytes) -> None:
    assert parse_append_head(head) is None


@given(st.binary(max_size=300))
def test_no_bytes_make_it_fail(noise: bytes) -> None:
    parse_append_head(noise)
    parse_append_head(HEAD + noise)


class SidecarCaller(RawCaller):
    """A sidecar at the level of bytes."""

    async def append(self, token: str, body: bytes) -> tuple[int, dict[str, str], Any]:
        self.writer.write(request(token, body))
        return await self.answer()


def request(token: str, body: bytes) -> bytes:
    head = HEAD.replace(b"123", b"%d" % len(body)).replace(b"abc.def.ghi", token.encode())
    return head + b"\r\n\r\n" + body


async def connect(mesh: Any, leaf: Any) -> SidecarCaller:
    return SidecarCaller(*await asyncio.open_connection("127.0.0.1", mesh.port, ssl=mesh.tls(leaf)))


async def both_ways(
    mesh: Any, token: str, leaf: Any, bodies: tuple[bytes, bytes]
) -> list[tuple[int, dict[str, str], Any]]:
    """The answers to a request on the short way, and to the like of it through aiohttp."""
    caller = await connect(mesh, leaf)
    fast = await caller.append(token, bodies[0])
    caller.writer.close()
    live = mesh.caller(leaf=leaf)
    live.token = token
    status, body, answer = await live.ask(
        "POST", "/v1/append", data=bodies[1], headers={"Content-Type": FRAMES_TYPE}
    )
    return [fast, (status, dict(answer.headers), body)]


def plain(problem: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in problem.items() if name != "request_id"}


async def test_a_sidecars_append_stays_on_the_short_way(mesh: Any, frame: Make) -> None:
    leaf = mesh.leaf()
    caller = await connect(mesh, leaf)
    for sequence in range(3):
        status, headers, answer = await caller.append(
            mesh.token(leaf), frame("orders.eu", sequence=sequence)
        )
        assert (status, answer["results"][0]["base_offset"]) == (200, sequence)
        assert headers["Server"] == "sidegate"
        assert len(headers["Sidegate-Request-Id"]) == 16
        assert "Connection" not in headers
    assert len(mesh.gatekeeper.fast.connections) == 1
    assert mesh.gatekeeper.connections.held_by("billing") == 1
    caller.writer.close()


async def test_provenance_is_the_same_on_both_ways(mesh: Any, frame: Make) -> None:
    leaf = mesh.leaf()
    bodies = frame("orders.eu", producer_id=1), frame("orders.eu", producer_id=2)
    answers = await both_ways(mesh, mesh.token(leaf), leaf, bodies)
    assert [status for status, _, _ in answers] == [200, 200]
    first, second = (each.envelope.provenance for each in mesh.core.frames("orders.eu"))
    assert first.principal == second.principal == "billing"
    assert first.thumbprint == second.thumbprint == leaf.thumbprint
    assert (first.rule, first.policy_hash) == (second.rule, second.policy_hash)
    assert first.decision_id != second.decision_id


async def test_a_denial_is_the_same_on_both_ways(mesh: Any, frame: Make) -> None:
    leaf = mesh.leaf()
    bodies = frame("secret", producer_id=1), frame("secret", producer_id=2)
    (status, _, fast), (other, _, slow) = await both_ways(mesh, mesh.token(leaf), leaf, bodies)
    assert status == other == 200
    for answer in (fast, slow):
        assert answer["results"][0].pop("decision_id")
    assert fast == slow
    assert fast["results"][0]["error"] == "denied"
    assert mesh.core.frames("secret") == []


@pytest.mark.parametrize("body", [b"", b"no frame", b"SGB1" + bytes(60)])
async def test_bad_frames_are_refused_alike(mesh: Any, body: bytes) -> None:
    leaf = mesh.leaf()
    (status, headers, fast), (other, _, slow) = await both_ways(
        mesh, mesh.token(leaf), leaf, (body, body)
    )
    assert status == other == 400
    assert plain(fast) == plain(slow)
    assert headers["Connection"] == "close"


@pytest.mark.parametrize("kind", ["stolen", "expired", "garbled", "of no issuer"])
async def test_tokens_are_refused_alike(mesh: Any, frame: Make, new_mint: Any, kind: str) -> None:
    leaf = mesh.leaf()
    token = {
        "stolen": lambda: mesh.token(mesh.leaf()),
        "expired": lambda: mesh.token(leaf, exp=int(time.time()) - 600),
        "garbled": lambda: mesh.token(leaf)[:-4] + "AAAA",
        "of no issuer": lambda: new_mint(issuer="https://nobody.example").token(
            leaf.thumbprint, time.time()
        ),
    }[kind]()
    body = frame("orders.eu")
    (status, headers, fast), (other, other_headers, slow) = await both_ways(
        mesh, token, leaf, (body, body)
    )
    assert status == other == 401
    assert plain(fast) == plain(slow)
    assert headers["WWW-Authenticate"] == other_headers["WWW-Authenticate"]
    assert headers["Connection"] == "close"
    assert mesh.core.frames("orders.eu") == []


async def test_what_follows_a_refusal_on_its_connection_is_not_served(
    mesh: Any, frame: Make
) -> None:
    leaf = mesh.leaf()
    caller = await connect(mesh, leaf)
    caller.writer.write(request("nonsense", frame("orders.eu")))
    caller.writer.write(request(mesh.token(leaf), frame("orders.eu")))
    assert (await caller.answer())[0] == 401
    assert await caller.ended()
    assert mesh.core.frames("orders.eu") == []


async def test_a_revoked_certificates_connection_is_of_no_more_use(
    mesh: Any, frame: Make, wait_until: Any
) -> None:
    leaf = mesh.leaf()
    token = mesh.token(leaf)
    caller = await connect(mesh, leaf)
    assert (await caller.append(token, frame("orders.eu")))[0] == 200
    await mesh.core.revoke(kind="certificate", value=leaf.thumbprint.hex(), issuer="")
    await wait_until(lambda: not mesh.gatekeeper.fast.connections)
    assert await caller.ended()


async def test_the_next_other_request_is_served_and_the_connection_stays_as_old_as_it_is(
    mesh: Any, frame: Make
) -> None:
    leaf = mesh.leaf()
    token = mesh.token(leaf)
    caller = await connect(mesh, leaf)
    assert (await caller.append(token, frame("orders.eu")))[0] == 200
    (known,) = mesh.gatekeeper.connections.all()
    caller.writer.write(
        f"GET /v1/whoami HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
    )
    assert (await caller.answer())[2]["principal"] == "billing"
    (same,) = mesh.gatekeeper.connections.all()
    assert same is known
    assert mesh.gatekeeper.connections.held_by("billing") == 1
    assert not mesh.gatekeeper.fast.connections
    caller.writer.close()


async def test_a_connection_that_is_old_enough_ends_after_its_answer(
    new_mesh: Any, frame: Make, wait_until: Any
) -> None:
    mesh = await new_mesh(limits={"connection_age_max": 0.001})
    leaf = mesh.leaf()
    caller = await connect(mesh, leaf)
    status, headers, _ = await caller.append(mesh.token(leaf), frame("orders.eu"))
    assert (status, headers["Connection"]) == (200, "close")
    assert await caller.ended()
    await wait_until(lambda: len(mesh.gatekeeper.connections) == 0)


async def test_a_head_that_drips_is_cut_off(new_mesh: Any) -> None:
    mesh = await new_mesh(limits={"header_timeout": 0.2})
    caller = await connect(mesh, mesh.leaf())

    async def drip() -> None:
        for byte in HEAD:
            caller.writer.write(bytes([byte]))
            await asyncio.sleep(0.05)

    dripping = asyncio.create_task(drip())
    assert await caller.ended()
    assert not dripping.done()
    dripping.cancel()


async def test_a_body_that_drips_is_refused_and_its_room_given_back(
    new_mesh: Any, wait_until: Any
) -> None:
    mesh = await new_mesh(limits={"body_timeout": 0.2})
    leaf = mesh.leaf()
    caller = await connect(mesh, leaf)
    caller.writer.write(request(mesh.token(leaf), b"x" * 1000)[:-1])
    assert (await caller.answer())[0] == 408
    assert await caller.ended()
    await wait_until(lambda: mesh.gatekeeper.intake.in_flight == 0)


async def test_too_large_a_body_is_refused_before_it_is_read(mesh: Any) -> None:
    leaf = mesh.leaf()
    caller = await connect(mesh, leaf)
    limit = mesh.gatekeeper.config.limits.request_bytes_max
    caller.writer.write(
        HEAD.replace(b"123", b"%d" % (limit + 1)).replace(b"abc.def.ghi", mesh.token(leaf).encode())
        + b"\r\n\r\n"
    )
    status, _, problem = await caller.answer()
    assert (status, problem["code"]) == (413, "too_large")
    caller.writer.close()


async def test_room_is_given_back_where_the_body_never_comes(mesh: Any, wait_until: Any) -> None:
    leaf = mesh.leaf()
    caller = await connect(mesh, leaf)
    caller.writer.write(request(mesh.token(leaf), b"x" * 1000)[:-1])
    await wait_until(lambda: mesh.gatekeeper.intake.in_flight == 1000)
    caller.writer.close()
    await wait_until(lambda: mesh.gatekeeper.intake.in_flight == 0)
    await wait_until(lambda: len(mesh.gatekeeper.connections) == 0)


async def test_what_was_taken_is_answered_before_the_gatekeeper_stops(
    mesh: Any, frame: Make, wait_until: Any
) -> None:
    mesh.core.hold = asyncio.Event()
    leaf = mesh.leaf()
    caller = await connect(mesh, leaf)
    caller.writer.write(request(mesh.token(leaf), frame("orders.eu")))
    await wait_until(lambda: mesh.gatekeeper.intake.in_flight > 0)
    mesh.service.ask_to_stop()
    await wait_until(lambda: mesh.gatekeeper.fast.draining)
    mesh.core.hold.set()
    status, headers, answer = await caller.answer()
    assert (status, headers["Connection"]) == (200, "close")
    assert "error" not in answer["results"][0]
    assert await caller.ended()
