"""Contexts speak TLS 1.3 only, resume nothing, and know whom they let in."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from hosting.tls_contexts import (
    TlsError,
    TlsFiles,
    client_context,
    private_key_warnings,
    read_leaf,
    server_context,
)

SERVER = "spiffe://example.org/server"
CLIENT = "spiffe://example.org/client"
Greet = Callable[[ssl.SSLContext, ssl.SSLContext], Awaitable[bytes]]


@pytest.fixture
async def greet() -> AsyncIterator[Greet]:
    """Let a server with one context greet a client with the other; b"" if it turns it away."""
    servers: list[asyncio.Server] = []

    async def hello(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        writer.close()

    async def connect(server: ssl.SSLContext, client: ssl.SSLContext) -> bytes:
        listening = await asyncio.start_server(hello, "127.0.0.1", 0, ssl=server)
        servers.append(listening)
        port = listening.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client)
        try:
            return await reader.read()
        except (ssl.SSLError, ConnectionError):
            return b""
        finally:
            writer.close()

    yield connect
    for server in servers:
        server.close()


async def test_a_server_and_a_client_of_one_authority_meet(authority: Any, greet: Greet) -> None:
    server = server_context(authority.issue("server", SERVER), client_ca=authority.bundle)
    client = client_context(authority.issue("client", CLIENT), authority.bundle)
    assert await greet(server, client) == b"hello"


async def test_tls_1_2_is_not_spoken(authority: Any, greet: Greet) -> None:
    server = server_context(authority.issue("server", SERVER))
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.load_verify_locations(authority.bundle)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await greet(server, old)


async def test_a_client_without_a_certificate_is_turned_away(authority: Any, greet: Greet) -> None:
    server = server_context(authority.issue("server", SERVER), client_ca=authority.bundle)
    assert await greet(server, client_context(None, authority.bundle)) == b""


async def test_an_optional_certificate_may_be_left_out_but_not_be_anothers(
    new_authority: Callable[[str], Any], greet: Greet
) -> None:
    ours, theirs = new_authority("ours"), new_authority("theirs")
    files = ours.issue("server", SERVER)
    server = server_context(files, client_ca=ours.bundle, client_optional=True)
    assert await greet(server, client_context(None, ours.bundle)) == b"hello"
    assert await greet(server, client_context(theirs.issue("client", CLIENT), ours.bundle)) == b""


async def test_a_client_of_another_authority_is_turned_away(
    new_authority: Callable[[str], Any], greet: Greet
) -> None:
    ours, theirs = new_authority("ours"), new_authority("theirs")
    server = server_context(ours.issue("server", SERVER), client_ca=ours.bundle)
    assert await greet(server, client_context(theirs.issue("client", CLIENT), ours.bundle)) == b""


async def test_several_bundles_are_trusted_together(
    new_authority: Callable[[str], Any], greet: Greet
) -> None:
    ours, theirs = new_authority("ours"), new_authority("theirs")
    server = server_context(ours.issue("server", SERVER), client_ca=[ours.bundle, theirs.bundle])
    for issuer in (ours, theirs):
        client = client_context(issuer.issue("client", CLIENT), ours.bundle)
        assert await greet(server, client) == b"hello"


async def test_a_certificate_for_servers_only_is_no_clients(authority: Any, greet: Greet) -> None:
    server = server_context(authority.issue("server", SERVER), client_ca=authority.bundle)
    files = authority.issue("client", CLIENT, usages=[ExtendedKeyUsageOID.SERVER_AUTH])
    assert await greet(server, client_context(files, authority.bundle)) == b""


async def test_a_client_trusts_the_authority_it_is_given_and_no_other(
    new_authority: Callable[[str], Any], greet: Greet
) -> None:
    ours, theirs = new_authority("ours"), new_authority("theirs")
    server = server_context(theirs.issue("server", SERVER))
    for bundle in (ours.bundle, None):
        with pytest.raises(ssl.SSLCertVerificationError):
            await greet(server, client_context(None, bundle))


def test_no_session_is_ever_resumed(authority: Any) -> None:
    assert server_context(authority.issue("server", SERVER)).num_tickets == 0


def test_a_host_name_is_checked_unless_somebody_else_checks_the_identity(authority: Any) -> None:
    assert client_context(None, authority.bundle).check_hostname
    relaxed = client_context(None, authority.bundle, check_hostname=False)
    assert not relaxed.check_hostname
    assert relaxed.verify_mode is ssl.CERT_REQUIRED


def test_a_missing_file_is_named(authority: Any, tmp_path: Path) -> None:
    files = TlsFiles(tmp_path / "none.pem", tmp_path / "none.key")
    with pytest.raises(TlsError, match=r"none.pem can't be read: no such file"):
        server_context(files)
    with pytest.raises(TlsError, match=r"ca.pem can't be read"):
        client_context(None, tmp_path / "ca.pem")


def test_a_key_of_another_certificate_is_refused(authority: Any) -> None:
    one, two = authority.issue("one", SERVER), authority.issue("two", SERVER)
    with pytest.raises(TlsError, match=r"one.pem and .*two.key .*mismatch"):
        server_context(TlsFiles(one.certificate, two.key))


def test_a_file_without_certificates_is_no_authority(tmp_path: Path, authority: Any) -> None:
    empty = tmp_path / "empty.pem"
    empty.write_text("nothing\n")
    with pytest.raises(TlsError, match="holds no CA certificate"):
        client_context(None, empty)


def test_an_encrypted_key_fails_and_asks_nobody(authority: Any) -> None:
    files = authority.issue("server", SERVER)
    locked = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"password"),
    )
    files.key.write_bytes(locked)
    with pytest.raises(TlsError, match="unencrypted"):
        server_context(files)


def test_a_leaf_tells_its_name_and_dates(authority: Any) -> None:
    leaf = read_leaf(authority.issue("server", SERVER).certificate)
    assert leaf.spiffe_id == SERVER
    assert leaf.not_before < leaf.not_after
    assert read_leaf(authority.issue("plain").certificate).spiffe_id is None


def test_a_file_without_a_certificate_has_no_leaf(tmp_path: Path) -> None:
    path = tmp_path / "x.pem"
    path.write_text("")
    with pytest.raises(TlsError, match="no certificate"):
        read_leaf(path)


def test_a_private_key_that_others_may_read_is_warned_about(authority: Any) -> None:
    key = authority.issue("server", SERVER).key
    assert list(private_key_warnings(key)) == []
    key.chmod(0o640)
    assert list(private_key_warnings(key)) == [
        f"{key} has mode 0640, wider than 0600; run chmod 600 {key}"
    ]
    key.unlink()
    assert list(private_key_warnings(key)) == []
