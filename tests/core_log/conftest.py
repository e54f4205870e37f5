"""What the tests of the core share: sample frames, certificates, and a core that really runs."""

import asyncio
import io
import os
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import orjson
import pytest
import uvloop
from aiohttp import ClientSession, ClientWebSocketResponse, TCPConnector, UnixConnector, WSMsgType
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from core_log.config import CoreConfig, LogConfig
from core_log.log.files import OsFiles
from core_log.log.journal import Journal
from core_log.log.options import LogOptions
from core_log.service import Core
from hosting.tls import TlsFiles, client_context
from hosting.units import Address
from log_format.body import encode_body
from log_format.envelope import Codec, add_provenance, decode_envelope
from log_format.frame import Frame, decode_frame, encode_frame, iter_frames
from log_format.parts import Producer, Provenance

GATEKEEPER = "spiffe://example/gatekeeper"
SOON_S_MAX = 60.0
"""For what takes moments, on a machine that runs tests on all of its cores."""


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The core runs on uvloop; on machines without it, on the standard loop, as hosting tests."""
    return {"uvloop": uvloop.new_event_loop}


PROVENANCE = Provenance(
    principal="billing",
    issuer="https://issuer.example",
    client_id="billing",
    thumbprint=bytes(32),
    token_id="token",
    decision_id=bytes(16),
    policy_hash=bytes(32),
    rule="orders.*",
    gatekeeper_id=GATEKEEPER,
    received_us=1,
    signature=bytes(64),
)


@dataclass
class Frames:
    """Makes frames as a gatekeeper sends them, and reads what comes back."""

    sequences: dict[tuple[str, int, int], int] = field(default_factory=dict)

    def encoded(
        self,
        topic: str = "orders",
        values: Sequence[bytes] = (b"one",),
        *,
        partition: int = 0,
        producer_id: int = 1,
        epoch: int = 0,
        sequence: int | None = None,
        codec: Codec = Codec.NONE,
        provenance: Provenance | None = PROVENANCE,
        event_us: int = 1,
    ) -> bytes:
        """One frame. Without `sequence`, the one that follows the last frame made here."""
        key = (topic, partition, producer_id)
        first = self.sequences.get(key, 0) if sequence is None else sequence
        self.sequences[key] = first + len(values)
        body = encode_body([event_us] * len(values), values)
        producer = Producer(
            topic,
            partition,
            producer_id,
            epoch,
            first,
            len(values),
            event_us,
            event_us,
            bytes(32),
        )
        frame = encode_frame(producer, body, codec=codec)
        if provenance is None:
            return frame
        envelope = decode_envelope(frame)
        return add_provenance(envelope.raw, provenance) + frame[len(envelope.raw) :]

    def frame(self, *args: Any, **kwargs: Any) -> Frame:
        """The same, decoded."""
        return decode_frame(self.encoded(*args, **kwargs))

    @staticmethod
    def values(data: bytes) -> list[bytes]:
        """All messages in a run of frames, in order."""
        return [value or b"" for frame in iter_frames(data) for value in frame.columns().value]

    @staticmethod
    def offset(data: bytes) -> int:
        """The base offset of a stamped frame."""
        stamp = decode_envelope(data).stamp
        assert stamp is not None
        return stamp.base_offset


@pytest.fixture
def frames() -> Frames:
    """A maker of frames with sequences of its own."""
    return Frames()


@pytest.fixture
def provenance() -> Provenance:
    """What a gatekeeper says about the frames made here, unless told otherwise."""
    return PROVENANCE


class ManualClock:
    """A clock that only moves by hand."""

    def __init__(self) -> None:
        self.us = 1_700_000_000_000_000
        self.seconds = 0.0

    def now_us(self) -> int:
        return self.us

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def manual_clock() -> ManualClock:
    """A clock that only moves by hand."""
    return ManualClock()


@dataclass
class Certificates:
    """A certificate authority in a folder."""

    folder: Path
    name: str = "ca"
    key: ec.EllipticCurvePrivateKey = field(
        default_factory=lambda: ec.generate_private_key(ec.SECP256R1())
    )

    def __post_init__(self) -> None:
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self.name)])
        self.certificate = (
            _builder(subject, self.key, timedelta(hours=1))
            .issuer_name(subject)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self.key, hashes.SHA256())
        )
        self.bundle = self.folder / f"{self.name}.pem"
        self.bundle.write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))

    def issue(
        self, stem: str, *uris: str, lasts: timedelta = timedelta(hours=1), client: bool = True
    ) -> TlsFiles:
        """A certificate for 127.0.0.1 that carries `uris`, and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, stem)])
        names: list[x509.GeneralName] = [
            x509.DNSName("localhost"),
            x509.IPAddress(ip_address("127.0.0.1")),
            *(x509.UniformResourceIdentifier(uri) for uri in uris),
        ]
        usages = [ExtendedKeyUsageOID.SERVER_AUTH]
        if client:
            usages.append(ExtendedKeyUsageOID.CLIENT_AUTH)
        certificate = (
            _builder(subject, key, lasts)
            .issuer_name(self.certificate.subject)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
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


def _builder(
    subject: x509.Name, key: ec.EllipticCurvePrivateKey, lasts: timedelta
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=2))
        .not_valid_after(now + lasts)
    )


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """A certificate authority."""
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def socket_folder() -> Iterator[Path]:
    """A folder with a path short enough for a Unix socket (108 bytes)."""
    with tempfile.TemporaryDirectory(prefix="sg") as folder:
        yield Path(folder)


