"""The way in: paths, methods, headers, smuggling, and callers that are not proven."""

import asyncio
import json
import re
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from cryptography.x509.oid import ExtendedKeyUsageOID

from gatekeeper.api.call import Call
from gatekeeper.api.dispatch import Dispatch
from gatekeeper.api.routes import ROUTES
from gatekeeper.api.server import Listener, ServerLimits
from gatekeeper.config import TrustDomainConfig
from hosting.units import Address

Make = Callable[..., bytes]
SERVER_AUTH = ExtendedKeyUsageOID.SERVER_AUTH


async def raw(mesh: Any, data: bytes, *, leaf: Any = None, wait_s: float = 3.0) -> bytes:
    """Send bytes over TLS exactly as given; what comes back until the server closes."""
    context = mesh.tls(leaf or mesh.leaf())
    reader, writer = await asyncio.open_connection("127.0.0.1", mesh.port, ssl=context)
    writer.write(data)
    await writer.drain()
    got = b""
    try:
        async with asyncio.timeout(wait_s):
            while chunk := await reader.read(65536):
                got += chunk
    except (TimeoutError, ConnectionError, ssl.SSLError):
        pass
    writer.close()
    return got


def request(mesh: Any, leaf: Any, line: str, *headers: str, body: bytes = b"") -> bytes:
    token = mesh.token(leaf)
    lines = [line, "Host: gatekeeper", f"Authorization: Bearer {token}", *headers]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def statuses(answer: bytes) -> list[int]:
    """The status of each answer in the bytes."""
    return [int(status) for status in re.findall(rb"HTTP/1\.[01] (\d{3}) ", answer)]


@pytest.mark.parametrize(
    "target",
    [
        "/v1/topics/a%2Fb",
        "/v1/topics/%2e%2e/append",
        "/v1/../v1/whoami",
        "/v1//whoami",
        "//v1/whoami",
        "/v1/./whoami",
        "/v1/whoami/",
        "/v1/whoami#x",
        "https://gatekeeper/v1/whoami",
        "/v1\\whoami",
        "/v1/whoami;a=b",
    ],
)
async def test_path_tricks_are_refused_and_never_forwarded(mesh: Any, target: str) -> None:
    leaf = mesh.leaf()
    answer = await raw(
        mesh, request(mesh, leaf, f"GET {target} HTTP/1.1", "Connection: close"), leaf=leaf
    )
    assert statuses(answer) in ([400], [404])
    assert not [path for _, path, _ in mesh.core.requests if "revocations" not in path]


@pytest.mark.parametrize(
    ("name", "lines", "body"),
    [
        ("both lengths", ["Content-Length: 4", "Transfer-Encoding: chunked"], b"0\r\n\r\n"),
        ("two lengths", ["Content-Length: 4", "Content-Length: 5"], b"abcde"),
        ("signed length", ["Content-Length: +4"], b"abcd"),
        ("length list", ["Content-Length: 4, 4"], b"abcd"),
        ("spaced name", ["Transfer-Encoding : chunked"], b"0\r\n\r\n"),
        ("unknown coding", ["Transfer-Encoding: xchunked"], b"0\r\n\r\n"),
        ("double coding", ["Transfer-Encoding: chunked, identity"], b"0\r\n\r\n"),
        ("obsolete fold", ["X-A: b", " Transfer-Encoding: chunked"], b"0\r\n\r\n"),
        ("nul in value", ["X-A: b\x00c"], b""),
    ],
)
async def test_a_request_with_two_ends_is_refused_and_the_connection_closed(
    mesh: Any, name: str, lines: list[str], body: bytes
) -> None:
    leaf = mesh.leaf()
    hidden = b"GET /v1/whoami HTTP/1.1\r\nHost: x\r\n\r\n"
    data = request(mesh, leaf, "POST /v1/append HTTP/1.1", *lines, body=body + hidden)
    answer = await raw(mesh, data, leaf=leaf)
    assert statuses(answer) == [400], name


async def test_bare_line_feeds_are_refused(mesh: Any) -> None:
    leaf = mesh.leaf()
    data = request(mesh, leaf, "GET /v1/whoami HTTP/1.1").replace(b"\r\n", b"\n")
    assert statuses(await raw(mesh, data, leaf=leaf)) == [400]
    bad_chunk = request(
        mesh,
        leaf,
        "POST /v1/append HTTP/1.1",
        "Transfer-Encoding: chunked",
        "Content-Type: application/vnd.sidegate.frames",
        body=b"4\nabcd\r\n0\r\n\r\n",
    )
    assert statuses(await raw(mesh, bad_chunk, leaf=leaf)) == [400]


