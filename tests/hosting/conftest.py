"""What the hosting tests share: both event loops, a certificate authority, sites, raw bytes."""

import asyncio
import json
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
import uvloop
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from hosting.tls import TlsFiles
from hosting.units import Address
from hosting.web import HttpSite

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Every asynchronous test here runs on both event loops that services run on."""
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """uvloop reports what a signal handler raises and goes on, so a test that hangs on it can
    only be ended by a thread."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.timeout(60, method="thread"))


@dataclass
class Authority:
    """A certificate authority that writes PEM files into one folder."""

    folder: Path
    name: str
    key: PrivateKey = field(init=False)
    certificate: x509.Certificate = field(init=False)

    def __post_init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self.name)])
        public = self.key.public_key()
        self.certificate = (
            self._builder(subject, public)
            .issuer_name(subject)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .sign(self.key, hashes.SHA256())
        )
        self.bundle.write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))

    @property
    def bundle(self) -> Path:
        """The authority's own certificate."""
        return self.folder / f"{self.name}.ca.pem"

    def issue(
        self,
        stem: str,
        *uris: str,
        authority: bool = False,
        signs: bool = False,
        usages: Sequence[x509.ObjectIdentifier] = (
            ExtendedKeyUsageOID.SERVER_AUTH,
            ExtendedKeyUsageOID.CLIENT_AUTH,
        ),
        lasts: timedelta = timedelta(hours=1),
        key: PrivateKey | None = None,
    ) -> TlsFiles:
        """A certificate for 127.0.0.1 with `uris`, and its key, as `<stem>.pem` and `.key`."""
        key = ec.generate_private_key(ec.SECP256R1()) if key is None else key
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, stem)])
        names: list[x509.GeneralName] = [
            x509.DNSName("localhost"),
            x509.IPAddress(ip_address("127.0.0.1")),
            *(x509.UniformResourceIdentifier(uri) for uri in uris),
        ]
        certificate = (
            self._builder(subject, key.public_key(), lasts)
            .issuer_name(self.certificate.subject)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .add_extension(_key_usage(signs=signs), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .sign(self.key, hashes.SHA256())
        )
        files = TlsFiles(self.folder / f"{stem}.pem", self.folder / f"{stem}.key", self.bundle)
        files.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        files.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        files.key.chmod(0o600)
        return files

    @staticmethod
    def _builder(
        subject: x509.Name, public: Any, lasts: timedelta = timedelta(hours=1)
    ) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=2))
            .not_valid_after(now + lasts)
        )


def _key_usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


@pytest.fixture
def new_authority(tmp_path: Path) -> Callable[[str], Authority]:
    return lambda name: Authority(tmp_path, name)


@pytest.fixture
def authority(new_authority: Callable[[str], Authority]) -> Authority:
    return new_authority("root")


@pytest.fixture
def der_of() -> Callable[[TlsFiles], bytes]:
    def read(files: TlsFiles) -> bytes:
        certificate = x509.load_pem_x509_certificate(files.certificate.read_bytes())
        return certificate.public_bytes(serialization.Encoding.DER)

    return read


@dataclass
class Answer:
    """One HTTP response, as it came over the wire."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Caller:
    """A client that sends exactly the bytes that it is told to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self) -> Answer:
        """The next response: its head, and as many bytes as it declares."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.split("\r\n")
        pairs = (line.split(": ", 1) for line in lines if line)
        headers = {name.lower(): value for name, value in pairs}
        body = await self.reader.readexactly(int(headers.get("content-length", "0")))
        return Answer(int(first.split()[1]), headers, body)

    async def get(self, path: str, **headers: str) -> Answer:
        extra = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        await self.send(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{extra}\r\n".encode())
        return await self.answer()

    async def ended(self) -> bool:
        """Wait for the server to end the connection; True if nothing came before."""
        try:
            return await self.reader.read() == b""
        except (ConnectionError, ssl.SSLError):
            return True


Call = Callable[..., Awaitable[Caller]]


@pytest.fixture
async def call() -> AsyncIterator[Call]:
    """Connect to a site; connections are closed after the test."""
    callers: list[Caller] = []

    async def connect(site: HttpSite, context: ssl.SSLContext | None = None) -> Caller:
        if site.address.path is not None:
            pair = await asyncio.open_unix_connection(str(site.address.path))
        else:
            pair = await asyncio.open_connection("127.0.0.1", site.port, ssl=context)
        callers.append(Caller(*pair))
        return callers[-1]

    yield connect
    for caller in callers:
        caller.writer.close()
        # The far end may be gone already, which is how some tests end.
        await asyncio.gather(caller.writer.wait_closed(), return_exceptions=True)


Serve = Callable[..., Awaitable[HttpSite]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Start a site on a free port; it is stopped after the test."""
    async with AsyncExitStack() as stack:

        async def start(
            app: web.Application, address: Address | None = None, **settings: Any
        ) -> HttpSite:
            site = HttpSite("test", app, address or Address("127.0.0.1", 0), **settings)
            await site.start()
            stack.push_async_callback(site.stop)
            return site

        yield start


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """The log lines of Sidegate and of the libraries below it."""
    with caplog.at_level(logging.DEBUG, logger="sidegate"):
        yield caplog