@dataclass
class RunningCore:
    """A core that serves, and a client that speaks to it as a gatekeeper."""

    core: Core
    config: CoreConfig
    url: str
    session: ClientSession
    ended: "asyncio.Task[int]"

    async def append(self, *frames: bytes) -> list[dict[str, Any]]:
        """The results of one append."""
        status, answer, _ = await self.call("POST", "/v1/append", data=b"".join(frames))
        assert status == 200, answer
        results: list[dict[str, Any]] = answer["results"]
        return results

    async def call(
        self, method: str, path: str, **kwargs: Any
    ) -> tuple[int, Any, Mapping[str, str]]:
        """Status, body (JSON where it is JSON) and headers."""
        if isinstance(kwargs.get("data"), bytes):
            # aiohttp warns of large bodies that are plain bytes.
            kwargs["data"] = io.BytesIO(kwargs["data"])
        async with self.session.request(method, f"{self.url}{path}", **kwargs) as answer:
            if "json" in answer.content_type:
                return answer.status, await answer.json(content_type=None), answer.headers
            return answer.status, await answer.read(), answer.headers

    async def open_stream(self, **message: Any) -> ClientWebSocketResponse:
        """A stream, just after its `open`."""
        socket = await self.session.ws_connect(f"{self.url}/v1/stream", max_msg_size=0)
        await socket.send_json({"type": "open", **message})
        return socket

    async def has_request(self) -> None:
        """Return once a request has come and waits for its answer."""
        async with asyncio.timeout(SOON_S_MAX):
            while not self.core.api._site.in_flight:  # noqa: ASYNC110 - no event tells of it
                await asyncio.sleep(0.002)

    async def stop(self) -> int:
        """Stop the core as SIGTERM does; its exit code."""
        self.core.service.ask_to_stop()
        return await self.ended


StartCore = Callable[..., Any]


@pytest.fixture
async def start_core(
    tmp_path: Path, socket_folder: Path, certificates: Certificates
) -> AsyncIterator[StartCore]:
    """Starts cores: over a Unix socket, or with `tls=True` over mutual TLS."""
    async with AsyncExitStack() as stack:

        async def start(
            *,
            tls: bool = False,
            log: LogConfig | None = None,
            files: Any = None,
            ready: bool = True,
            **changes: Any,
        ) -> RunningCore:
            config = CoreConfig(
                listen=Address("127.0.0.1", 0) if tls else Address(path=socket_folder / "core"),
                health=Address("127.0.0.1", 0),
                data=tmp_path / "data",
                tls=certificates.issue("core", "spiffe://example/core") if tls else None,
                admit=(GATEKEEPER,),
                admit_uids=(os.getuid(),),
                # Small, so that tests need no room to speak of.
                log=log or LogConfig(disk_reserve_bytes=0),
            )
            config = replace(config, **changes)
            core = Core(config, files=files)
            ended = asyncio.create_task(core.service.run())
            await (until_ready(core, ended) if ready else core.service.started.wait())
            if tls:
                files = certificates.issue("gatekeeper", GATEKEEPER)
                context = client_context(files, certificates.bundle)
                session = ClientSession(connector=TCPConnector(ssl=context))
                url = f"https://127.0.0.1:{core.api.address.port}"
            else:
                session = ClientSession(connector=UnixConnector(str(config.listen.path)))
                url = "http://core"
            running = RunningCore(core, config, url, session, ended)
            stack.push_async_callback(_finish, running)
            return running

        yield start


async def until_ready(core: Core, ended: "asyncio.Task[int]") -> None:
    """Return once the core serves; fail if it ends before."""
    while not core.service.readiness().ready:
        assert not ended.done(), f"the core ended with {ended.result()}"
        await asyncio.sleep(0.005)