async def test_what_is_not_http_is_refused_without_an_echo(mesh: Any) -> None:
    secret = b"eyJhbGciOiJFUzI1NiJ9.secret.secret"
    answer = await raw(mesh, b"Authorization: Bearer " + secret + b"\r\n\r\n")
    assert statuses(answer) == [400]
    assert b"secret" not in answer


async def test_identity_headers_of_callers_never_reach_the_core(mesh: Any, frame: Make) -> None:
    forged = {
        "Sidegate-Principal": "root",
        "Sidegate-Decision": "yes",
        "Sidegate_Principal": "root",
        "Forwarded": "for=10.0.0.1",
        "X-Forwarded-For": "10.0.0.1",
        "X-Forwarded-Client-Cert": "Hash=1",
        "X-Real-Ip": "10.0.0.1",
        "X_Custom": "1",
        "Cookie": "a=b",
    }
    await mesh.caller().append(frame("orders.eu"), **forged)
    await mesh.caller().ask("GET", "/v1/topics", headers=forged)
    for path in ("/v1/append", "/v1/topics"):
        head = mesh.core.sent(path)[0]
        assert head["Sidegate-Principal"] == "billing"
        assert head.get("Sidegate-Decision") != "yes"
        allowed = {
            "Host",
            "Content-Type",
            "Content-Length",
            "Sidegate-Principal",
            "Sidegate-Decision",
            "Sidegate-Request-Id",
        }
        assert set(head) <= allowed


async def test_a_request_id_travels_along_when_it_is_well_formed(mesh: Any) -> None:
    caller = mesh.caller()
    _, _, answer = await caller.ask("GET", "/v1/topics", headers={"Sidegate-Request-Id": "abc-1"})
    assert answer.headers["Sidegate-Request-Id"] == "abc-1"
    assert mesh.core.sent("/v1/topics")[-1]["Sidegate-Request-Id"] == "abc-1"
    _, _, answer = await caller.ask("GET", "/v1/topics", headers={"Sidegate-Request-Id": "x" * 99})
    assert answer.headers["Sidegate-Request-Id"] != "x" * 99


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/", 404, "not_found"),
        ("GET", "/metrics", 404, "not_found"),
        ("GET", "/healthz", 404, "not_found"),
        ("GET", "/v1/revocations", 404, "not_found"),
        ("POST", "/v1/revocations", 404, "not_found"),
        ("GET", "/v1/append", 405, "method_not_allowed"),
        ("DELETE", "/v1/topics", 405, "method_not_allowed"),
        ("GET", "/v1/whoami?x=1", 400, "bad_request"),
        ("GET", "/v1/read?topic=a&topic=b&offset=0", 400, "bad_request"),
    ],
)
async def test_what_the_table_does_not_have_is_a_problem(
    mesh: Any, method: str, path: str, status: int, code: str
) -> None:
    got, problem, answer = await mesh.caller().ask(method, path)
    assert (got, problem["code"]) == (status, code)
    assert answer.headers["Content-Type"].startswith("application/problem+json")
    if status == 405:
        assert answer.headers["Allow"]


async def test_without_a_token_the_answer_is_401_with_a_challenge(mesh: Any) -> None:
    caller = mesh.caller()
    async with caller.session.get("/v1/whoami") as answer:
        problem = await answer.json(content_type=None)
        assert answer.status == 401
        assert answer.headers["WWW-Authenticate"] == "Bearer"
        assert problem["reason"] == "token_missing"
        assert answer.headers["Connection"] == "close"


async def test_two_authorization_headers_are_refused(mesh: Any) -> None:
    leaf = mesh.leaf()
    extra = f"Authorization: Bearer {mesh.token(leaf)}"
    data = request(mesh, leaf, "GET /v1/whoami HTTP/1.1", extra, "Connection: close")
    answer = await raw(mesh, data, leaf=leaf)
    assert statuses(answer) == [401]
    assert b"token_malformed" in answer


async def test_a_stolen_token_does_not_work_with_another_certificate(mesh: Any) -> None:
    victim, thief = mesh.caller(), mesh.caller()
    thief.token = victim.token
    status, problem, _ = await thief.ask("GET", "/v1/whoami")
    assert (status, problem["reason"]) == (401, "bound_to_another_certificate")


