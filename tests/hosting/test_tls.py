"""Changed files are taken up by the next handshake; bad ones never are."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from hosting.tls import ReloadingContexts, TlsError, TlsFiles, client_context, spiffe_id_of

ONE = "spiffe://example.org/one"
TWO = "spiffe://example.org/two"
Server = Callable[[ssl.SSLContext], Awaitable["Visit"]]
Visit = Callable[[ssl.SSLContext], Awaitable[str | None]]


@pytest.fixture
async def listening() -> AsyncIterator[Server]:
    """A server with a context; visiting tells its SPIFFE id, or None if it turns us away."""
    servers: list[asyncio.Server] = []

    async def hello(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        writer.close()

    async def start(context: ssl.SSLContext) -> Visit:
        server = await asyncio.start_server(hello, "127.0.0.1", 0, ssl=context)
        servers.append(server)
        port = server.sockets[0].getsockname()[1]

        async def visit(client: ssl.SSLContext) -> str | None:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client)
            der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
            try:
                return spiffe_id_of(der) if await reader.read() == b"hello" else None
            except (ssl.SSLError, ConnectionError):
                return None
            finally:
                writer.close()

        return visit

    yield start
    for server in servers:
        server.close()


def replace(files: TlsFiles, by: TlsFiles) -> None:
    """Put one certificate and key in the place of another, as a renewal does."""
    by.certificate.replace(files.certificate)
    by.key.replace(files.key)


async def test_a_renewed_certificate_is_shown_by_the_next_handshake(
    authority: Any, listening: Server
) -> None:
    files = authority.issue("server", ONE)
    contexts = ReloadingContexts(files)
    visit = await listening(contexts.server)
    client = client_context(None, authority.bundle)
    assert await visit(client) == ONE
    replace(files, authority.issue("next", TWO))
    assert contexts.poll()
    assert await visit(client) == TWO
    assert contexts.version == 2


async def test_a_certificate_with_another_kind_of_key_replaces_the_old_one_too(
    authority: Any, listening: Server
) -> None:
    files = authority.issue("server", ONE)
    contexts = ReloadingContexts(files)
    visit = await listening(contexts.server)
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    replace(files, authority.issue("next", TWO, key=key))
    contexts.poll()
    assert await visit(client_context(None, authority.bundle)) == TWO


async def test_an_authority_that_leaves_the_bundle_is_trusted_no_more(
    new_authority: Callable[[str], Any], listening: Server, tmp_path: Path
) -> None:
    old, new = new_authority("old"), new_authority("new")
    bundle = tmp_path / "bundle.pem"
    bundle.write_bytes(old.bundle.read_bytes())
    contexts = ReloadingContexts(old.issue("server", ONE), client_ca=bundle)
    visit = await listening(contexts.server)
    clients = [client_context(one.issue("client", TWO), old.bundle) for one in (old, new)]
    assert [await visit(client) for client in clients] == [ONE, None]
    bundle.write_bytes(old.bundle.read_bytes() + new.bundle.read_bytes())
    contexts.poll()
    assert [await visit(client) for client in clients] == [ONE, ONE]
    bundle.write_bytes(new.bundle.read_bytes())
    contexts.poll()
    assert [await visit(client) for client in clients] == [None, ONE]


async def test_a_half_written_pair_leaves_the_last_good_one_in_use(
    authority: Any, listening: Server, logged: pytest.LogCaptureFixture
) -> None:
    files = authority.issue("server", ONE)
    contexts = ReloadingContexts(files)
    visit = await listening(contexts.server)
    client = client_context(None, authority.bundle)
    renewed = authority.issue("next", TWO)
    renewed.certificate.replace(files.certificate)
    assert [contexts.poll(), contexts.poll()] == [False, False]
    assert await visit(client) == ONE
    readiness = contexts.readiness()
    assert readiness.ready
    assert "mismatch" in str(readiness.detail["error"])
    refused = [one for one in logged.records if one.message == "changed tls files not taken up"]
    assert len(refused) == 1
    renewed.key.replace(files.key)
    assert contexts.poll()
    assert await visit(client) == TWO
    assert "error" not in contexts.readiness().detail


def test_files_that_come_back_unchanged_end_the_warning(authority: Any, tmp_path: Path) -> None:
    files = authority.issue("server", ONE)
    contexts = ReloadingContexts(files)
    aside = tmp_path / "aside"
    files.key.rename(aside)
    contexts.poll()
    assert "error" in contexts.readiness().detail
    aside.rename(files.key)
    assert not contexts.poll()
    assert "error" not in contexts.readiness().detail


def test_unchanged_files_are_not_loaded_again(authority: Any) -> None:
    contexts = ReloadingContexts(authority.issue("server", ONE))
    before = contexts.client
    assert not contexts.poll()
    assert contexts.client is before


def test_the_client_side_is_replaced_whole_with_a_new_version(
    authority: Any, der_of: Callable[[TlsFiles], bytes]
) -> None:
    files = authority.issue("client", ONE)
    contexts = ReloadingContexts(files)
    first = contexts.client
    replace(files, authority.issue("next", TWO))
    contexts.poll()
    second = contexts.client
    assert (first.version, second.version) == (1, 2)
    assert (first.leaf.spiffe_id, second.leaf.spiffe_id) == (ONE, TWO)
    assert first.context is not second.context
    assert second.thumbprint == sha256(der_of(files)).digest()


def test_a_link_that_points_elsewhere_is_a_change(authority: Any, tmp_path: Path) -> None:
    first, second = authority.issue("first", ONE), authority.issue("second", TWO)
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    certificate.symlink_to(first.certificate)
    key.symlink_to(first.key)
    contexts = ReloadingContexts(TlsFiles(certificate, key, authority.bundle))
    for link, target in ((certificate, second.certificate), (key, second.key)):
        link.unlink()
        link.symlink_to(target)
    assert contexts.poll()
    assert contexts.leaf.spiffe_id == TWO


def test_files_that_are_bad_from_the_start_make_no_contexts(tmp_path: Path) -> None:
    with pytest.raises(TlsError):
        ReloadingContexts(TlsFiles(tmp_path / "a", tmp_path / "b"))


def test_production_refuses_a_certificate_of_the_development_domain(authority: Any) -> None:
    files = authority.issue("server", "spiffe://sidegate-dev/core")
    with pytest.raises(TlsError, match=r"server.pem: .*environment: development"):
        ReloadingContexts(files, environment="production")
    assert ReloadingContexts(files, environment="development").version == 1


def test_production_keeps_its_certificate_when_a_development_one_takes_its_place(
    authority: Any,
) -> None:
    files = authority.issue("server", ONE)
    contexts = ReloadingContexts(files, environment="production")
    replace(files, authority.issue("next", "spiffe://sidegate-dev/core"))
    assert not contexts.poll()
    assert contexts.leaf.spiffe_id == ONE


async def test_a_started_component_looks_by_itself(authority: Any) -> None:
    files = authority.issue("server", ONE)
    contexts = ReloadingContexts(files, poll_s=0.001)
    changed: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
    contexts.on_change(lambda taken: changed.set_result(taken.leaf.spiffe_id))
    await contexts.start()
    try:
        replace(files, authority.issue("next", TWO))
        assert await changed == TWO
    finally:
        await contexts.drain()
        await contexts.stop()


def test_a_certificate_outside_its_dates_is_not_ready(authority: Any) -> None:
    contexts = ReloadingContexts(authority.issue("server", ONE, lasts=timedelta(hours=1)))
    now = datetime.now(UTC)
    assert contexts.readiness(now).ready
    late = contexts.readiness(now + timedelta(hours=2))
    assert not late.ready
    assert "renew" in str(late.detail["error"])
    assert not contexts.readiness(now - timedelta(days=9)).ready


def test_a_key_open_to_others_shows_in_readiness_and_is_logged_once(
    authority: Any, logged: pytest.LogCaptureFixture
) -> None:
    files = authority.issue("server", ONE)
    files.key.chmod(0o644)
    contexts = ReloadingContexts(files)
    files.certificate.touch()
    contexts.poll()
    assert "chmod 600" in str(contexts.readiness().detail["warnings"])
    assert [one.levelname for one in logged.records].count("WARNING") == 1