@pytest.fixture
def eventually() -> Callable[[Callable[[], object]], Any]:
    """Waits until a condition holds that no event tells of."""

    async def eventually(condition: Callable[[], object]) -> None:
        async with asyncio.timeout(SOON_S_MAX):
            while not condition():  # noqa: ASYNC110 - no event tells of it
                await asyncio.sleep(0.002)

    return eventually


async def _finish(running: RunningCore) -> None:
    await running.session.close()
    if not running.ended.done():
        await running.stop()


@pytest.fixture
async def core(start_core: StartCore) -> RunningCore:
    """A running core behind a Unix socket."""
    running: RunningCore = await start_core()
    return running


@dataclass
class MemberClient:
    """A member of a subscription at its end of the socket."""

    socket: ClientWebSocketResponse
    opened: dict[str, Any]
    tokens: dict[int, int] = field(default_factory=dict)

    async def next(self) -> Any:
        """The next message: bytes of a frame, or an object."""
        async with asyncio.timeout(SOON_S_MAX):
            message = await self.socket.receive()
        if message.type is WSMsgType.BINARY:
            return message.data
        assert message.type is WSMsgType.TEXT, message
        said = orjson.loads(message.data)
        if said["type"] in ("assign", "lease"):
            self.tokens[said["partition"]] = said.get("generation", said.get("lease"))
        return said

    async def until(self, kind: str) -> dict[str, Any]:
        """The next message of one type; others are passed over, frames too."""
        while True:
            said = await self.next()
            if isinstance(said, dict) and said["type"] == kind:
                return said

    async def frame(self) -> bytes:
        """The next frame; text messages are passed over."""
        while True:
            said = await self.next()
            if isinstance(said, bytes):
                return said
            assert said["type"] != "end", said

    async def say(self, kind: str, **members: Any) -> None:
        """Send a message."""
        await self.socket.send_json({"type": kind, **members})

    async def ack(
        self, *ranges: tuple[int, int], partition: int = 0, mode: str = "ordered"
    ) -> None:
        """Acknowledge with what was assigned or leased last."""
        name = "generation" if mode == "ordered" else "lease"
        token = {name: self.tokens[partition]}
        await self.say("ack", partition=partition, ranges=[list(r) for r in ranges], **token)

    async def gone(self) -> None:
        """Cut the connection without a word."""
        assert self.socket._response.connection is not None
        transport = self.socket._response.connection.transport
        assert transport is not None
        transport.abort()
        await self.socket.close()


@pytest.fixture
def join() -> Callable[..., Any]:
    """Opens a stream as a member of a subscription."""

    async def join(
        core: RunningCore, subscription: str = "mailer", member: str = "m", **more: Any
    ) -> MemberClient:
        message = {"credit_bytes": 10**8, "owner": "billing", "member": member, **more}
        socket = await core.open_stream(subscription=subscription, **message)
        opened = orjson.loads((await socket.receive()).data)
        return MemberClient(socket, opened)

    return join


@pytest.fixture
def client_tls(certificates: Certificates) -> Callable[[TlsFiles | None], ssl.SSLContext]:
    """A client's TLS context that trusts the core's authority."""
    return lambda files: client_context(files, certificates.bundle)


@dataclass
class Journals:
    """A log's folder, and journals opened on it one after the other, as after so many kills."""

    path: Path
    frames: Frames
    clock: ManualClock

    def open(self, **options: Any) -> Journal:
        """The log as it is now, in segments of some twenty batches."""
        chosen = {"segment_bytes": 16_384, "hot_tail_bytes": 0, **options}
        self.path.mkdir(exist_ok=True)
        return Journal.open(OsFiles(), self.path, LogOptions(**chosen), self.clock)

    def fill(self, leaves: int, *, save: bool = True, journal: Journal | None = None) -> Journal:
        """Append this many batches in groups, and save them if asked to."""
        journal = journal or self.open()
        for begin in range(0, leaves, 40):
            group = journal.group()
            group.add_all(self.frames.frame() for _ in range(min(40, leaves - begin)))
            journal.write(group)
            journal.sync(group)
            journal.apply(group)
        if save:
            journal.save(journal.snapshot())
        return journal


@pytest.fixture
def journals(tmp_path: Path, frames: Frames, manual_clock: ManualClock) -> Journals:
    """A folder in which a log can be opened again and again."""
    return Journals(tmp_path / "log", frames, manual_clock)


@pytest.fixture
def signing_key(tmp_path: Path) -> Path:
    """A file with a private key, as a core needs it."""
    path = tmp_path / "core-signing.pem"
    path.write_bytes(
        Ed25519PrivateKey.generate().private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    path.chmod(0o600)
    return path