async def test_a_refused_caller_is_noted_in_the_decision_log(mesh: Any, wait_until: Any) -> None:
    caller = mesh.caller()
    caller.token = "nonsense"
    status, _, _ = await caller.ask("GET", "/v1/whoami")
    assert status == 401
    await wait_until(mesh.core.records)
    (record,) = mesh.core.records()
    assert record["kind"] == "authentication"
    assert record["reason"] == "token_malformed"
    assert record["claimed_spiffe_id"] == "spiffe://example/app"
    assert record["thumbprint"] == caller.leaf.thumbprint.hex()
    assert "nonsense" not in json.dumps(record)


async def test_a_certificate_of_another_domains_ca_is_refused(
    new_mesh: Any, new_root: Any, tmp_path: Any
) -> None:
    other = new_root("other root", now=time.time())
    (tmp_path / "other.pem").write_bytes(other.pem)
    domains = {
        "example": TrustDomainConfig(tmp_path / "ca.pem"),
        "other": TrustDomainConfig(tmp_path / "other.pem"),
    }
    mesh = await new_mesh(domains=domains)
    leaf = other.leaf("spiffe://example/app")
    status, problem, _ = await mesh.caller(leaf=leaf).ask("GET", "/v1/whoami")
    assert (status, problem["reason"]) == (401, "certificate_untrusted")


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"eku": None}, "certificate_not_for_clients"),
        ({"uris": []}, "certificate_no_spiffe_id"),
        (
            {"uris": ["spiffe://example/app", "spiffe://example/b"]},
            "certificate_spiffe_id_ambiguous",
        ),
        ({"uris": ["spiffe://elsewhere/app"]}, "certificate_unknown_domain"),
    ],
)
async def test_a_certificate_that_proves_no_workload_is_refused_after_the_handshake(
    mesh: Any, changed: dict[str, Any], reason: str
) -> None:
    leaf = mesh.root.leaf("spiffe://example/app", common_name="billing", **changed)
    status, problem, _ = await mesh.caller(leaf=leaf).ask("GET", "/v1/whoami")
    assert (status, problem["reason"]) == (401, reason)


@pytest.mark.parametrize("changed", [{"eku": [SERVER_AUTH]}, {"not_after_s": -60}])
async def test_a_certificate_that_openssl_refuses_does_not_get_through_the_handshake(
    mesh: Any, changed: dict[str, Any]
) -> None:
    leaf = mesh.leaf(**changed)
    data = request(mesh, leaf, "GET /v1/whoami HTTP/1.1", "Connection: close")
    assert await raw(mesh, data, leaf=leaf) == b""


async def test_a_certificate_on_a_new_crl_is_refused_and_its_stream_ended(
    new_mesh: Any, live_root: Any, tmp_path: Path, wait_until: Any
) -> None:
    crl = tmp_path / "crl.pem"
    crl.write_bytes(live_root.crl())
    domain = TrustDomainConfig(tmp_path / "ca.pem", crl="required", crl_file=crl)
    mesh = await new_mesh(domains={"example": domain})
    caller = mesh.caller()
    assert (await caller.ask("GET", "/v1/whoami"))[0] == 200
    async with caller.stream(topic="orders.eu", **{"from": "latest"}) as socket:
        assert (await socket.receive_json())["type"] == "opened"
        draft = tmp_path / "crl.new"
        draft.write_bytes(live_root.crl(caller.leaf.serial))
        draft.replace(crl)
        assert (await socket.receive_json(timeout=60))["code"] == "certificate_revoked"
    status, problem, _ = await caller.ask("GET", "/v1/whoami")
    assert (status, problem["reason"]) == (401, "certificate_revoked")


async def test_a_connection_without_a_certificate_is_refused_in_the_handshake(mesh: Any) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", mesh.port, ssl=mesh.tls())
    writer.write(b"GET /v1/whoami HTTP/1.1\r\nHost: x\r\n\r\n")
    try:
        got = await reader.read()
    except (ssl.SSLError, ConnectionError):
        got = b""
    assert got == b""
    writer.close()
    assert mesh.gatekeeper.listener.handshakes_failed == 1


async def test_only_tls_13_without_resumption(mesh: Any) -> None:
    context = mesh.tls(mesh.leaf())
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asyncio.open_connection("127.0.0.1", mesh.port, ssl=context)
    context = mesh.tls(mesh.leaf())
    _, writer = await asyncio.open_connection("127.0.0.1", mesh.port, ssl=context)
    tls = writer.get_extra_info("ssl_object")
    assert tls.version() == "TLSv1.3"
    assert tls.session is None or not tls.session.has_ticket
    writer.close()


