"""Only gatekeepers get in: on every route, whatever a request says about itself."""

import os
import socket
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientError, ClientSession, TCPConnector, WSServerHandshakeError
from aiohttp.test_utils import TestClient, TestServer
from aiohttp.web import Application, Request, Response
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from core_log.api.admission import (
    Admission,
    NotAdmitted,
    admission_middleware,
    admit_certificate,
    admit_uid,
    peer_uid,
)
from hosting.tls import TlsFiles

GATEKEEPER = "spiffe://example/gatekeeper"
ADMISSION = Admission(frozenset({GATEKEEPER}), frozenset({7}))
NOW = datetime.now(UTC)

ROUTES = [
    ("GET", "/v1/status"),
    ("POST", "/v1/append"),
    ("GET", "/v1/read?topic=_audit"),
    ("GET", "/v1/topics"),
    ("POST", "/v1/topics"),
    ("GET", "/v1/topics/_audit"),
    ("PATCH", "/v1/topics/_audit"),
    ("DELETE", "/v1/topics/_audit"),
    ("GET", "/v1/topics/_audit/offsets"),
    ("GET", "/v1/revocations"),
    ("POST", "/v1/revocations"),
    ("GET", "/v1/stream"),
    ("GET", "/healthz"),
    ("GET", "/no/such/path"),
]


def der(files: TlsFiles) -> bytes:
    return x509.load_pem_x509_certificate(files.certificate.read_bytes()).public_bytes(Encoding.DER)


def test_the_gatekeepers_certificate_is_admitted_until_it_expires(certificates: Any) -> None:
    certificate = der(certificates.issue("ok", GATEKEEPER, lasts=timedelta(minutes=5)))
    end = x509.load_der_x509_certificate(certificate).not_valid_after_utc
    second = timedelta(seconds=1)
    assert admit_certificate(ADMISSION, certificate, end - second) == GATEKEEPER
    with pytest.raises(NotAdmitted, match="has expired"):
        admit_certificate(ADMISSION, certificate, end + second)


@pytest.mark.parametrize(
    ("uris", "problem"),
    [
        ([], "0 URIs"),
        (["spiffe://example/app"], "is not a gatekeeper of this core"),
        ([GATEKEEPER + "/x"], "is not a gatekeeper of this core"),
        ([GATEKEEPER, "spiffe://example/app"], "2 URIs"),
        (["https://example/gatekeeper"], "does not begin with spiffe://"),
    ],
)
def test_other_certificates_are_not(certificates: Any, uris: list[str], problem: str) -> None:
    with pytest.raises(NotAdmitted, match=problem):
        admit_certificate(ADMISSION, der(certificates.issue("other", *uris)), NOW)


def test_no_certificate_is_no_gatekeeper() -> None:
    with pytest.raises(NotAdmitted, match="no client certificate"):
        admit_certificate(ADMISSION, None, NOW)
    with pytest.raises(NotAdmitted, match="can't be read"):
        admit_certificate(ADMISSION, b"junk", NOW)


def test_a_user_is_admitted_by_the_kernels_word() -> None:
    assert admit_uid(ADMISSION, 7) == "uid:7"
    for uid in (0, 8, None):
        with pytest.raises(NotAdmitted):
            admit_uid(ADMISSION, uid)


def test_the_kernel_names_the_user_of_a_unix_socket() -> None:
    left, right = socket.socketpair()
    with left, right:
        assert peer_uid(left) == os.getuid()
    with socket.socket(socket.AF_INET) as other:
        assert peer_uid(other) != os.getuid() or os.getuid() == 0


Tls = Callable[[TlsFiles | None], ssl.SSLContext]