async def test_oversized_headers_are_refused(mesh: Any) -> None:
    leaf = mesh.leaf()
    big = "X-Big: " + "a" * 20_000
    answer = await raw(mesh, request(mesh, leaf, "GET /v1/whoami HTTP/1.1", big), leaf=leaf)
    assert statuses(answer) == [431]
    many = [f"X-{number}: 1" for number in range(100)]
    answer = await raw(mesh, request(mesh, leaf, "GET /v1/whoami HTTP/1.1", *many), leaf=leaf)
    assert statuses(answer) in ([400], [431])


async def test_a_certificate_revoked_during_a_live_connection_is_refused_at_the_next_request(
    mesh: Any, wait_until: Any
) -> None:
    caller = mesh.caller()
    assert (await caller.ask("GET", "/v1/whoami"))[0] == 200
    await mesh.core.revoke(kind="certificate", value=f"{caller.leaf.serial:x}", reason="stolen")
    await wait_until(lambda: mesh.gatekeeper.feed.version == 1)
    status, problem, _ = await caller.ask("GET", "/v1/whoami")
    assert (status, problem["reason"]) == (401, "certificate_revoked")


@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [("token_id", "token-1", "token_revoked"), ("client", "billing", "client_revoked")],
)
async def test_a_revoked_token_or_client_is_refused(
    mesh: Any, wait_until: Any, kind: str, value: str, reason: str
) -> None:
    caller = mesh.caller()
    await mesh.core.revoke(kind=kind, value=value)
    await wait_until(lambda: mesh.gatekeeper.feed.version == 1)
    status, problem, _ = await caller.ask("GET", "/v1/whoami")
    assert (status, problem["reason"]) == (401, reason)


async def test_while_draining_new_work_is_refused_and_the_connection_closed(mesh: Any) -> None:
    caller = mesh.caller()
    assert (await caller.ask("GET", "/v1/whoami"))[0] == 200
    mesh.gatekeeper.dispatch.draining = True
    status, problem, answer = await caller.ask("GET", "/v1/whoami")
    assert (status, problem["code"]) == (503, "draining")
    assert answer.headers["Retry-After"] == "1"
    assert answer.headers["Connection"] == "close"


async def test_an_old_connection_is_closed_with_its_next_answer(new_mesh: Any) -> None:
    mesh = await new_mesh(limits={"connection_age_max": 1e-9})
    status, _, answer = await mesh.caller().ask("GET", "/v1/whoami")
    assert status == 200
    assert answer.headers["Connection"] == "close"


async def test_connections_of_one_principal_are_limited(new_mesh: Any) -> None:
    mesh = await new_mesh(limits={"connections_per_principal_max": 2})
    leaf = mesh.leaf()
    callers = [mesh.caller(leaf=leaf) for _ in range(3)]
    answers = [await caller.ask("GET", "/v1/whoami") for caller in callers]
    assert [status for status, _, _ in answers] == [200, 200, 429]
    assert answers[2][1]["code"] == "too_many_connections"
    other = mesh.caller("reader", "reader")
    assert (await other.ask("GET", "/v1/whoami"))[0] == 200


async def test_an_unexpected_error_is_a_bare_500_with_an_id(
    mesh: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(call: Call) -> web.StreamResponse:
        raise ZeroDivisionError(call.caller.principal)

    gatekeeper = mesh.gatekeeper
    listener = Listener(
        Dispatch(
            {route.name: broken for route in ROUTES},
            gate=gatekeeper.gate,
            connections=gatekeeper.connections,
            metrics=gatekeeper.metrics,
        ),
        Address.parse("127.0.0.1:0"),
        context=gatekeeper.contexts.server,
        connections=gatekeeper.connections,
        limits=ServerLimits(5.0, 10, 5.0, 16384, 64),
    )
    await listener.start()
    url = f"https://127.0.0.1:{listener.port}/v1/whoami"
    status, problem, _ = await mesh.caller().ask("GET", url)
    assert (status, problem["code"]) == (500, "internal")
    assert "billing" not in json.dumps(problem)
    (line,) = [record for record in caplog.records if record.message == "unexpected error"]
    assert problem["error_id"] == line.__dict__["fields"]["error_id"]
    await listener.stop()


def test_the_handlers_must_be_those_of_the_table() -> None:
    with pytest.raises(ValueError, match="not those of the table"):
        Dispatch({}, gate=None, connections=None, metrics=None)  # type: ignore[arg-type]