@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_every_route_refuses_another_identity_over_tls(
    tls_core: Any, certificates: Any, client_tls: Tls, method: str, path: str
) -> None:
    context = client_tls(certificates.issue("app", "spiffe://example/app"))
    async with ClientSession(connector=TCPConnector(ssl=context)) as session:
        claims = {"Sidegate-Principal": GATEKEEPER, "X-Forwarded-Client-Cert": GATEKEEPER}
        async with session.request(method, f"{tls_core.url}{path}", headers=claims) as answer:
            assert answer.status == 403
            problem = await answer.json(content_type=None)
            assert problem["code"] == "not_admitted"
            assert answer.headers["Connection"] == "close"


async def test_a_stream_is_refused_to_another_identity(
    tls_core: Any, certificates: Any, client_tls: Tls
) -> None:
    context = client_tls(certificates.issue("app", "spiffe://example/app"))
    async with ClientSession(connector=TCPConnector(ssl=context)) as session:
        with pytest.raises(WSServerHandshakeError) as caught:
            await session.ws_connect(f"{tls_core.url}/v1/stream")
        assert caught.value.status == 403


async def test_a_connection_without_a_certificate_or_of_another_authority_is_closed(
    tls_core: Any, client_tls: Tls, other_authority: Any, certificates: Any
) -> None:
    strangers = [
        None,
        other_authority.issue("stranger", GATEKEEPER),
        certificates.issue("server-only", GATEKEEPER, client=False),
    ]
    for files in strangers:
        context = client_tls(files)
        async with ClientSession(connector=TCPConnector(ssl=context)) as session:
            with pytest.raises((ClientError, ssl.SSLError, ConnectionError)):
                await session.get(f"{tls_core.url}/v1/status")


async def test_tls_12_is_not_spoken(tls_core: Any, certificates: Any, client_tls: Tls) -> None:
    context = client_tls(certificates.issue("old", GATEKEEPER))
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
    async with ClientSession(connector=TCPConnector(ssl=context)) as session:
        with pytest.raises((ClientError, ssl.SSLError, ConnectionError)):
            await session.get(f"{tls_core.url}/v1/status")


async def test_the_gatekeeper_is_served_over_tls(tls_core: Any, frames: Any) -> None:
    status, body, _ = await tls_core.call("GET", "/v1/status")
    assert (status, body["service"]) == (200, "core")
    await tls_core.call("POST", "/v1/topics", json={"name": "orders"})
    results = await tls_core.append(frames.encoded("orders", [b"x"]))
    assert results[0]["base_offset"] == 0
    socket = await tls_core.open_stream(topic="orders", **{"from": "earliest"}, credit_bytes=10**6)
    assert (await socket.receive_json())["type"] == "opened"
    assert frames.values(await socket.receive_bytes()) == [b"x"]
    await socket.close()


@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_every_route_refuses_another_user_on_a_unix_socket(
    start_core: Any, method: str, path: str
) -> None:
    core = await start_core(admit_uids=(54321,))
    status, problem, _ = await core.call(method, path)
    assert (status, problem["code"]) == (403, "not_admitted")


@pytest.fixture
async def tls_core(start_core: Any) -> Any:
    return await start_core(tls=True)


@pytest.fixture
def other_authority(certificates: Any, tmp_path: Path) -> Any:
    return type(certificates)(tmp_path, "other-ca")


async def test_who_is_refused_is_told_once_in_a_while_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def serve(_: Request) -> Response:
        return Response()

    at = [NOW]
    app = Application(middlewares=[admission_middleware(ADMISSION, now=lambda: at[0])])
    app.router.add_get("/", serve)
    async with TestClient(TestServer(app)) as client:
        for seconds in (0, 1, 2, 11):
            at[0] = NOW + timedelta(seconds=seconds)
            # Without hosting's table around it, a refusal is aiohttp's bare 500.
            assert (await client.get("/")).status == 500
    lines = [record for record in caplog.records if record.name == "sidegate.core"]
    assert [line.__dict__["fields"]["refused"] for line in lines] == [1, 3]
    assert "no client certificate" in lines[0].__dict__["fields"]["reason"]
    assert lines[0].levelname == "WARNING"
